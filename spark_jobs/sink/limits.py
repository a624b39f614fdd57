"""How many records a batch may hold, and how many are worth one: the limits in records of what is bounded in bytes.

A plan counts offsets, so the size of records is learned from what each batch staged. Memory does not depend on it:
Arrow batches and files are bounded by bytes, and a task ends a range early that turns out too large (`range_bytes`).
"""

from __future__ import annotations

from firn.connector.config import SinkConfig

# Larger records count at once, smaller ones bit by bit: topics with bursts would make the limit swing.
LEARNING = 0.1


class BatchLimit:
    """The numbers that batches are planned with. Belongs to a run and outlives its epochs; for one thread.

    waits: whether a batch waits until its buffer is full; a run that takes what is available does not.
    """

    def __init__(self, config: SinkConfig, *, waits: bool) -> None:
        self._config, self._waits = config, waits
        self._average: float | None = None

    def observe(self, records: int, size: int) -> None:
        """Take over that `records` records had `size` bytes of text in all."""
        if not records:
            return
        newest = size / records
        if self._average is None or newest > self._average:
            self._average = newest
        else:
            self._average += LEARNING * (newest - self._average)

    @property
    def records(self) -> int:
        """A batch has so many records at most (firn.batch.records, firn.batch.bytes)."""
        most = self._config.batch_records
        if self._average:
            most = min(most, int(self._config.batch_bytes / self._average))
        return max(1, most)

    @property
    def waiting(self) -> int:
        """A batch begins when so many records wait (buffer.count.records, buffer.size.bytes); 1 where none waits."""
        if not self._waits:
            return 1
        waiting = self._config.buffer.records
        if self._average:
            waiting = min(waiting, int(self._config.buffer.bytes / self._average))
        return max(1, min(waiting, self.records))

    def range_bytes(self, share: float) -> int:
        """Bytes of text after which a range that has this share (0 to 1) of a batch ends, wherever it is."""
        return max(1, int(self._config.batch_bytes * share))
