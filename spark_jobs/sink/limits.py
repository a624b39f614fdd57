"""How many records one batch may hold: `firn.batch.records`, or fewer where records are large.

Spark counts records when it plans a batch, not bytes. So sizes are observed, before the first batch by a look at some
records and then by what each batch shipped, and where the limit has to change the run claims again with the new one.
Memory does not depend on this: Arrow batches and files are bounded by bytes. A batch bounds what one transaction loads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, Message
from confluent_kafka import TopicPartition as KafkaOffset

from firn.connector.config import SinkConfig
from firn.kafka_client import KafkaClient
from spark_jobs.sink.ledger import TopicPartition

SAMPLE_RECORDS = 100
SAMPLE_SECONDS = 3.0
# No group is joined and nothing committed; librdkafka wants a name all the same.
_SAMPLING = {"group.id": "firn-sample", "enable.auto.commit": "false", "max.partition.fetch.bytes": "65536"}
# The limit follows the observed size when it is off by this factor: each change costs a new claim.
TOLERANCE = 2.0


class BatchLimit:
    """The limit of the next batches, in records. Owned by the driver's run; lives longer than an epoch."""

    def __init__(self, config: SinkConfig) -> None:
        self._most, self._bytes = config.batch_records, config.batch_bytes
        self._average: float | None = None
        self.records = config.batch_records

    @property
    def unknown(self) -> bool:
        """Whether no record was seen yet."""
        return self._average is None

    def observe(self, records: int, size: int) -> None:
        """Take over that `records` records had `size` bytes in all."""
        if records:
            newest = size / records
            self._average = newest if self._average is None else (self._average + newest) / 2

    def settle(self) -> None:
        """Make the observed size the limit of what is planned from now on."""
        self.records = self._wanted()

    def outgrown(self) -> bool:
        """Whether the limit in force is off by more than TOLERANCE."""
        ratio = self.records / self._wanted()
        return ratio > TOLERANCE or ratio < 1 / TOLERANCE

    def _wanted(self) -> int:
        if not self._average:
            return self._most
        return max(1, min(self._most, int(self._bytes / self._average)))


def sample(client: KafkaClient, positions: Mapping[TopicPartition, int]) -> tuple[int, int]:
    """(records, bytes) of a few records at `positions`, read within SAMPLE_SECONDS. (0, 0) where nothing came.

    A guess only: whatever is wrong with the brokers shows where it matters, in the batch.
    """
    consumer = Consumer(client.librdkafka() | _SAMPLING)
    try:
        consumer.assign([KafkaOffset(where.topic, where.partition, at) for where, at in positions.items()])
        deadline = time.monotonic() + SAMPLE_SECONDS
        sizes: list[int] = []
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
