"""Many partitions followed by one consumer, as Arrow record batches: for who reads on as long as it lives.

Each poll takes what has come, partition by partition in order of its offsets. A position also passes what holds no
record (transaction markers, aborted records, holes of compaction) as soon as librdkafka has come to the log's end or to
the next record. What is fetched ahead is bounded for all partitions together, so hundreds of them cost no more memory
than a few.

Not for a range that has an end (`ranges`). That a partition stands still though Kafka holds more, its caller knows, who
knows Kafka's ends. Whether the topic is still the one that was meant: `firn.kafka.cluster.check_topic_ids`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
from confluent_kafka import KafkaError, Message
from confluent_kafka import TopicPartition as KafkaOffset

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
from firn.kafka.partitions import TopicPartition

QUEUE_KIB = 32 * 1024
"""Fetched ahead for all partitions together."""
_OPTIONS = {
    "queued.max.messages.kbytes": str(QUEUE_KIB),
    # The broker answers as soon as it has a byte. Where it has none, ten questions a second are enough.
    "fetch.wait.max.ms": "100",
}


class FollowedBatch(NamedTuple):
    """What has come of a partition (`message_columns.RECORDS`); None: only its position passed what holds no record.

    next_offset: where the partition goes on.
    """

    where: TopicPartition
    batch: pa.RecordBatch | None
    next_offset: int


class Follower:
    """Follows partitions from offset to offset. For one thread; not to be used across a fork."""

    def __init__(self, client: KafkaClient, *, records: int = BATCH_RECORDS, size: int = BATCH_BYTES) -> None:
        self._records, self._size, self._average = records, size, 0.0
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._faults = ConnectionFaults(client.brokers)
        self._consumer = fetching_consumer(client, self._faults, _OPTIONS)

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Follow these partitions from these offsets on, and no others."""
        self._positions = dict(positions)
        self._paused &= self._positions.keys()
        self._assign()

    def seek(self, where: TopicPartition, offset: int) -> None:
        """Read a followed partition from this offset on, also where it was read before."""
        self._positions[where] = offset
        self._assign()  # what was fetched ahead is thrown away, and nothing of before comes any more

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch nothing more of these for now."""
        self._paused.update(partitions)
        self._consumer.pause([KafkaOffset(*where) for where in self._paused])

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch again, from where they were paused."""
        resumed = self._paused.intersection(partitions)
        self._paused -= resumed
        self._consumer.resume([KafkaOffset(*where) for where in resumed])

    def close(self) -> None:
        """End the connections."""
        self._consumer.close()

    def poll(self, seconds: float) -> list[FollowedBatch]:
        """What has come; waits up to `seconds` for the first of it.

        Takes about so many records and bytes as the follower was made for, at most. Raises GoneRangeError where an
        offset is gone, and Transient-, Authentication-, Privilege- or ConfigError as Kafka tells.
        """
        poll = _Poll(self._positions)
        room = Room(self._records, self._size, self._average)
        with no_collection():
            found = self._consumer.consume(1, seconds)
            if not found and (cause := self._faults.terminal()) is not None:
                raise cause
            while found:
                self._take(poll, found)
                left = room.left(poll.records, poll.size)
                found = self._consumer.consume(left, 0) if left else []
            self._average = room.average(poll.records, poll.size)
            return poll.batches()

    def _assign(self) -> None:
        self._consumer.assign([KafkaOffset(*where, at) for where, at in self._positions.items()])
        if self._paused:
            self._consumer.pause([KafkaOffset(*where) for where in self._paused])

    def _take(self, poll: _Poll, found: list[Message]) -> None:
        if any(map(Message.error, found)):
            for message in found:
                self._take_one(poll, message)
        else:
            for messages in _by_partition(found):
                poll.add(TopicPartition(*_place(messages[0])), messages)
        self._faults.clear()

    def _take_one(self, poll: _Poll, message: Message) -> None:
        error = message.error()
        if of_no_partition(message):
            return
        where = TopicPartition(*_place(message))
        if error is None:
            poll.add(where, [message])
        elif error.code() == KafkaError._PARTITION_EOF:
            poll.pass_to(where, offset_of(message))
        else:
            raise explain_fetch(error, where, self._positions.get(where, -1), self._faults, f"follow {where}")


class _Poll:
    """What one poll takes. positions: by partition, moved as it takes."""

    def __init__(self, positions: dict[TopicPartition, int]) -> None:
        self._positions = positions
        self._columns: dict[TopicPartition, MessageColumns] = {}
        self._passed: set[TopicPartition] = set()
        self.records = self.size = 0

    def add(self, where: TopicPartition, messages: list[Message]) -> None:
        """Take over records of one partition, but those before its position: a fetch before a seek brought them."""
        at = self._positions.get(where)
        if at is None:
            return
        if offset_of(messages[0]) < at:
            messages = [each for each in messages if offset_of(each) >= at]
        if not messages:
            return
        columns = self._columns.setdefault(where, MessageColumns())
        before = columns.size
        columns.add(messages)
        self.records += len(messages)
        self.size += columns.size - before
        self._positions[where] = offset_of(messages[-1]) + 1

    def pass_to(self, where: TopicPartition, end: int) -> None:
        """The log ends here, and between the position and its end is no record."""
        if end > self._positions.get(where, end):
            self._positions[where] = end
            self._passed.add(where)

    def batches(self) -> list[FollowedBatch]:
        """One a partition."""
        rows = {where: columns.batch() for where, columns in self._columns.items()}
        wheres = sorted(rows.keys() | self._passed)
        return [FollowedBatch(where, rows.get(where), self._positions[where]) for where in wheres]


def _by_partition(found: list[Message]) -> Iterator[list[Message]]:
    """Runs of messages of one partition. Mostly it is one run: librdkafka hands over fetch by fetch."""
    places = list(zip(map(Message.topic, found), map(Message.partition, found), strict=True))
    if places.count(places[0]) == len(places):
        yield found
        return
    start = 0
    for _, run in groupby(places):
        stop = start + len(list(run))
        yield found[start:stop]
        start = stop


def _place(message: Message) -> tuple[str, int]:
    return message.topic(), message.partition()  # type: ignore[return-value]  # None for an error of no partition
