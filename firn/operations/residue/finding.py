"""One thing that a sink left behind, as a row for a person; and what a method says of its own residue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from snowflake.connector import SnowflakeConnection

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


class MethodResidue(Protocol):
    """What the method of a sink left in Snowflake, as it was found. Each method has its own."""

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
