"""What every reader of records has in common: its consumer, how much it takes at a time, and what errors mean.

For `ranges` (one range after the other) and `follower` (many partitions, for as long as it lives). Neither joins a
group or commits an offset. Source: librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from firn.errors import FirnError, TransientError
from firn.kafka.client import KafkaClient
from firn.kafka.cluster import with_callbacks
from firn.kafka.faults import ConnectionFaults, refused_configuration
from firn.kafka.partitions import TopicPartition

BATCH_RECORDS, BATCH_BYTES = 10_000, 16 * 1024 * 1024
TAKEN_RECORDS = 1_000
"""So many records are taken from librdkafka at a time, at most: a message costs half a kilobyte beside its bytes, and
with ten times as many, that no cache holds, reading takes a third more CPU."""
FIRST_RECORDS = 64
"""So many records are taken where nobody has seen their size yet."""
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
}


class GoneRangeError(TransientError):
    """Kafka does not hold an offset that was asked for (any more): who planned it has to look at the topic again."""


@dataclass(frozen=True)
class Room:
    """How much one batch holds: rows, and bytes, about. before: average size of the records before; 0: not known."""

    records: int
    bytes: int
    before: float = 0.0

    def left(self, records: int, size: int) -> int:
        """How many to take next, beside so many records of `size` bytes: as many as fit, TAKEN_RECORDS at most.

        A few where nobody has seen any, 0 where full.
        """
        if size >= self.bytes:
            return 0
        average = self.average(records, size)
        fitting = int((self.bytes - size) / average) + 1 if average else FIRST_RECORDS
        return max(0, min(fitting, self.records - records, TAKEN_RECORDS))

    def average(self, records: int, size: int) -> float:
        """Bytes of a record, as far as they are known."""
        return size / records if records else self.before


def fetching_consumer(client: KafkaClient, faults: ConnectionFaults, own: dict[str, str], **callbacks: Any) -> Consumer:
    """A consumer that reads what it is assigned, with these settings of its own. Raises ConfigError for others.

    callbacks: of librdkafka's Python client, beside those that report faults.
    """
    config = _OPTIONS | client.librdkafka() | _FORCED | own
    try:
        return Consumer(with_callbacks(config, faults) | callbacks)
    except KafkaException as error:
        raise refused_configuration(error.args[0], client.brokers) from None


def of_no_partition(message: Message) -> bool:
    """Whether it is an error of the group that nobody joins: rights on groups are not needed to read."""
    return message.error() is not None and message.topic() is None


def explain_fetch(
    error: KafkaError, where: TopicPartition, position: int, faults: ConnectionFaults, doing: str
) -> FirnError:
    """Why a partition cannot be read from `position` on: GoneRangeError, or what the faults explain."""
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        return GoneRangeError(
            f"Kafka does not hold offset {position} of {where}.",
            where=f"brokers {faults.brokers}",
            next_step="Look at the topic's first and last offset: records expired, or the topic was made again.",
        )
    return faults.explain(error, doing)


@contextmanager
def no_collection() -> Iterator[None]:
    """No garbage collection: records come as millions of small objects without cycles, which each one would look at."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def offset_of(message: Message) -> int:
    """Its offset; of the event that nothing more is there, the next one that a record gets."""
    return cast("int", message.offset())
