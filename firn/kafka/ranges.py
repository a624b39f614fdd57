"""Ranges of a partition's offsets as Arrow record batches, read by librdkafka. Useful without Spark.

A range is read exactly: from its first offset to its end, also where the last offsets hold no record (transaction
markers, aborted records, compaction). What keeps it from its end is a typed error, at once or within the reader's
patience. What a record looks like in a batch: `firn.kafka.message_columns.RECORDS`.

Not for deciding which ranges are read, nor for what the bytes mean. Whether the topic is still the one that was meant,
`firn.kafka.cluster.check_topic_ids` tells: ask before and after. Source: librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaOffset

from firn.errors import FirnError, TransientError
from firn.kafka.client import KafkaClient
from firn.kafka.cluster import with_callbacks
from firn.kafka.faults import ConnectionFaults, refused_configuration
from firn.kafka.message_columns import MessageColumns
from firn.kafka.partitions import OffsetRange

BATCH_RECORDS, BATCH_BYTES = 10_000, 16 * 1024 * 1024
FIRST_RECORDS = 64
BACKLOG_QUEUE, SMALL_QUEUE = 8 * 1024, 1024
"""KiB that a consumer fetches ahead. What it has fetched beyond the end of a range is thrown away, so ranges of few
records are read with a small queue."""
SMALL_RANGE = 20_000
"""Offsets of a range that the small queue is for."""
_POLL_SECONDS = 0.1
_OPTIONS = {
    # Consumers want a group's name, though they join none and commit nothing.
    "group.id": "firn-reader",
    # As Java's consumers have it (librdkafka's own default is read_committed).
    "isolation.level": "read_uncommitted",
    # As Java's consumers do: a record that a disk or a network damaged is refused. The cost: docs/performance.md.
    "check.crcs": "true",
    "fetch.error.backoff.ms": "50",
    # After a full queue the next fetch begins within this time: with librdkafka's own second, a fast reader waits.
    "fetch.queue.backoff.ms": "5",
    # More costs memory, half a kilobyte a record beside its bytes, and CPU for what is fetched beyond a range.
    "queued.min.messages": "30000",
}
_FORCED = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    # Where the last offsets of a range hold no record, only this event says that nothing more comes.
    "enable.partition.eof": "true",
    # An offset that is gone is an error: going on elsewhere would leave records out.
    "auto.offset.reset": "error",
    # What a range needs is there already. A fetch that waits for more holds up the range that is read next.
    "fetch.min.bytes": "1",
    "fetch.wait.max.ms": "20",
    # How far librdkafka has come: it delivers nothing of aborted records, and reading them is progress.
    "statistics.interval.ms": "2000",
}


class GoneRangeError(TransientError):
    """Kafka does not hold the range's first offset (any more): who planned it has to look at the topic again."""


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
        config = _OPTIONS | client.librdkafka() | _FORCED | {"queued.max.messages.kbytes": str(queue)}
        try:
            self._consumer = Consumer(with_callbacks(config, self._faults) | {"stats_cb": self._note_fetched})
        except KafkaException as error:
            raise refused_configuration(error.args[0], client.brokers) from None

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
                with _no_collection():
                    chunk = self._chunk(offsets, _Chunk(position, records, size, average))
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
        first, last = _offset(found[0]), _offset(found[-1])
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
        if error is not None and message.topic() is None:
            return  # of the group that nobody joins: rights on groups are not needed to read
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            # The end of what can be read now. Below the range's end something is still to come, or will never.
            chunk.end_seen = _offset(message)
            if chunk.end_seen >= offsets.end:
                chunk.position = offsets.end
        elif error is not None:
            raise self._fault(offsets, chunk.position, error)
        elif _offset(message) >= offsets.end:
            chunk.position = offsets.end
        elif _offset(message) >= chunk.position:
            chunk.add([message], _offset(message) + 1)

    def _fault(self, offsets: OffsetRange, position: int, error: KafkaError) -> FirnError:
        if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            return GoneRangeError(
                f"Kafka does not hold offset {position} of {offsets.topic}-{offsets.partition}.",
                where=f"brokers {self._faults.brokers}",
                next_step="Look at the topic's first and last offset: records expired, or the topic was made again.",
            )
        return self._faults.explain(error, f"read {offsets}")

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


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection: records come as millions of small objects without cycles, which each one would look at."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _offset(message: Message) -> int:
    return cast("int", message.offset())


class _Chunk:
    """Records for one batch. position: the next offset. end_seen: where the log ended when its end was met last.

    records, limit: rows and bytes that it holds, about. before: the average size of the records before; 0: not known.
    """

    def __init__(self, position: int, records: int, limit: int, before: float) -> None:
        self.position, self._records, self._limit, self._before = position, records, limit, before
        self.end_seen: int | None = None
        self.columns = MessageColumns()

    @property
    def average(self) -> float:
        """Bytes of a record."""
        return self.columns.size / len(self.columns) if len(self.columns) else self._before

    @property
    def room(self) -> int:
        """How many more records fit; a few where nobody has seen their size yet, 0 where it is full."""
        left = self._limit - self.columns.size
        if left <= 0:
            return 0
        fitting = int(left / self.average) + 1 if self.average else FIRST_RECORDS
        return min(fitting, self._records - len(self.columns))

    def add(self, messages: list[Message], position: int) -> None:
        """Take over messages whose last offset is `position` - 1."""
        self.columns.add(messages)
        self.position = position
