"""A sink as a job to supervise: how it is observed and controlled, and what is normal for it.

The one module of the supervisor that knows sinks. Not for its driver's command (`launcher`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from firn.connector.config import SinkConfig
from firn.errors import FirnError, TerminalError
from firn.ledger.control import ControlTable
from firn.ledger.control_record import DesiredState, Diagnosis
from firn.operations.observation import Depth, Observation
from firn.operations.observer import Observer
from firn.operations.offsets import running_within
from firn.operations.selection import pace_of
from firn.sinks.context import SinkContext
from firn.snowflake.connection import connect
from firn.supervisor.driver import DriverResult
from firn.supervisor.job import Patience, Policy, SupervisedJob
from firn.supervisor.ports import Launcher

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection


def sink_job(
    name: str,
    read: Callable[[], SinkContext],
    launch: Launcher,
    read_result: Callable[[int, Sequence[str]], DriverResult],
) -> SupervisedJob:
    """A sink as a job. read: its configuration and credentials, as they are now."""
    return SupervisedJob("sink", name, launch, read_result, SinkObserver(read), SinkControl(read))


class SinkObserver:
    """Looks at one sink for as long as it is supervised, with credentials that may change.

    After a refusal (a key that was rotated) the next look reads them again.
    """

    def __init__(self, read: Callable[[], SinkContext]) -> None:
        self._read = read
        self._observer: Observer | None = None

    def look(self, depth: Depth = Depth.LEDGER) -> Observation:
        """As `Observer.look`; raises the errors of `read` too.

        Kafka's fault is `unseen` of what Snowflake says in the same look: a stop is followed while Kafka is away.
        """
        observer = self._observer = self._observer or Observer(self._read())
        try:
            return observer.look(depth)
        except FirnError as fault:
            if isinstance(fault, TerminalError):
                self._observer = None
            try:
                said = self._said(observer, fault)
            finally:
                if self._observer is None:
                    observer.close()
            return said

    @staticmethod
    def _said(observer: Observer, fault: FirnError) -> Observation:
        """What Snowflake says where Kafka does not; raises `fault` where it is Snowflake's."""
        if observer.asked is None:
            raise fault
        said = observer.remembered() if observer.asked else observer.ask_snowflake(Depth.REQUESTS)
        if said is None:
            raise fault
        return replace(said, unseen=fault)

    def close(self) -> None:
        """End sessions and clients."""
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.close()


class SinkControl:
    """Writes a sink's row in FIRN_SINKS, each time in a session of its own: writes are few."""

    def __init__(self, read: Callable[[], SinkContext]) -> None:
        self._read = read

    def report(self, diagnosis: Diagnosis, stats: Mapping[str, Any]) -> None:
        """How the sink is, with its figures and its pace. Raises the errors of `read` and of Snowflake."""
        context = self._read()
        figures = {**stats, **pace_of(context.config)}
        said = {"reason": diagnosis.reason, "next_step": diagnosis.next_step}
        self._write(context, lambda connection, table: table.report(connection, diagnosis.state, **said, stats=figures))

    def request(self, desired: DesiredState, by: str) -> None:
        """Set the desired state. Raises as `report` does."""
        self._write(self._read(), lambda connection, table: table.request(connection, desired, by))

    def _write(self, context: SinkContext, write: Callable[[SnowflakeConnection, ControlTable], None]) -> None:
        table = ControlTable(context.namespace, context.config.name)
        with connect(context.login, query_tag=f"firn supervise {context.config.name}") as connection:
            table.ensure(connection)
            write(connection, table)


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
