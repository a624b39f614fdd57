"""The sink flow: runs one sink, once or under supervision, shows it in Prefect, and returns its report.

How a sink is supervised: `flows.supervision` and `firn.supervisor`. Pause, resume and stop: `flows.sink_control`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

from prefect import flow, get_run_logger
from prefect.states import Cancelled
from pydantic import Field

from firn.connector.parse import load_sink_config
from firn.connector.references import Resolver
from firn.ledger.control import requester
from firn.operations.run_report import RunReport
from firn.secrets import secret_reader
from firn.settings import load_settings
from firn.supervisor.job import Patience, Policy
from firn.supervisor.sink_job import policy_of
from flows.prefect_ui.connector_source import connector_file
from flows.prefect_ui.events import emit_sink_event
from flows.prefect_ui.flow_run import is_cancelled, is_deployed
from flows.prefect_ui.forms import described
from flows.prefect_ui.job_artifact import JobArtifact
from flows.prefect_ui.publishing import PrefectPublisher, outlive_reader
from flows.supervision.attended import supervise
from flows.supervision.driver import SINK, Handover, Place, report_of, run_once

DEFAULT_CONFIG = Path("connectors/order-events.json")


@flow(name="sink", description="Kafka topics into Snowflake tables, exactly once: one Spark job, supervised.")
@described
def sink(
    config: Annotated[
        str,
        Field(
            description="Connector of the sink: a file on the worker's machine, JSON, s3://bucket/key, or the name of "
            "a Prefect variable. Credentials only as references."
        ),
    ] = str(DEFAULT_CONFIG),
    once: Annotated[bool, Field(description="Load what is available now, then end. Off: run until stopped.")] = True,
    keep_alive: Annotated[
        bool,
        Field(description="For schedules: do not start a stopped or failed sink, and only watch one that runs."),
    ] = False,
    stall_seconds: Annotated[
        float, Field(gt=0, description="Seconds without a commit while records wait after which a sink is stalled.")
    ] = Patience.stall,
    hang_seconds: Annotated[
        float, Field(gt=0, description="Seconds without a sign of life after which the driver is killed.")
    ] = Patience.hang,
    restarts: Annotated[
        int, Field(ge=0, description="Restarts in a row without progress after which the run fails.")
    ] = Policy.restarts,
    lag_records: Annotated[
        int, Field(ge=0, description="Lag in records from which on the event lagging is sent; 0: never.")
    ] = Policy.lag_records,
    lag_seconds: Annotated[
        float, Field(ge=0, description="Age of the oldest waiting record from which on lagging is sent; 0: never.")
    ] = Policy.lag_seconds,
) -> RunReport:
    """Run a sink: all that is available (`once`), or until it is stopped. Raises the error that it failed with."""
    outlive_reader()
    settings, logger, handover = load_settings(), get_run_logger(), Handover.current()
    file = connector_file(config, settings)
    sink_config = load_sink_config(file, Resolver(secret_reader(settings)))
    place = Place(SINK, file, settings, sink_config.name, deployed=is_deployed(), early=handover.early)
    if once:
        result = run_once(place)
    else:
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
        publisher = PrefectPublisher(logger, emit_sink_event, JobArtifact().publish, is_cancelled)
        result = supervise(place, policy, publisher, logger)
    handover.result = result
    if result.kind == "cancelled":  # a state that a flow returns becomes the state of its run
        return cast("RunReport", Cancelled(message=result.sentence))
    return report_of(result, RunReport, place.name)
