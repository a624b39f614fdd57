"""The sink flow: deploys and supervises one sink, tells of it in Prefect, and returns its report.

`run_sink` calls the flow where a Prefect server answers, and the same code as a plain function where none does. How a
sink is supervised: `flows.supervision`, `spark_jobs.supervise`.
"""

from __future__ import annotations

import contextvars
import logging
from pathlib import Path
from typing import Annotated, Literal, cast

import httpx
from prefect import flow, get_run_logger
from prefect.client.orchestration import get_client
from prefect.context import FlowRunContext
from prefect.exceptions import MissingContextError
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Cancelled
from pydantic import Field, TypeAdapter

from firn.connector.parse import load_sink_config
from firn.connector.references import Resolver
from firn.errors import FirnError
from firn.settings import load_settings
from flows.artifacts import SinkArtifact
from flows.events import emit_sink_event
from flows.parameters import described
from flows.supervision import Place, by_whom, run_once, supervise
from flows.telling import Log, LogTelling, PrefectTelling, outlive_reader
from spark_jobs.sink.control import Wanted
from spark_jobs.sink.progress import RunReport
from spark_jobs.supervise.notes import Notes
from spark_jobs.supervise.outcome import Outcome
from spark_jobs.supervise.policy import policy_of

DEFAULT_CONFIG = Path("connectors/order-events.json")
Action = Literal["run", "pause", "resume", "stop"]
_WANTED = {"pause": Wanted.PAUSED, "resume": Wanted.RUNNING, "stop": Wanted.STOPPED}
_HEALTH_SECONDS = 3.0
_RETRIES = 2
_outcome: contextvars.ContextVar[list[Outcome] | None] = contextvars.ContextVar("outcome", default=None)
log = logging.getLogger(__name__)


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
    ] = 45.0,
    hang_seconds: Annotated[
        float, Field(gt=0, description="A driver that gives no sign of life in the ledger for so long is killed.")
    ] = 600.0,
    restarts: Annotated[int, Field(ge=0, description="Restarts in a row without progress before the run fails.")] = 10,
    lag_records: Annotated[int, Field(ge=0, description="Event lagging from so many records on; 0: none.")] = 0,
    lag_seconds: Annotated[
        float, Field(ge=0, description="Event lagging where a record waits so long; 0: none.")
    ] = 300.0,
) -> RunReport:
    """Run a sink: all that is available (`once`), or until it is stopped. Raises the error that it failed with."""
    outlive_reader()
    settings, logger = load_settings(), _logger()
    sink_config = load_sink_config(config, Resolver(settings))
    place = Place(config, settings, sink_config.name, deployed=_deployed())
    if action != "run":
        Notes(place.read).want(_WANTED[action], by_whom())
        logger.info("Sink %s: %s was asked for.", place.sink, action)
        return RunReport(place.sink)
    if once:
        return _concluded(run_once(place), place.sink, logger)
    policy = policy_of(
        sink_config,
        stall_seconds=stall_seconds,
        hang_seconds=hang_seconds,
        patience_seconds=settings.sink_patience_seconds,
        restarts=restarts,
        keep_alive=keep_alive,
        by=by_whom(),
        lag_records=lag_records,
        lag_seconds=lag_seconds,
    )
    return _concluded(supervise(place, policy, _telling(logger), logger), place.sink, logger)


def run_sink(config: Path, *, once: bool) -> RunReport:
    """The flow where a Prefect server answers, else the same code without it; how it ended does not hang on Prefect.

    Raises the error that the sink failed with.
    """
    for name in ("flows.driver", "flows.sink"):
        logging.getLogger(name).setLevel(logging.INFO)
    if not _prefect_answers():
        return sink.fn(config=config, once=once)
    ended: list[Outcome] = []
    token = _outcome.set(ended)
    try:
        with temporary_settings(updates={PREFECT_CLIENT_MAX_RETRIES: _RETRIES}):
            return sink(config=config, once=once)
    except FirnError:
        raise
    except Exception as error:
        if not ended:
            raise
        log.warning("Prefect was not told how the run ended: %s", type(error).__name__)
        return _report(ended[0], "")
    finally:
        _outcome.reset(token)


def _prefect_answers() -> bool:
    """Whether a Prefect server is configured and answers; one that Prefect would start itself takes half a minute."""
    url = PREFECT_API_URL.value()
    if not url:
        return False
    try:
        httpx.get(f"{url.rstrip('/')}/health", timeout=_HEALTH_SECONDS)
    except httpx.HTTPError:
        log.warning("Prefect does not answer at %s: the sink runs without it.", url)
        return False
    return True


def _deployed() -> bool:
    """Whether a Prefect worker runs this: SIGTERM is then how it cancels the flow, which must end as cancelled."""
    context = FlowRunContext.get()
    return bool(context and context.flow_run and context.flow_run.deployment_id)


def _logger() -> Log:
    try:
        return get_run_logger()
    except MissingContextError:
        return log


def _telling(logger: Log) -> LogTelling:
    """Who hears of a supervision: Prefect, where this is a flow run."""
    if FlowRunContext.get() is None:
        return LogTelling(logger)
    return PrefectTelling(logger, emit_sink_event, SinkArtifact().publish, _cancelled)


def _cancelled() -> bool:
    """Whether this run was cancelled in Prefect. Raises what its client raises where the server is away."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return False
    with (
        temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}),
        get_client(sync_client=True, httpx_settings={"timeout": _HEALTH_SECONDS}) as client,
    ):
        state = client.read_flow_run(context.flow_run.id).state
    return state is not None and (state.is_cancelling() or state.is_cancelled())


def _concluded(outcome: Outcome, name: str, logger: Log) -> RunReport:
    if (ended := _outcome.get()) is not None:
        ended.append(outcome)
    if outcome.kind == "skipped":
        logger.info("%s", outcome.sentence)
    if outcome.kind == "cancelled":
        # A state that a flow returns becomes the run's.
        return cast("RunReport", Cancelled(message=outcome.sentence))
    return _report(outcome, name)


def _report(outcome: Outcome, name: str) -> RunReport:
    if outcome.error is not None:
        raise outcome.error
    return TypeAdapter(RunReport).validate_python(outcome.report) if outcome.report else RunReport(name)
