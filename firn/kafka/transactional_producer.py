"""Records in one Kafka transaction, and a consumer group's position where there is one: all of it, or nothing.

Not for what is produced, nor for what a position means to its caller. Semantics: KIP-98 and KIP-447; librdkafka's
transactional producer API. Error codes: Kafka's protocol errors and librdkafka's rd_kafka_resp_err_t.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Delivery

from firn.errors import ConfigError, FirnError, TransientError
from firn.kafka.client import KafkaClient
from firn.kafka.cluster import with_callbacks
from firn.kafka.faults import ConnectionFaults, refused_configuration
from firn.kafka.producer_faults import TOO_LARGE, ProducerFaults

T = TypeVar("T")
Header = tuple[str, bytes | None]
log = logging.getLogger(__name__)

ANSWER_SECONDS = 30.0
"""How long one step of a transaction may take before it counts as a transient fault."""

# The transaction of a process that was killed holds back read_committed readers until the next producer of its id
# aborts it, or until it times out. Five minutes are enough for gigabytes of records; brokers allow fifteen.
TRANSACTION_MS = 5 * 60 * 1000

# A record that is larger is a batch of its own.
_BATCH_BYTES = 500_000
_PRODUCER = {
    "acks": "all",
    "compression.type": "lz4",
    "linger.ms": "20",
    "partitioner": "murmur2_random",
    # How large a record may be, the topic says. A batch stays below the limit that topics have by default.
    "message.max.bytes": "1000000000",
    "batch.size": str(_BATCH_BYTES),
    "queue.buffering.max.messages": "100000",
    "queue.buffering.max.kbytes": str(256 * 1024),
}
_POLL_EVERY = 500


@dataclass(frozen=True)
class Message:
    """One record to produce. partition -1: by its key. timestamp: Unix milliseconds, -1 for none.

    description: what the record is, for errors.
    """

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    timestamp: int
    description: str


class CommittedOffset(NamedTuple):
    """What a group holds for a partition; offset -1 and no metadata where it holds nothing."""

    offset: int
    metadata: str


class RecordTooLargeError(ConfigError):
    """A record is larger than its topic takes.

    number: as `put` got it; -1 for a record without one. alone: whether it was the only one of its batch; else another
    record of the batch may be the large one.
    """

    number: int = -1
    alone: bool = False


class TransactionSession:
    """A transactional producer; use it in a `with` block. Entering it fences every older producer of its id and aborts
    what that left open. For one thread.

    to: the topics that it produces to, and group: the prefix of its id, for errors. timeout_ms: how long a transaction
    may stay open. remedies: see `ProducerFaults`. singly: each record is a batch of its own, so that a topic's refusal
    is about one record alone.
    """

    def __init__(
        self,
        client: KafkaClient,
        transactional_id: str,
        group: str,
        to: str,
        remedies: Mapping[int, str] | None = None,
        timeout_ms: int = TRANSACTION_MS,
        *,
        singly: bool = False,
    ) -> None:
        heard = ConnectionFaults(client.brokers)
        self._singly = singly
        self._faults = ProducerFaults(heard, to, group, transactional_id, remedies or {})
        self._failed, self._offsets = _Failure(), Delivered()
        own = {"transactional.id": transactional_id, "transaction.timeout.ms": str(timeout_ms)}
        if singly:
            own["batch.size"] = "1"  # applied behind the first record
        try:
            self._producer = Producer(with_callbacks(client.librdkafka() | _PRODUCER | own, heard))
        except KafkaException as error:
            raise refused_configuration(error.args[0], client.brokers) from None

    def __enter__(self) -> Self:
        self._call(
            f"begin as {self._faults.transactional_id}", partial(self._producer.init_transactions, ANSWER_SECONDS)
        )
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Nothing: what stays open is aborted by the next producer of this id, or times out."""

    @contextmanager
    def transaction(self) -> Iterator[Delivered]:
        """One transaction, committed at the end of the block, aborted by what is raised in it; gives what is delivered.

        Raises TransientError, also where the answer to the commit was lost and nobody knows; otherwise TerminalErrors.
        """
        self._failed, self._offsets = _Failure(), Delivered()
        self._call("begin a transaction", self._producer.begin_transaction)
        try:
            yield self._offsets
            self.flush()
        except BaseException:
            self._abort()
            raise
        self._commit()

    def put(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header],
        partition: int = -1,
        number: int = -1,
    ) -> None:
        """Produce a record in the open transaction. Its offset is in `Delivered` after `flush`.

        number: by which a RecordTooLargeError names it, here or at `serve`, `flush` and the end of the transaction.
        """
        delivered = self._delivered if number < 0 else partial(self._delivered, number=number)
        while True:
            try:
                self._producer.produce(topic, value, key, partition, on_delivery=delivered, headers=headers)  # type: ignore[arg-type]  # a list is invariant
            except BufferError:
                self._wait_for_room(f"a record of {len(value or b'') + len(key or b'')} bytes to {topic}")
            except KafkaException as error:
                raise self._faults.explain(error.args[0], f"produce to {topic}") from None
            else:
                return

    def flush(self) -> None:
        """Wait until each message was acknowledged or has failed, which librdkafka bounds by the transaction's time."""
        while len(self._producer) > 0:
            self._serve(0.5)
        self._serve(0)

    def serve(self) -> None:
        """Take delivery reports that have come; raises what they say."""
        self._serve(0)

    def _delivered(self, error: KafkaError | None, message: Delivery, number: int = -1) -> None:
        if error is not None:
            self._failed.keep(f"a record to {message.topic()}", error, message)
            self._failed.number = number if self._failed.message is message else self._failed.number
            return
        self._offsets.add(message)

    def _wait_for_room(self, description: str) -> None:
        if len(self._producer) == 0:
            raise ConfigError(
                f"A record is larger than the producer's buffer: {_PRODUCER['queue.buffering.max.kbytes']} KB.",
                where=description,
                next_step=self._faults.remedy(KafkaError._QUEUE_FULL),
            )
        self._serve(0.1)

    def _serve(self, seconds: float) -> None:
        self._call("produce", partial(self._producer.poll, seconds))
        if (cause := self._faults.heard.terminal()) is not None:
            raise cause
        if self._failed.error is not None:
            raise self._of_record(self._faults.explain(self._failed.error, f"deliver {self._failed.description}"))

    def _of_record(self, explained: FirnError) -> FirnError:
        """The same error; where it is about a record's size, one that names the record."""
        error, message = self._failed.error, self._failed.message
        if error is None or error.code() not in TOO_LARGE:
            return explained
        size = 0 if message is None else len(message.value() or b"") + len(message.key() or b"")
        named = RecordTooLargeError(explained.what, where=explained.where, next_step=explained.next_step)
        named.number, named.alone = self._failed.number, self._singly or size > _BATCH_BYTES
        return named

    def _commit(self) -> None:
        try:
            self._producer.commit_transaction(ANSWER_SECONDS)
        except KafkaException as error:
            if error.args[0].txn_requires_abort():
                self._abort()
            raise self._explained(error, "commit a transaction") from None

    def _abort(self) -> None:
        """Best effort: what stays open is aborted by the next producer of this id, or times out."""
        try:
            self._producer.abort_transaction(ANSWER_SECONDS)
        except KafkaException as error:
            log.info("a transaction of %s was not aborted: %s", self._faults.transactional_id, error.args[0].str())
            self._producer.purge()

    def _call(self, doing: str, call: Callable[[], T]) -> T:
        try:
            return call()
        except KafkaException as error:
            raise self._explained(error, doing) from None

    def _explained(self, error: KafkaException, doing: str) -> FirnError:
        with suppress(KafkaException):  # of a producer that was fenced
            self._producer.poll(0)  # what the connection has to say
        return self._faults.explain(error.args[0], doing)


