"""One partition's dead letters in a task: kept on disk while records are converted, published in one transaction.

Order matters: the files of the good records were PUT before, the Snowflake transaction comes after. Not thread-safe.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from firn.dead_letters.envelope import Origin, envelope_headers
from firn.dead_letters.offset_list import LIMIT, GrowingList
from firn.dead_letters.published import PartitionLetters
from firn.dead_letters.queue import REMEDIES, DeadLetterQueue
from firn.kafka.partitions import TopicPartition
from firn.kafka.transactional_producer import CommittedOffset, Message, TransactionalProducer, lost_race
from spark_jobs.sink.values.bad_records import BadRecord


def _not_confirmed() -> None:
    """The confirmation of a caller that has none."""


class Published(NamedTuple):
    """How many letters were published, the offset that their group holds now (-1: none), and the letters' offsets."""

    letters: int
    group_offset: int
    offsets: list[int]


class DeadLetterWriter:
    """The dead letters of one partition in one attempt of one batch.

    where, topic_id: the source partition. before: the letters that were published when the batch was planned, from the
    ledger's NEXT_OFFSET on: these offsets never become letters again. folder: for the spool. size: bytes of the letters
    in it.
    """

    def __init__(
        self, queue: DeadLetterQueue, where: TopicPartition, topic_id: str, before: PartitionLetters, folder: Path
    ) -> None:
        self._queue, self._where, self._topic_id, self._before = queue, where, topic_id, before
        self._path = folder / f"letters-{uuid.uuid4().hex}.arrow"
        self._list = GrowingList(topic_id, before.published)
        self._offsets: list[int] = []
        self.size = 0
        self._writer: pa.RecordBatchStreamWriter | None = None

    def room(self, offsets: Sequence[int]) -> int:
        """How many of these further bad offsets (rising) the group's metadata can still list.

        At least one where there is no letter yet: a range that ends right behind one letter is still progress.
        """
        if self._fits(offsets):
            return len(offsets)
        low, high = 0, len(offsets) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._fits(offsets[:middle]) else (low, middle - 1)
        return low if self._writer else max(low, 1)

    def add(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> None:
        """Spool the bad records of a batch (`firn.kafka.message_columns.RECORDS`, offsets rising), each once."""
        by_row = {each.row: each for each in reversed(bad)}
        offsets = batch.column("offset")
        chosen = [each for row, each in sorted(by_row.items()) if offsets[row].as_py() not in self._before.published]
        if not chosen:
            return
        rows = batch.take(pa.array([each.row for each in chosen], pa.int64()))
        own = {
            "reason": pa.array([each.reason for each in chosen], pa.string()),
            "detail": pa.array([each.detail for each in chosen], pa.string()),
            "in_key": pa.array([each.in_key for each in chosen], pa.bool_()),
        }
        letters = pa.RecordBatch.from_arrays([*rows.columns, *own.values()], names=[*rows.schema.names, *own])
        if self._writer is None:
            self._writer = pa.ipc.new_stream(self._path, letters.schema)
        self._writer.write_batch(letters)
        self.size += letters.nbytes
        added = rows.column("offset").to_pylist()
        self._offsets += added
        self._list.add(added)

    def publish(self, end: int, confirm: Callable[[], None] = _not_confirmed) -> Published:
        """Publish the letters and the range's end in one transaction; without letters nothing is committed.

        confirm: raises unless this run still owns the sink, by Snowflake's word; asked while the transaction is open,
        which a newer run cannot overlook. Raises TransientError where somebody else published for this partition
        meanwhile or Kafka does not answer, TerminalError where a person has to act.
        """
        if self._writer is None:
            return Published(0, self._before.group_offset, [])
        self._writer.close()
        name = self._queue.transactional_id(self._topic_id, self._where.partition)
        # Never lowered: a shorter second try of a range must not hide what the first one published behind its end.
        position = CommittedOffset(max(end, self._before.group_offset), self._list.text())
        with TransactionalProducer(
            self._queue.client, name, self._queue.group, self._where, self._queue.topic, REMEDIES
        ) as kafka:
            if not self._before.agrees_with(kafka.committed()):
                raise lost_race(name)
            count = kafka.send(self._letters(), position, confirm)
        self._path.unlink()
        return Published(count, position.offset, self._offsets)

    def _fits(self, offsets: Sequence[int]) -> bool:
        return len(self._list.text(offsets)) <= LIMIT

    def _letters(self) -> Iterator[Message]:
        with pa.ipc.open_stream(self._path) as spool:
            for batch in spool:
                columns = (batch.column(name).to_pylist() for name in _READ)
                for fields in zip(*columns, strict=True):
                    yield self._letter(*fields)

    def _letter(
        self,
        timestamp: int,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[dict[str, Any]] | None,
        reason: str,
        detail: str,
        in_key: bool,
    ) -> Message:
        queue, kept = self._queue, [(header["key"], header["value"]) for header in headers or []]
        if queue.context_headers:
            converter = queue.key_class if in_key else queue.value_class
            kept += envelope_headers(Origin(*self._where, offset, queue.sink, in_key, converter, reason, detail))
        description = f"the dead letter of {self._where} offset {offset} to {queue.topic}"
        return Message(queue.topic, -1, key, value, kept, timestamp, description)


_READ = ("timestamp", "offset", "key", "value", "headers", "reason", "detail", "in_key")
