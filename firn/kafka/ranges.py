"""Ranges of a partition's offsets as Arrow record batches, read by librdkafka. Useful without Spark.

A range is read exactly: from its first offset to its end, also where the last offsets hold no record (transaction
markers, aborted records, compaction). What keeps it from its end is a typed error, at once or within the reader's
patience. What a record looks like in a batch: `firn.kafka.message_columns.RECORDS`.

Not for deciding which ranges are read, nor for what the bytes mean. Whether the topic is still the one that was meant,
`firn.kafka.cluster.check_topic_ids` tells: ask before and after.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaOffset

from firn.errors import FirnError, TransientError
from firn.kafka.client import KafkaClient
from firn.kafka.faults import ConnectionFaults
from firn.kafka.fetching import (
    BATCH_BYTES,
    BATCH_RECORDS,
    Room,
    explain_fetch,
    fetching_consumer,
    no_collection,
    of_no_partition,
    offset_of,
)
from firn.kafka.message_columns import MessageColumns
from firn.kafka.partitions import OffsetRange, TopicPartition

BACKLOG_QUEUE, SMALL_QUEUE = 8 * 1024, 1024
"""KiB that a consumer fetches ahead. What it has fetched beyond the end of a range is thrown away, so ranges of few
records are read with a small queue."""
SMALL_RANGE = 20_000
"""Offsets of a range that the small queue is for."""
_POLL_SECONDS = 0.1
# How far librdkafka has come: it delivers nothing of aborted records, and reading them is progress.
_STATISTICS = {"statistics.interval.ms": "2000"}


class StalledRangeError(TransientError):
    """The range did not come to its end within so many `seconds`; the message says what is known about why."""

    seconds = 0.0


class RangeReader:
    """Reads ranges one after the other, over connections that stay open. For one thread; not to be used across a fork.

    patience: seconds without anything new before a range counts as stalled. queue: KiB to fetch ahead.
    """

    def __init__(self, client: KafkaClient, *, patience: float = 60.0, queue: int = BACKLOG_QUEUE) -> None:
        self.patience = patience
        self._fetched: dict[tuple[str, int], int] = {}
        self._faults = ConnectionFaults(client.brokers)
        own = _STATISTICS | {"queued.max.messages.kbytes": str(queue)}
        self._consumer = fetching_consumer(client, self._faults, own, stats_cb=self._note_fetched)

    def read(
        self, offsets: OffsetRange, *, records: int = BATCH_RECORDS, size: int = BATCH_BYTES
    ) -> Iterator[pa.RecordBatch]:
        """The range's records as batches of `records` rows and about `size` bytes at most, but one row.

        Raises GoneRangeError where the first offset is gone, StalledRangeError where nothing new came within the
        patience, and Authentication-, Privilege- or ConfigError as Kafka tells.
        """
        if not len(offsets):
            return
        position, average = offsets.start, 0.0
        self._faults.clear()  # of a range before
        self._fetched.clear()
        self._consumer.assign([KafkaOffset(offsets.topic, offsets.partition, position)])
        try:
            while position < offsets.end:
                with no_collection():
                    chunk = self._chunk(offsets, _Chunk(position, Room(records, size, average)))
                    position, average = chunk.position, chunk.average
                    batch = chunk.columns.batch() if len(chunk.columns) else None
                if batch is not None:
                    yield batch
        finally:
            self._consumer.unassign()  # else it goes on to fetch what lies behind

    def close(self) -> None:
        """End the connections."""
        self._consumer.close()

    def _chunk(self, offsets: OffsetRange, chunk: _Chunk) -> _Chunk:
        """Messages of the range from the chunk's position on, until it is full or the range has ended."""
        quiet_since, fetched = time.monotonic(), -1
        while chunk.position < offsets.end and (room := chunk.room):
            # What is there already; never more than the range can still have.
            found = self._consumer.consume(min(room, offsets.end - chunk.position), 0)
            if not found:
                found = self._consumer.consume(1, _POLL_SECONDS)
            if found:
                before = chunk.position
                self._take(chunk, found, offsets)
                if chunk.position > before:
                    quiet_since = time.monotonic()
            elif (now_at := self._fetched.get((offsets.topic, offsets.partition), -1)) > fetched:
                quiet_since, fetched = time.monotonic(), now_at
            if time.monotonic() - quiet_since > self.patience:
                raise self._stalled(offsets, chunk)
            if not found and (cause := self._faults.terminal()) is not None:
                raise cause
        return chunk

    def _take(self, chunk: _Chunk, found: list[Message], offsets: OffsetRange) -> None:
        """Add what was consumed to the chunk. Raises what an error among it says."""
        first, last = offset_of(found[0]), offset_of(found[-1])
        if any(map(Message.error, found)) or not chunk.position <= first <= last < offsets.end:
            for each in found:
                self._take_one(chunk, each, offsets)
        else:
            chunk.add(found, last + 1)
        self._faults.clear()

    def _note_fetched(self, statistics: str) -> None:
        """librdkafka's statistics: the offset that it fetches next, by partition."""
        for name, topic in json.loads(statistics)["topics"].items():
            for number, partition in topic["partitions"].items():
                self._fetched[name, int(number)] = partition["next_offset"]

    def _take_one(self, chunk: _Chunk, message: Message, offsets: OffsetRange) -> None:
        error = message.error()
        if of_no_partition(message):
            return
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            # The end of what can be read now. Below the range's end something is still to come, or will never.
            chunk.end_seen = offset_of(message)
            if chunk.end_seen >= offsets.end:
                chunk.position = offsets.end
        elif error is not None:
            where = TopicPartition(offsets.topic, offsets.partition)
            raise explain_fetch(error, where, chunk.position, self._faults, f"read {offsets}")
        elif offset_of(message) >= offsets.end:
            chunk.position = offsets.end
        elif offset_of(message) >= chunk.position:
            chunk.add([message], offset_of(message) + 1)

    def _stalled(self, offsets: OffsetRange, chunk: _Chunk) -> FirnError:
        """What is known about a range that does not come to its end."""
        cause = self._faults.explain(KafkaError(KafkaError._TIMED_OUT), f"read from offset {chunk.position} on")
        if not isinstance(cause, TransientError):
            return cause
        if chunk.end_seen is not None:
            what = f"Only offsets below {chunk.end_seen} can be read."
        else:
            what = self._leaderless(offsets) or cause.what
        error = StalledRangeError(
            f"{offsets} could not be read within {self.patience:.0f} s. {what}",
            where=cause.where,
            next_step=cause.next_step,
        )
        error.seconds = self.patience
        return error

    def _leaderless(self, offsets: OffsetRange) -> str | None:
        """What the cluster says about the partition, if it says anything wrong."""
        try:
            topic = self._consumer.list_topics(offsets.topic, timeout=5).topics[offsets.topic]
        except KafkaException:
            return None
        partition = topic.partitions.get(offsets.partition)
        if topic.error is not None:
            return f"{topic.error.str()}."
        if partition is None:
            return "There is no such partition."
        return "The partition has no leader." if partition.leader < 0 else None


class _Chunk:
    """Records for one batch. position: the next offset. end_seen: where the log ended when its end was met last."""

    def __init__(self, position: int, room: Room) -> None:
        self.position, self._room = position, room
        self.end_seen: int | None = None
        self.columns = MessageColumns()

    @property
    def average(self) -> float:
        """Bytes of a record."""
        return self._room.average(len(self.columns), self.columns.size)

    @property
    def room(self) -> int:
        """How many more records fit; 0 where it is full."""
        return self._room.left(len(self.columns), self.columns.size)

    def add(self, messages: list[Message], position: int) -> None:
        """Take over messages whose last offset is `position` - 1."""
        self.columns.add(messages)
        self.position = position
