"""A sink's rows in Firn's own tables: owner and positions in FIRN_OFFSETS, reports in FIRN_SINKS, and FIRN_REQUESTS.

A clean removes the rows of the last two only where no start has to know of them. A request of a person (paused,
stopped) or a failure that needs a person keeps scheduled starts from loading the sink's topics again: a person deletes
such a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from snowflake.connector import SnowflakeConnection

from firn.kafka.partitions import TopicPartition
from firn.ledger import requests
from firn.ledger.control import TABLE, ControlTable
from firn.ledger.control_record import ControlRecord, DesiredState, State
from firn.ledger.owner import Owner
from firn.ledger.positions import Position
from firn.ledger.retirement import LedgerRetirement
from firn.operations.residue.finding import Finding
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace

_DELETE = "DELETE FROM {table} WHERE SINK = '{sink}';"


@dataclass(frozen=True)
class LedgerRecords:
    """What the ledger says of a sink; nothing before its first claim. ledger_id: None where there is no ledger."""

    owner: Owner | None
    positions: Mapping[TopicPartition, Position]
    ledger_id: str | None

    def findings(self) -> list[Finding]:
        """The owner row, and a row a partition."""
        found = []
        if self.owner:
            targets = ", ".join(f"{topic} into {table}" for topic, table in sorted(self.owner.targets.items()))
            details = ["a clean has begun and not ended"] if self.owner.cleaning else []
            details += [self.owner.sign_of_life, *([targets] if targets else [])]
            found.append(Finding("ledger: owner", f"epoch {self.owner.epoch}", 1, detail="; ".join(details)))
        return found + [
            Finding("ledger: position", str(where), 1, detail=f"next offset {at.next_offset}, {_updated(at)}")
            for where, at in sorted(self.positions.items())
        ]


def find_ledger_records(connection: SnowflakeConnection, ledger: LedgerRetirement) -> LedgerRecords:
    """Read the ledger; also where there is none."""
    try:
        seen = ledger.look(connection)
    except MissingObjectError:
        return LedgerRecords(None, {}, None)
    return LedgerRecords(seen.owner, seen.positions, seen.ledger_id or None)


def _updated(at: Position) -> str:
    if at.updated_at is None:
        return "moved at an unknown time"
    return f"last moved {at.updated_at.isoformat(timespec='seconds').replace('+00:00', 'Z')}"


@dataclass(frozen=True)
class SupervisorRecord:
    """The rows of a sink in FIRN_SINKS and FIRN_REQUESTS, if it has any."""

    namespace: Namespace
    sink: str
    record: ControlRecord | None

    def findings(self) -> list[Finding]:
        """The row."""
        if self.record is None:
            return []
        asked = self.record.desired is not DesiredState.RUNNING
        name, reason = self.namespace.qualified(requests.TABLE if asked else TABLE), _keeps_from_starting(self.record)
        delete = _DELETE.format(table=name, sink=self.sink)
        by_hand = f"{delete} -- afterwards a Prefect schedule that names it starts it again" if reason else ""
        return [Finding("supervisor's row", name, 1, None, reason or "desired state and last report", by_hand)]

    def remove(self, connection: SnowflakeConnection) -> None:
        """Delete the rows, unless they say by now what a start must know."""
        if self.record is not None:
            ControlTable(self.namespace, self.sink).remove(connection)


def find_supervisor_record(connection: SnowflakeConnection, namespace: Namespace, sink: str) -> SupervisorRecord:
    """Read the rows; also where there is no table."""
    return SupervisorRecord(namespace, sink, ControlTable(namespace, sink).read(connection))


def _keeps_from_starting(record: ControlRecord) -> str:
    """Why a scheduled start does nothing; empty where it starts the sink."""
    if record.desired is not DesiredState.RUNNING:
        by = f" by {record.desired_by}" if record.desired_by else ""
        return f"{record.desired.value}{by}: scheduled starts do not start it"
    return "failed: scheduled starts do not start it" if record.state is State.FAILED else ""
