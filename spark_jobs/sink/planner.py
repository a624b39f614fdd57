"""What the next batch reads: ranges of offsets from the sink's positions to Kafka's ends, cut by the batch limits.

The ledger is the only plan: no offset is written down before it is committed. A plan counts offsets, so the size of
records is learned from each batch. Memory does not depend on it: Arrow batches and files are bounded by bytes, and a
task ends a range early that turns out too large (`BatchLimit.range_bytes`). Not for reading (`firn.kafka.ranges`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from firn.connector.config import BufferConfig, SinkConfig
from firn.kafka.partitions import OffsetRange, TopicPartition

Ends = Callable[[Sequence[TopicPartition]], Mapping[TopicPartition, int]]
T = TypeVar("T")
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


class Planner:
    """Plans the batches of one epoch, one at a time.

    ends: Kafka's end offsets of partitions, as `isolation.level` shows them. buffer: how long a batch may wait to
    become worth its commit; None for a run that takes what is available when it begins, and then ends. targets: where
    such a run ends, kept from epoch to epoch: more may come while it claims again.
    """

    def __init__(
        self,
        ends: Ends,
        limit: BatchLimit,
        buffer: BufferConfig | None,
        targets: dict[TopicPartition, int],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ends, self._limit, self._buffer, self._targets, self._clock = ends, limit, buffer, targets, clock
        self._last_batch = float("-inf")

    def next(self, positions: Mapping[TopicPartition, int]) -> list[OffsetRange]:
        """The ranges of the next batch; none where nothing is there, or it is not worth a batch yet.

        Raises as `ends` does.
        """
        backlog = self._backlog(positions)
        waiting = sum(map(len, backlog))
        if not waiting or (self._buffer and not self._due(waiting, self._buffer)):
            return []
        self._last_batch = self._clock()
        return cut(backlog, self._limit.records)

    def done(self, positions: Mapping[TopicPartition, int]) -> bool:
        """Whether a run that takes what is available has planned all of it."""
        if self._buffer:
            return False
        return all(where in self._targets and at >= self._targets[where] for where, at in positions.items())

    def _backlog(self, positions: Mapping[TopicPartition, int]) -> list[OffsetRange]:
        if self._buffer:
            ends = self._ends(sorted(positions))
        else:
            if unknown := sorted(positions.keys() - self._targets.keys()):
                self._targets.update(self._ends(unknown))
            ends = self._targets
        return [OffsetRange(*w, at, ends[w]) for w, at in sorted(positions.items()) if ends.get(w, at) > at]

    def _due(self, waiting: int, buffer: BufferConfig) -> bool:
        """Whether enough wait, or the batch before began so long ago that nothing waits any longer."""
        return waiting >= self._limit.waiting or self._clock() - self._last_batch >= buffer.seconds


def cut(backlog: Sequence[OffsetRange], records: int) -> list[OffsetRange]:
    """The beginnings of these ranges, `records` offsets in all: each partition has its share of what waits.

    A partition with a short backlog is not starved: it gets one offset at least. Where there are more partitions than
    offsets, those with the longest backlogs get one.
    """
    if records < len(backlog):
        backlog = sorted(backlog, key=len, reverse=True)[:records]
    left, waiting = records, sum(map(len, backlog))
    ranges = []
    # The shortest first: what rounding leaves goes to those that have the most.
    for each in sorted(backlog, key=len):
        share = min(len(each), max(1, left * len(each) // waiting), left)
        left, waiting = left - share, waiting - len(each)
        if share:
            ranges.append(OffsetRange(each.topic, each.partition, each.start, each.start + share))
    return sorted(ranges, key=lambda each: (each.topic, each.partition))


def grouped(works: Sequence[T], groups: int, size: Callable[[T], int]) -> list[list[T]]:
    """Works in at most so many groups of about equal size: the largest first, each to the group with the least."""
    chosen: list[tuple[int, list[T]]] = [(0, []) for _ in range(min(groups, len(works)))]
    for each in sorted(works, key=size, reverse=True):
        at = min(range(len(chosen)), key=lambda number: chosen[number][0])
        total, members = chosen[at]
        chosen[at] = (total + size(each), [*members, each])
    return [members for _, members in chosen]