class TransactionalProducer(TransactionSession):
    """A transactional producer that also moves the offset of one partition in one group; use it in a `with` block.

    Arguments as of `TransactionSession`; where: the partition.
    """

    def __init__(
        self,
        client: KafkaClient,
        transactional_id: str,
        group: str,
        where: tuple[str, int],
        to: str,
        remedies: Mapping[int, str] | None = None,
    ) -> None:
        super().__init__(client, transactional_id, group, to, remedies)
        self._where = where
        group_only = {"group.id": group, "isolation.level": "read_committed", "enable.auto.commit": "false"}
        try:
            self._consumer = Consumer(with_callbacks(client.librdkafka() | group_only, self._faults.heard))
        except KafkaException as error:
            raise refused_configuration(error.args[0], client.brokers) from None

    def __enter__(self) -> Self:
        try:
            return super().__enter__()
        except FirnError:
            self._consumer.close()
            raise

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def committed(self) -> CommittedOffset:
        """What the group holds now, behind every transaction that was open."""
        asked = [TopicPartition(*self._where)]
        doing = f"read the offsets of group {self._faults.group}"
        found = self._call(doing, partial(self._consumer.committed, asked, timeout=ANSWER_SECONDS))[0]
        if found.error is not None:
            raise self._faults.explain(found.error, doing)
        return CommittedOffset(max(found.offset, -1), found.metadata or "")

    def send(self, messages: Iterable[Message], position: CommittedOffset, confirm: Callable[[], None]) -> int:
        """One transaction: all messages and the group's new position; returns how many messages.

        `confirm` is asked last, when nobody can overlook the open transaction any more: what it raises aborts it.
        Raises as `transaction`.
        """
        with self.transaction():
            count = self._produce(messages)
            self.flush()
            self._send_position(position)
            confirm()
        return count

    def _produce(self, messages: Iterable[Message]) -> int:
        count = 0
        for message in messages:
            self._enqueue(message)
            count += 1
            if count % _POLL_EVERY == 0:
                self._serve(0)
        return count

    def _enqueue(self, message: Message) -> None:
        keep = partial(self._failed.keep, message.description)
        # librdkafka takes a time of 0 for none and would put its own clock.
        timestamp = 0 if message.timestamp < 0 else max(message.timestamp, 1)
        while True:
            try:
                self._producer.produce(
                    message.topic,
                    message.value,
                    message.key,
                    message.partition,
                    on_delivery=keep,
                    timestamp=timestamp,
                    headers=[*message.headers],
                )
            except BufferError:
                self._wait_for_room(message.description)
            except KafkaException as error:
                raise self._faults.explain(error.args[0], f"produce {message.description}") from None
            else:
                return

    def _send_position(self, position: CommittedOffset) -> None:
        at = TopicPartition(*self._where, position.offset, metadata=position.metadata)
        group = self._consumer.consumer_group_metadata()
        send = partial(self._producer.send_offsets_to_transaction, [at], group, ANSWER_SECONDS)
        self._call(f"commit offsets of group {self._faults.group}", send)


