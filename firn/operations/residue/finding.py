"""One thing that a sink left behind, as a row for a person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

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


def ranges(numbers: list[int]) -> str:
    """Numbers in order as a person writes them: 1-3, 7."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ", ".join("-".join(map(str, part)) for part in parts)
