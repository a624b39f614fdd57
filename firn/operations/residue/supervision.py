"""A sink's row in FIRN_SINKS: what is wanted of it, and what its supervisor saw last.

A clean removes it where it says nothing that anybody obeys. A wish (paused, stopped) or a failure that needs a person
keeps scheduled starts from loading the sink's topics again, so that such a row is a person's to delete.
"""

from __future__ import annotations

from dataclasses import dataclass

from snowflake.connector import SnowflakeConnection

from firn.ledger.control import TABLE, ControlTable
from firn.ledger.control_record import ControlRecord, DesiredState, State
from firn.snowflake.identifiers import Namespace
from firn.operations.residue.finding import Finding

_BY_HAND = "DELETE FROM {table} WHERE SINK = '{sink}';"


@dataclass(frozen=True)
class Supervision:
    """The row of a sink, if it has one."""

    namespace: Namespace
    sink: str
    record: ControlRecord | None

    def findings(self) -> list[Finding]:
        """The row."""
        if self.record is None:
            return []
        name, holds_off = self.namespace.qualified(TABLE), _holds_off(self.record)
        forget = _BY_HAND.format(table=name, sink=self.sink)
        by_hand = f"{forget} -- then a schedule of Prefect that names the sink starts it again" if holds_off else ""
        return [Finding("supervisor's row", name, 1, None, holds_off or "what its supervisor keeps", by_hand)]

    def remove(self, connection: SnowflakeConnection) -> None:
        """Delete the row, unless somebody wants something since that a start must know of."""
        if self.record is not None:
            ControlTable(self.namespace, self.sink).remove(connection)


def look_at_supervision(connection: SnowflakeConnection, namespace: Namespace, sink: str) -> Supervision:
    """Read the row; also where there is no table."""
    return Supervision(namespace, sink, ControlTable(namespace, sink).read(connection))


def _holds_off(record: ControlRecord) -> str:
    """Why a start by schedule does nothing; empty where it starts the sink."""
    if record.desired is not DesiredState.RUNNING:
        by = f" by {record.desired_by}" if record.desired_by else ""
        return f"{record.desired.value}{by}: it keeps schedules from starting the sink"
    return "failed: it keeps schedules from starting the sink" if record.state is State.FAILED else ""
