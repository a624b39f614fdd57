"""The sink flow: deploys and supervises one sink, tells of it in Prefect, and returns its report.

How a sink is supervised: `flows.supervision.attended`, `firn.supervisor`. `firn sink run` without a Prefect server:
`flows.cli.sink.with_prefect`.
"""

from __future__ import annotations

import contextvars
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, cast

from prefect import flow, get_run_logger
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Cancelled
from pydantic import Field

from firn.connector.parse import load_sink_config
from firn.connector.references import Resolver
from firn.errors import FirnError
from firn.ledger.control import requester
from firn.ledger.control_record import DesiredState
from firn.secrets import secret_reader
from firn.settings import load_settings
from firn.supervisor.observer import Notes
from firn.supervisor.policy import Policy, policy_of
from firn.supervisor.result import Outcome
from firn.supervisor.stall_detector import Patience
from flows.prefect_ui.events import emit_sink_event
from flows.prefect_ui.forms import described
from flows.prefect_ui.publishing import Log, PrefectTelling, outlive_reader
from flows.prefect_ui.sink_artifact import SinkArtifact
from flows.supervision.attended import supervise
from flows.supervision.driver import EarlyDriver, Place, report_of, run_once
from spark_jobs.sink.telemetry.progress import RunReport

DEFAULT_CONFIG = Path("connectors/order-events.json")
Action = Literal["run", "pause", "resume", "stop"]
_WANTED = {"pause": DesiredState.PAUSED, "resume": DesiredState.RUNNING, "stop": DesiredState.STOPPED}
_ANSWER_SECONDS = 3.0
_RETRIES = 2
log = logging.getLogger(__name__)


@dataclass
class _Call:
    """What goes between the flow and `run_flow` past Prefect: the driver that runs already, and how the run ended."""

    early: EarlyDriver | None = None
    outcome: Outcome | None = None


_call: contextvars.ContextVar[_Call | None] = contextvars.ContextVar("call", default=None)


@flow(name="sink", description="Kafka topics into Snowflake tables, exactly once: one Spark job, supervised.")
@described
def sink(
    config: Annotated[Path, Field(description="Connector file of the sink, on the worker's machine.")] = DEFAULT_CONFIG,
    once: Annotated[bool, Field(description="Take what is available now and end. Off: run until stopped.")] = True,
    action: Annotated[
        Action, Field(description="run supervises the sink; pause, resume and stop tell whoever does, and end.")
    ] = "run",
    keep_alive: Annotated[
        bool,
        Field(description="For schedules: start nothing that was stopped or failed for good; watch a run that lives."),
    ] = False,
    stall_seconds: Annotated[
        float, Field(gt=0, description="Stalled: records wait and no committed offset has moved for so long.")
    ] = Patience.stall,
    hang_seconds: Annotated[
        float, Field(gt=0, description="A driver that gives no sign of life in the ledger for so long is killed.")
    ] = Patience.hang,
    restarts: Annotated[
        int, Field(ge=0, description="Restarts in a row without progress before the run fails.")
    ] = Policy.restarts,
    lag_records: Annotated[
        int, Field(ge=0, description="Event lagging from so many records on; 0: none.")
    ] = Policy.lag_records,
    lag_seconds: Annotated[
        float, Field(ge=0, description="Event lagging where a record waits so long; 0: none.")
    ] = Policy.lag_seconds,
) -> RunReport:
    """Run a sink: all that is available (`once`), or until it is stopped. Raises the error that it failed with."""
    outlive_reader()
    settings, logger, call = load_settings(), get_run_logger(), _call.get() or _Call()
    sink_config = load_sink_config(config, Resolver(secret_reader(settings)))
    place = Place(config, settings, sink_config.name, deployed=_deployed(), early=call.early)
    if action != "run":
        Notes(place.read).request(_WANTED[action], requester())
        logger.info("Sink %s: %s was asked for.", place.sink, action)
        return RunReport(place.sink)
    if once:
        return _concluded(run_once(place), place.sink, logger, call)
    policy = policy_of(
        sink_config,
        stall_seconds=stall_seconds,
        hang_seconds=hang_seconds,
        patience_seconds=settings.sink_patience_seconds,
        restarts=restarts,
        keep_alive=keep_alive,
        by=requester(),
        lag_records=lag_records,
        lag_seconds=lag_seconds,
    )
    telling = PrefectTelling(logger, emit_sink_event, SinkArtifact().publish, _cancelled)
    return _concluded(supervise(place, policy, telling, logger), place.sink, logger, call)


def run_flow(place: Place, *, once: bool) -> RunReport:
    """The flow, called by a person's command; how the run ended does not hang on Prefect.

    Raises the error that the sink failed with.
    """
    call = _Call(place.early)
    token = _call.set(call)
    try:
        with temporary_settings(updates={PREFECT_CLIENT_MAX_RETRIES: _RETRIES}):
            return sink(config=place.config, once=once)
    except FirnError:
        raise
    except Exception as error:
        if call.outcome is None:
            raise
        log.warning("Prefect was not told how the run ended: %s", type(error).__name__)
        return report_of(call.outcome, place.sink)
    finally:
        _call.reset(token)


def _deployed() -> bool:
    """Whether a Prefect worker runs this: SIGTERM is then how it cancels the flow, which must end as cancelled."""
    context = FlowRunContext.get()
    return bool(context and context.flow_run and context.flow_run.deployment_id)


def _cancelled() -> bool:
    """Whether this run was cancelled in Prefect. Raises what its client raises where the server is away."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return False
    with (
        temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
        get_client(sync_client=True, httpx_settings={"timeout": _ANSWER_SECONDS}) as client,
    ):
        state = client.read_flow_run(context.flow_run.id).state
    return state is not None and (state.is_cancelling() or state.is_cancelled())


def _concluded(outcome: Outcome, name: str, logger: Log, call: _Call) -> RunReport:
    call.outcome = outcome
    if outcome.kind == "skipped":
        logger.info("%s", outcome.sentence)
    if outcome.kind == "cancelled":
        # A state that a flow returns becomes the run's.
        return cast("RunReport", Cancelled(message=outcome.sentence))
    return report_of(outcome, name)
