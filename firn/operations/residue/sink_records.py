"""A sink's rows in the ledger: who held it, and where each partition stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from snowflake.connector import SnowflakeConnection

from firn.kafka.partitions import TopicPartition
from firn.ledger.owner import Owner
from firn.ledger.positions import Position
from firn.ledger.retirement import LedgerRetirement
from firn.operations.residue.finding import Finding
from firn.snowflake.faults import MissingObjectError


@dataclass(frozen=True)
class Rows:
    """What the ledger says of a sink; nothing before its first claim."""

    owner: Owner | None
    positions: Mapping[TopicPartition, Position]

    def findings(self) -> list[Finding]:
        """The owner row, and a row a partition."""
        found = []
        if self.owner:
            targets = ", ".join(f"{topic} into {table}" for topic, table in sorted(self.owner.targets.items()))
            says = ["a clean has begun and not ended"] if self.owner.cleaning else []
            says += [self.owner.sign_of_life, *([targets] if targets else [])]
            found.append(Finding("ledger: owner", f"epoch {self.owner.epoch}", 1, detail="; ".join(says)))
        return found + [
            Finding("ledger: position", str(where), 1, detail=f"next offset {at.next_offset}, {_updated(at)}")
            for where, at in sorted(self.positions.items())
        ]


def look_at_rows(connection: SnowflakeConnection, table: LedgerRetirement) -> Rows:
    """Read the ledger; also where there is none."""
    try:
        seen = table.look(connection)
    except MissingObjectError:
        return Rows(None, {})
    return Rows(seen.owner, seen.positions)


def _updated(at: Position) -> str:
    if at.updated_at is None:
        return "moved at no known time"
    return f"last moved {at.updated_at.isoformat(timespec='seconds').replace('+00:00', 'Z')}"
