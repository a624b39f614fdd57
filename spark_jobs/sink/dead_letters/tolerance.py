"""What becomes of the bad records of one partition in a task when errors.tolerance is `all`: counted, and dead letters.

Not for judging records (`decode`), nor for how letters are published exactly once (`dead_letters`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from firn.dead_letters.published import PartitionLetters
from firn.dead_letters.queue import dead_letter_queue
from firn.kafka.partitions import TopicPartition
from firn.sinks.context import SinkContext
from spark_jobs.sink.dead_letters.writer import DeadLetterWriter, Published
from spark_jobs.sink.values.bad_records import NOT_LOOKED_UP, BadRecord
from spark_jobs.sink.values.reports import Tolerated

SAMPLES = 10
"""So many bad records of a partition and batch are in the log one by one."""


@dataclass(frozen=True)
class CutAt:
    """The row of a batch from which the range must be planned again."""

    row: int
    why: str


class Tolerance:
    """The bad records of one partition, in order of their offsets. Used by one task.

    ledger_id: of the sink's ledger, part of the names under which letters are published. confirm: raises unless this
    run still owns the sink.
    """

    def __init__(
        self,
        context: SinkContext,
        ledger_id: str,
        where: TopicPartition,
        topic_id: str,
        letters: PartitionLetters,
        folder: Path,
        confirm: Callable[[], None],
    ) -> None:
        self._where, self._confirm = where, confirm
        self._published_before = letters
        queue = dead_letter_queue(context, ledger_id)
        self._writer = DeadLetterWriter(queue, where, topic_id, self._published_before, folder) if queue else None
        self._reasons: Counter[str] = Counter()
        self._samples: list[tuple[int, str, str]] = []
        self._last = -1

    @property
    def size(self) -> int:
        """Bytes of the dead letters that wait for their publication."""
        return self._writer.size if self._writer else 0

    def unpublished(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Without the records that an earlier try of this range made dead letters of: they are dealt with."""
        if not self._published_before.published or batch.num_rows == 0:
            return batch
        out = np.isin(batch.column("offset").to_numpy(), list(self._published_before.published))
        return batch.take(pa.array(np.flatnonzero(~out))) if out.any() else batch

    def cut(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> CutAt | None:
        """Where the range must end for now, if these are its next bad records."""
        ends = [CutAt(each.row, each.detail) for each in bad if each.reason == NOT_LOOKED_UP][:1]
        if self._writer and bad:
            fitting = self._writer.room(_offsets(batch, bad))
            ends += [CutAt(each.row, "one transaction holds no more dead letters") for each in bad[fitting:][:1]]
        return min(ends, key=lambda each: each.row, default=None)

    def add(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> None:
        """Take over bad records of `batch`."""
        if not bad:
            return
        offsets = _offsets(batch, bad)
        self._reasons.update(each.reason for each in bad)
        room = SAMPLES - len(self._samples)
        self._samples += [(o, each.reason, each.detail) for o, each in list(zip(offsets, bad, strict=True))[:room]]
        self._last = offsets[-1]
        if self._writer:
            self._writer.add(batch, bad)

    def publish(self) -> Tolerated | None:
        """Publish the dead letters, if there is a topic for them; None where no record was bad."""
        if not self._reasons:
            return None
        letters, group_offset, published = Published(0, -1, [])
        if self._writer:
            letters, group_offset, published = self._writer.publish(self._last + 1, self._confirm)
        return Tolerated(
            *self._where,
            records=self._reasons.total(),
            letters=letters,
            group_offset=group_offset,
            reasons=dict(self._reasons),
            samples=self._samples,
            published=published,
        )


def _offsets(batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> list[int]:
    offsets = batch.column("offset").to_numpy()
    return [int(offsets[each.row]) for each in bad]
