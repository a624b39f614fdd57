"""How many records a batch may hold, and how many are worth one: the limits in records of what is bounded in bytes.

Spark counts records when it plans a batch, not bytes. So sizes are observed, before the first batch by a look at some
records and then by what each batch shipped, and where the numbers have to change the run claims again with new ones.
Memory does not depend on this: Arrow batches and files are bounded by bytes. A batch bounds what one transaction loads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaOffset

from firn.connector.config import SinkConfig
from firn.kafka.client import KafkaClient
from firn.kafka.cluster import with_callbacks
from firn.kafka.faults import ConnectionFaults
from spark_jobs.sink.ledger import TopicPartition

SAMPLE_RECORDS = 100
SAMPLE_SECONDS = 3.0
# The numbers follow the observed size when they are off by this factor: each change costs a new claim.
TOLERANCE = 2.0
# Larger records count at once, smaller ones bit by bit: topics with bursts would make the limit swing.
LEARNING = 0.1
# No group is joined and nothing committed; librdkafka wants a name all the same.
_SAMPLING = {"group.id": "firn-sample", "enable.auto.commit": "false", "max.partition.fetch.bytes": "65536"}


class BatchLimit:
    """The numbers that batches are planned with. Belongs to the driver's run and outlives an epoch.

    records: a batch has so many at most (firn.batch.records, firn.batch.bytes).
    waiting: a batch begins when so many wait (buffer.count.records, buffer.size.bytes); 1 for a run that never waits.
    Batches observe on their thread, the run settles on its own while no batch runs.
    """

    def __init__(self, config: SinkConfig, *, waits: bool) -> None:
        self._config, self._waits = config, waits
        self._average: float | None = None
        self.records, self.waiting = self._wanted()

    @property
    def unknown(self) -> bool:
        """Whether no record was seen yet."""
        return self._average is None

    def observe(self, records: int, size: int) -> None:
        """Take over that `records` records had `size` bytes in all."""
        if not records:
            return
        newest = size / records
        if self._average is None or newest > self._average:
            self._average = newest
        else:
            self._average += LEARNING * (newest - self._average)

    def settle(self) -> None:
        """Plan with what the observed size asks for."""
        self.records, self.waiting = self._wanted()

    def outgrown(self) -> bool:
        """Whether a number in force is off by more than TOLERANCE."""
        pairs = zip((self.records, self.waiting), self._wanted(), strict=True)
        return any(not 1 / TOLERANCE <= planned / wanted <= TOLERANCE for planned, wanted in pairs)

    def _wanted(self) -> tuple[int, int]:
        most, waiting = self._config.batch_records, self._config.buffer.records if self._waits else 1
        if self._average:
            most = min(most, int(self._config.batch_bytes / self._average))
            waiting = min(waiting, int(self._config.buffer.bytes / self._average))
        return max(1, most), max(1, min(waiting, most))


def sample(client: KafkaClient, positions: Mapping[TopicPartition, int]) -> tuple[int, int]:
    """(records, bytes) of a few records at `positions`, read within SAMPLE_SECONDS. (0, 0) where nothing came.

    A guess only: whatever is wrong with the brokers shows where it matters, in the batch.
    """
    try:
        consumer = Consumer(with_callbacks(client.librdkafka() | _SAMPLING, ConnectionFaults(client.brokers)))
    except KafkaException:
        return 0, 0
    sizes: list[int] = []
    try:
        consumer.assign([KafkaOffset(where.topic, where.partition, at) for where, at in positions.items()])
        deadline = time.monotonic() + SAMPLE_SECONDS
        while not sizes and (left := deadline - time.monotonic()) > 0:
            messages = consumer.consume(SAMPLE_RECORDS, timeout=min(left, 0.5))
            sizes = [_size(message) for message in messages if not message.error()]
    except KafkaException:
        return 0, 0
    finally:
        consumer.close()
    return len(sizes), sum(sizes)


def _size(message: Message) -> int:
    return len(message.value() or b"") + len(message.key() or b"")
