"""The export flow: runs one export, once or under supervision, shows it in Prefect, and returns its report.

How an export is supervised: `flows.supervision` and `firn.supervisor`. Pause, resume and stop: `flows.export_control`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

from prefect import flow, get_run_logger
from prefect.states import Cancelled
from pydantic import Field

from firn.connector.export.parse import load_export_config
from firn.connector.references import Resolver
from firn.ledger.control import requester
from firn.operations.exports.run_report import ExportReport
from firn.secrets import secret_reader
from firn.settings import load_settings
from firn.supervisor.export_job import export_policy
from firn.supervisor.job import Patience, Policy
from flows.prefect_ui.events import emit_export_event
from flows.prefect_ui.flow_run import is_cancelled, is_deployed
from flows.prefect_ui.forms import described
from flows.prefect_ui.job_artifact import JobArtifact
from flows.prefect_ui.publishing import PrefectPublisher, outlive_reader
from flows.supervision.attended import supervise
from flows.supervision.driver import EXPORT, Handover, Place, report_of, run_once

DEFAULT_CONFIG = Path("connectors/order-status.json")


@flow(name="export", description="Changes in Snowflake to Kafka topics, exactly once: one Spark job, supervised.")
@described
def export(
    config: Annotated[
        Path, Field(description="Connector file of the export, on the worker's machine.")
    ] = DEFAULT_CONFIG,
    once: Annotated[bool, Field(description="Publish what has changed by now, then end. Off: run until stopped.")] = (
        True
    ),
    keep_alive: Annotated[
        bool,
        Field(description="For schedules: do not start a stopped or failed export, and only watch one that runs."),
    ] = False,
    stall_seconds: Annotated[
        float,
        Field(gt=0, description="Seconds beyond a poll without a batch while changes wait, after which it is stalled."),
    ] = Patience.stall,
    hang_seconds: Annotated[
        float, Field(gt=0, description="Seconds without a sign of life after which the driver is killed.")
    ] = Patience.hang,
    restarts: Annotated[
        int, Field(ge=0, description="Restarts in a row without progress after which the run fails.")
    ] = Policy.restarts,
    lag_records: Annotated[
        int, Field(ge=0, description="Waiting rows from which on the event lagging is sent; 0: never.")
    ] = Policy.lag_records,
    lag_seconds: Annotated[
        float, Field(ge=0, description="Age of the oldest unpublished change from which on lagging is sent; 0: never.")
    ] = Policy.lag_seconds,
) -> ExportReport:
    """Run an export: all that has changed (`once`), or until it is stopped. Raises the error that it failed with."""
    outlive_reader()
    settings, logger, handover = load_settings(), get_run_logger(), Handover.current()
    export_config = load_export_config(config, Resolver(secret_reader(settings)))
    place = Place(EXPORT, config, settings, export_config.name, deployed=is_deployed(), early=handover.early)
    if once:
        result = run_once(place)
    else:
        policy = export_policy(
            export_config,
            by=requester(),
            stall_seconds=stall_seconds,
            hang_seconds=hang_seconds,
            restarts=restarts,
            keep_alive=keep_alive,
            lag_records=lag_records,
            lag_seconds=lag_seconds,
        )
        publisher = PrefectPublisher(logger, emit_export_event, JobArtifact().publish, is_cancelled)
        result = supervise(place, policy, publisher, logger)
    handover.result = result
    if result.kind == "cancelled":  # a state that a flow returns becomes the state of its run
        return cast("ExportReport", Cancelled(message=result.sentence))
    return report_of(result, ExportReport, place.name)
