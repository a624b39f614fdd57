"""A sink as a job to supervise: how it is observed and controlled, and what is normal for it.

The one module of the supervisor that knows sinks. Not for its driver's command (`launcher`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from firn.connector.config import SinkConfig
from firn.operations.observer import Observer
from firn.operations.offsets import running_within
from firn.operations.selection import pace_of
from firn.sinks.context import SinkContext
from firn.supervisor.current_credentials import ControlPlace, CurrentControl, CurrentObserver
from firn.supervisor.driver import DriverResult
from firn.supervisor.job import Patience, Policy, SupervisedJob
from firn.supervisor.ports import Launcher


def sink_job(
    name: str,
    read: Callable[[], SinkContext],
    launch: Launcher,
    read_result: Callable[[int, Sequence[str]], DriverResult],
) -> SupervisedJob:
    """A sink as a job. read: its configuration and credentials, as they are now."""
    observer, control = CurrentObserver(lambda: Observer(read())), CurrentControl(lambda: control_place(read()))
    return SupervisedJob("sink", name, launch, read_result, observer, control)


def control_place(context: SinkContext) -> ControlPlace:
    """Where a sink's row in FIRN_SINKS is; its pace is written with each report."""
    return ControlPlace(context.config.name, context.login, context.namespace, pace_of(context.config))


def patience_of(config: SinkConfig, *, stall: float, hang: float, patience: float) -> Patience:
    """What is normal for a sink. patience: FIRN_SINK_PATIENCE_SECONDS, for which a driver may wait in silence."""
    return Patience(
        stall=stall,
        flush=config.buffer.seconds,
        flush_records=config.buffer.records,
        hang=max(hang, patience + 2 * stall),
        heartbeat=config.heartbeat_seconds,
    )


def policy_of(
    config: SinkConfig,
    *,
    by: str,
    patience_seconds: float,
    stall_seconds: float = Patience.stall,
    hang_seconds: float = Patience.hang,
    restarts: int = Policy.restarts,
    keep_alive: bool = Policy.keep_alive,
    lag_records: int = Policy.lag_records,
    lag_seconds: float = Policy.lag_seconds,
) -> Policy:
    """The policy of a sink: what its configuration implies, and what is asked for."""
    return Policy(
        patience=patience_of(config, stall=stall_seconds, hang=hang_seconds, patience=patience_seconds),
        keep_alive=keep_alive,
        by=by,
        alive_within=running_within(config),
        restarts=restarts,
        lag_records=lag_records,
        lag_seconds=lag_seconds,
    )
