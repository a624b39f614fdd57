"""One thing that a sink left behind, as a row for a person; and what a method says of its own residue.

Not for looking: each place has a module of its own, and each ingestion method its own residue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from snowflake.connector import SnowflakeConnection

from firn.kafka.partitions import TopicPartition
from firn.ledger.owner import Owner
from firn.ledger.positions import Position
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin
from firn.snowflake.identifiers import Namespace

COLUMNS = ("what", "name", "count", "bytes", "detail", "action")


@dataclass(frozen=True)
class Finding:
    """What was found. count: files, partitions or rows. size: bytes; None where nobody can say, or it means nothing.

    by_hand: of what a clean leaves, the statement or command that removes it; empty for what a clean removes.
    unseen: whether nobody looked, so that it may not even be there.
    """

    what: str
    name: str
    count: int | None = None
    size: int | None = None
    detail: str = ""
    by_hand: str = ""
    unseen: bool = False

    @property
    def action(self) -> str:
        """What a clean does with it."""
        if self.unseen:
            return "not looked at"
        return "leave" if self.by_hand else "remove"

    def row(self) -> dict[str, Any]:
        """Plain values by the names of `COLUMNS`, and `by_hand` where the thing stays."""
        values = (self.what, self.name, self.count, self.size, self.detail, self.action)
        row = dict(zip(COLUMNS, values, strict=True))
        return row | ({"by_hand": self.by_hand} if self.by_hand else {})


@dataclass(frozen=True)
class RetiredSink:
    """The sink whose residue is looked for, and how to get at it.

    owner, positions: what the ledger says of it, with the channels that it remembers. ledger_id: None where there is
    no ledger.
    """

    name: str
    login: SnowflakeLogin
    settings: Settings
    owner: Owner | None = None
    positions: Mapping[TopicPartition, Position] = field(default_factory=dict)
    ledger_id: str | None = None

    @property
    def namespace(self) -> Namespace:
        """Where its tables, stage and ledger live."""
        return Namespace(self.login.database, self.login.schema)


class MethodResidue(Protocol):
    """What one method left of a sink in Snowflake, as it was found. Each method has its own."""

    @property
    def newest_epoch(self) -> int:
        """The highest epoch that any of it is of; 0 where there is nothing."""
        ...

    def findings(self) -> Sequence[Finding]:
        """What is the sink's alone."""
        ...

    def shared(self) -> Sequence[Finding]:
        """Objects that all sinks of the schema share, and that a clean leaves."""
        ...

    def remove(self, connection: SnowflakeConnection, epoch: int) -> None:
        """Remove what is of an epoch up to this one, also what came since it was found."""
        ...
