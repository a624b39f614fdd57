"""How far a partition is durable, from what was written of it and what its channel says: pure state.

Everything below `position` was written, or holds no row (markers, tombstones, dead letters that are published). The
channel's token covers rows alone, so an end without rows counts as soon as the last row before it is covered.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class _Written(NamedTuple):
    """Rows that were written at once: the offset of the last one, how many, and bytes of their texts."""

    last: int
    rows: int
    bytes: int


class DurableRows:
    """The rows of one partition in a task. position: the next offset to take; durable: the first that is not durable.

    rows, bytes: that are durable. waiting: bytes that are written and not durable.
    """

    def __init__(self, position: int) -> None:
        self.position = self.durable = position
        self.rows = self.bytes = self.waiting = 0
        self._written: deque[_Written] = deque()

    @property
    def settled(self) -> bool:
        """Whether all that was taken is durable."""
        return self.durable >= self.position

    def wrote(self, last: int, rows: int, size: int) -> None:
        """Rows were written, up to this offset; `passed` says that its partition has come so far."""
        self._written.append(_Written(last, rows, size))
        self.waiting += size

    def passed(self, end: int) -> None:
        """All below `end` was written, or holds no row. Raises ValueError for a step back."""
        if end < self.position:
            raise ValueError(f"{end} lies before {self.position}")
        self.position = end
        self._settle(self.durable)

    def covered(self, next_offset: int) -> None:
        """The channel covers all rows below this offset, and each of its errors is accounted for."""
        while self._written and self._written[0].last < next_offset:
            done = self._written.popleft()
            self.rows += done.rows
            self.bytes += done.bytes
            self.waiting -= done.bytes
        self._settle(next_offset)

    def restart(self, position: int) -> None:
        """The channel was opened again and covers all rows below `position`: the others are lost, and read again."""
        self.covered(position)
        self._written.clear()
        self.waiting = 0
        self.position = position

    def _settle(self, next_offset: int) -> None:
        reached = min(next_offset, self.position) if self._written else self.position
        self.durable = max(self.durable, reached)
