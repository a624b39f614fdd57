"""A job's observer and control whose credentials may change while it is supervised: read again after a refusal.

Not for what is looked at (`firn.operations`), nor for what makes a sink or an export such a job (`sink_job`,
`export_job`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from firn.errors import FirnError, TerminalError
from firn.ledger.control import ControlTable
from firn.ledger.control_record import DesiredState, Diagnosis
from firn.operations.observation import Depth, Observation
from firn.snowflake.connection import SnowflakeLogin, connect
from firn.snowflake.identifiers import Namespace

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection


class Looking(Protocol):
    """An observer that uses its credentials as they were when it was made."""

    @property
    def asked(self) -> Depth | None:
        """How deep the last look asked Snowflake; None where that met an error."""
        ...

    def look(self, depth: Depth) -> Observation:
        """How the job stands."""
        ...

    def ask_snowflake(self, depth: Depth) -> Observation:
        """What Snowflake alone says."""
        ...

    def remembered(self) -> Observation | None:
        """What Snowflake said last."""
        ...

    def close(self) -> None:
        """End sessions and clients."""
        ...


class CurrentObserver:
    """Looks at one job for as long as it is supervised, with credentials that may change.

    After a refusal (a key that was rotated) the next look makes another observer. make: raises what reading them does.
    """

    def __init__(self, make: Callable[[], Looking]) -> None:
        self._make = make
        self._observer: Looking | None = None

    def look(self, depth: Depth = Depth.LEDGER) -> Observation:
        """As the observer's own; raises the errors of `make` too.

        Kafka's fault is `unseen` of what Snowflake says in the same look: a stop is followed while Kafka is away.
        """
        observer = self._observer = self._observer or self._make()
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
    def _said(observer: Looking, fault: FirnError) -> Observation:
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


@dataclass(frozen=True)
class ControlPlace:
    """Where a job's row in FIRN_SINKS is. name: the row's; figures: what is written with each report."""

    name: str
    login: SnowflakeLogin
    namespace: Namespace
    figures: Mapping[str, Any] = field(default_factory=dict)


class CurrentControl:
    """Writes a job's row in FIRN_SINKS, each time in a session of its own: writes are few."""

    def __init__(self, read: Callable[[], ControlPlace]) -> None:
        self._read = read

    def report(self, diagnosis: Diagnosis, stats: Mapping[str, Any]) -> None:
        """How the job is, with its figures. Raises the errors of `read` and of Snowflake."""
        place = self._read()
        figures = {**stats, **place.figures}
        said = {"reason": diagnosis.reason, "next_step": diagnosis.next_step}
        self._write(place, lambda connection, table: table.report(connection, diagnosis.state, **said, stats=figures))

    def request(self, desired: DesiredState, by: str) -> None:
        """Set the desired state. Raises as `report` does."""
        self._write(self._read(), lambda connection, table: table.request(connection, desired, by))

    @staticmethod
    def _write(place: ControlPlace, write: Callable[[SnowflakeConnection, ControlTable], None]) -> None:
        table = ControlTable(place.namespace, place.name)
        with connect(place.login, query_tag=f"firn supervise {place.name}") as connection:
            table.ensure(connection)
            write(connection, table)
