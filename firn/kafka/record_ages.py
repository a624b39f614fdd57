"""When the records that wait in Kafka were written: the time of the first one above a position, of a few partitions.

One librdkafka consumer that joins no group and commits nothing, bounded in time and in partitions. What it does not
find out stays unknown: whatever is wrong with the brokers shows where it matters.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaOffset

from firn.kafka.client import KafkaClient
from firn.kafka.cluster import with_callbacks
from firn.kafka.faults import ConnectionFaults
from firn.kafka.partitions import TopicPartition

SECONDS = 2.0
"""How long one look may take."""
PARTITIONS = 50
"""So many partitions are read in one look: those with the most records waiting."""

_READING = {
    "group.id": "firn-look",  # librdkafka requires a name
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    # One record a partition is enough: fetch little, and at once.
    "max.partition.fetch.bytes": "16384",
    "queued.min.messages": "1",
    "fetch.min.bytes": "1",
    "fetch.wait.max.ms": "100",
}


class RecordAges:
    """Reads the time of the first record at or above an offset. One thread at a time; keeps its consumer.

    A position that did not move has the same first record as before: it is not read again.
    """

    def __init__(self, client: KafkaClient) -> None:
        self._client = client
        self._consumer: Consumer | None = None
        self._known: dict[TopicPartition, tuple[int, int]] = {}

    def timestamps(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Unix milliseconds by partition, of those that answered within SECONDS; `positions` in order of importance."""
        self._known = {where: known for where, known in self._known.items() if positions.get(where) == known[0]}
        unread = {where: at for where, at in positions.items() if where not in self._known}
        try:
            self._read(dict(list(unread.items())[:PARTITIONS]))
        except KafkaException:
            self.close()
        return {where: written for where, (_, written) in self._known.items()}

    def close(self) -> None:
        """End the consumer; the next look makes another."""
        consumer, self._consumer = self._consumer, None
        if consumer:
            consumer.close()

    def _read(self, positions: Mapping[TopicPartition, int]) -> None:
        if not positions:
            return
        consumer = self._consumer = self._consumer or self._opened()
        consumer.assign([KafkaOffset(where.topic, where.partition, at) for where, at in positions.items()])
        try:
            self._take(consumer, dict(positions))
        finally:
            consumer.unassign()

    def _opened(self) -> Consumer:
        return Consumer(with_callbacks(self._client.librdkafka() | _READING, ConnectionFaults(self._client.brokers)))

    def _take(self, consumer: Consumer, left: dict[TopicPartition, int]) -> None:
        """The first message of each partition; an end or an error of a partition says that there is none."""
        deadline = time.monotonic() + SECONDS
        while left and (seconds := deadline - time.monotonic()) > 0:
            message = consumer.poll(seconds)
            where = _where(message) if message else None
            if message is None or where is None or where not in left:
                continue
            at = left.pop(where)
            consumer.incremental_unassign([KafkaOffset(where.topic, where.partition)])
            kind, written = (TIMESTAMP_NOT_AVAILABLE, 0) if message.error() else message.timestamp()
            if kind != TIMESTAMP_NOT_AVAILABLE:
                self._known[where] = (at, written)


def _where(message: Message) -> TopicPartition | None:
    topic, partition = message.topic(), message.partition()
    return None if topic is None or partition is None else TopicPartition(topic, partition)
