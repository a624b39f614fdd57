"""An export as a job to supervise: how it is observed and controlled, and what is normal for it.

The one module of the supervisor that knows exports. Not for its driver's command (`launcher`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from firn.connector.export.config import ExportConfig
from firn.exports import names
from firn.exports.context import ExportContext
from firn.operations.exports.liveness import ALIVE_SECONDS
from firn.operations.exports.observer import SIGN_SECONDS, ExportObserver, pace_of_export
from firn.supervisor.current_credentials import ControlPlace, CurrentControl, CurrentObserver
from firn.supervisor.driver import DriverResult
from firn.supervisor.job import Patience, Policy, SupervisedJob
from firn.supervisor.ports import Launcher


def export_job(
    name: str,
    read: Callable[[], ExportContext],
    launch: Launcher,
    read_result: Callable[[int, Sequence[str]], DriverResult],
) -> SupervisedJob:
    """An export as a job. read: its configuration and credentials, as they are now."""
    observer = CurrentObserver(lambda: ExportObserver(read()))
    return SupervisedJob(
        "export", name, launch, read_result, observer, CurrentControl(lambda: export_control_place(read()))
    )


def export_control_place(context: ExportContext) -> ControlPlace:
    """Where an export's row in FIRN_SINKS is."""
    return ControlPlace(names.control_name(context.config.name), context.login, context.namespace)


def export_policy(
    config: ExportConfig,
    *,
    by: str,
    stall_seconds: float = Patience.stall,
    hang_seconds: float = Patience.hang,
    restarts: int = Policy.restarts,
    keep_alive: bool = Policy.keep_alive,
    lag_records: int = Policy.lag_records,
    lag_seconds: float = Policy.lag_seconds,
) -> Policy:
    """The policy of an export: what its configuration implies, and what is asked for. Changes wait for a poll."""
    pace = pace_of_export(config)
    return Policy(
        patience=Patience(
            stall=stall_seconds,
            flush=pace.company_seconds,
            flush_records=pace.company_records,
            hang=hang_seconds + pace.company_seconds,
            heartbeat=SIGN_SECONDS,
        ),
        keep_alive=keep_alive,
        by=by,
        alive_within=ALIVE_SECONDS,
        restarts=restarts,
        lag_records=lag_records,
        lag_seconds=lag_seconds,
    )