class Delivered:
    """Where the records of a transaction are: by topic and partition the first and the last offset."""

    def __init__(self) -> None:
        self._spans: dict[tuple[str, int], list[int]] = {}

    def add(self, message: Delivery) -> None:
        """Count a record that was acknowledged; those of a partition come in their order."""
        where, offset = (message.topic(), message.partition()), message.offset()
        span = self._spans.get(where)  # type: ignore[arg-type]
        if span is None:
            self._spans[where] = [offset, offset]  # type: ignore[index,list-item]
        else:
            span[1] = offset  # type: ignore[assignment]

    def by_topic(self) -> dict[str, dict[int, tuple[int, int]]]:
        """The spans as plain values."""
        found: dict[str, dict[int, tuple[int, int]]] = {}
        for (topic, partition), (first, last) in sorted(self._spans.items()):
            found.setdefault(topic, {})[partition] = (first, last)
        return found


class _Failure:
    """The first message that was not delivered; number: that of `put`."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        self.description, self.number = "", -1
        self.message: Delivery | None = None

    def keep(self, description: str, error: KafkaError | None, message: Delivery) -> None:
        # Messages that were purged because another one failed say nothing new.
        if error is not None and self.error is None:
            self.error, self.description, self.message = error, description, message


def lost_race(transactional_id: str) -> TransientError:
    """The error for a caller whose last look is old: another producer of this id has committed since."""
    return TransientError(
        f"Another producer of transactional id {transactional_id} has committed in the meantime.",
        next_step="Nothing: the next attempt takes into account what was committed.",
    )
