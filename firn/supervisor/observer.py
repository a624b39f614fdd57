"""A supervisor's hands in Snowflake: looks with credentials that may change, and writes to FIRN_SINKS.

Not for when (`lookout`, `voice`), nor for the statements (`control`, `observe`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from firn.errors import FirnError, TerminalError
from firn.ledger.control import ControlTable
from firn.ledger.control_record import DesiredState, State
from firn.operations.observation import Observation
from firn.operations.observer import Observer
from firn.operations.selection import pace_of
from firn.sinks.context import SinkContext
from firn.snowflake.connection import connect

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection


class Looks:
    """Looks at one sink for as long as it is supervised. read: its configuration and credentials, as they are now.

    What refuses a look (a key that was rotated) is read again before the next.
    """

    def __init__(self, read: Callable[[], SinkContext]) -> None:
        self._read = read
        self._observer: Observer | None = None

    def look(self, *, ledger: bool = True) -> Observation:
        """As `Observer.look`; raises the errors of `read` too.

        Kafka's fault is `unseen` of what Snowflake said in the same look: a stop is obeyed while Kafka is away.
        """
        if self._observer is None:
            self._observer = Observer(self._read())
        noted: Observation | None = None
        try:
            noted = self._observer.ask_ledger() if ledger else None
            return self._observer.look(ledger=False)
        except FirnError as fault:
            if isinstance(fault, TerminalError):
                self.close()
            if noted is None:
                raise
            return replace(noted, unseen=fault)

    def close(self) -> None:
        """End sessions and clients."""
        observer, self._observer = self._observer, None
        if observer is not None:
            observer.close()


class Notes:
    """Writes FIRN_SINKS, each time in a session of its own: writes are few."""

    def __init__(self, read: Callable[[], SinkContext]) -> None:
        self._read = read

    def report(self, state: State, *, reason: str, next_step: str, stats: Mapping[str, Any]) -> None:
        """What the sink does now, and its pace. Raises the errors of `read` and of Snowflake."""
        context = self._read()
        measured = {**stats, **pace_of(context.config)}
        self._write(
            context, lambda c, records: records.report(c, state, reason=reason, next_step=next_step, stats=measured)
        )

    def request(self, desired: DesiredState, by: str) -> None:
        """What it shall do. Raises as `note` does."""
        self._write(self._read(), lambda c, records: records.request(c, desired, by))

    def _write(self, context: SinkContext, write: Callable[[SnowflakeConnection, ControlTable], None]) -> None:
        records = ControlTable(context.namespace, context.config.name)
        with connect(context.login, query_tag=f"firn supervise {context.config.name}") as connection:
            records.ensure(connection)
            write(connection, records)
