"""Records and a consumer group's position in one Kafka transaction: both are committed, or neither is.

Not for what is produced, nor for what a position means to its caller. Semantics: KIP-98 and KIP-447; librdkafka's
transactional producer API. Error codes: Kafka's protocol errors and librdkafka's rd_kafka_resp_err_t.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Delivered

from firn.errors import ConfigError, FirnError, PrivilegeError, TransientError
from firn.kafka.client import KafkaClient
from firn.kafka.cluster import with_callbacks
from firn.kafka.faults import ConnectionFaults, refused_configuration

T = TypeVar("T")
Header = tuple[str, bytes | None]
log = logging.getLogger(__name__)

ANSWER_SECONDS = 30.0
"""How long one step of a transaction may take before it counts as a transient fault."""

# The transaction of a process that was killed holds back read_committed readers until the next producer of its id
# aborts it, or until it times out. Five minutes are enough for gigabytes of records; brokers allow fifteen.
TRANSACTION_MS = 5 * 60 * 1000

_PRODUCER = {
    "transaction.timeout.ms": str(TRANSACTION_MS),
    "acks": "all",
    "compression.type": "lz4",
    "linger.ms": "20",
    "partitioner": "murmur2_random",
    # How large a record may be, the topic says. A batch stays below the limit that topics have by default.
    "message.max.bytes": "1000000000",
    "batch.size": "500000",
    "queue.buffering.max.messages": "100000",
    "queue.buffering.max.kbytes": str(256 * 1024),
}
_POLL_EVERY = 500


_FENCED = {
    KafkaError._FENCED,
    KafkaError.PRODUCER_FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
}
_REMEDIES: Mapping[int, str] = {
    KafkaError.MSG_SIZE_TOO_LARGE: "Raise max.message.bytes of the topic above the record's size and some kilobytes "
    "for headers.",
    KafkaError.UNKNOWN_TOPIC_OR_PART: "Create the topic.",
    KafkaError._UNKNOWN_TOPIC: "Create the topic.",
    KafkaError._UNKNOWN_PARTITION: "The topic has fewer partitions than before: add partitions to it.",
    KafkaError._QUEUE_FULL: "Leave the record out.",
    KafkaError.OFFSET_METADATA_TOO_LARGE: "Raise the brokers' offset.metadata.max.bytes to its default of 4096.",
    KafkaError.INVALID_TRANSACTION_TIMEOUT: "Raise the brokers' transaction.max.timeout.ms to five minutes or more.",
    KafkaError.INVALID_TIMESTAMP: "Raise message.timestamp.before.max.ms and message.timestamp.after.max.ms of the "
    "topic: records are produced with their original timestamps.",
    KafkaError.INVALID_RECORD: "Set cleanup.policy=delete on the topic: a compacted topic refuses records without a "
    "key.",
}


@dataclass(frozen=True)
class ProducerFaults:
    """Explains errors of one client. `topic` is where it produces to; the ids are what its login needs rights for.

    remedies: next steps by error code, where the caller knows a better one than `_REMEDIES`.
    """

    heard: ConnectionFaults
    topic: str
    group: str
    transactional_id: str
    remedies: Mapping[int, str] = field(default_factory=dict)

    def remedy(self, code: int) -> str:
        """What to do about a refusal; empty where this client knows nothing special."""
        return self.remedies.get(code) or _REMEDIES.get(code, "")

    def explain(self, error: KafkaError, doing: str) -> FirnError:
        """The error for a person, of the right kind."""
        code = error.code()
        if code in _FENCED:
            return TransientError(
                f"A newer producer has taken over transactional id {self.transactional_id}: {error.str()}",
                where=f"brokers {self.heard.brokers}",
                next_step="Check whether the same job runs twice; the newer one goes on.",
            )
        if right := self._right(code):
            return PrivilegeError(
                f"Kafka does not allow this: {doing} ({error.str()}).",
                where=f"brokers {self.heard.brokers}",
                next_step=f"Grant the Kafka login {right}.",
            )
        if remedy := self.remedy(code):
            return ConfigError(
                f"Kafka refuses to {doing}: {error.str()}", where=f"topic {self.topic}", next_step=remedy
            )
        return self.heard.explain(error, doing)

    def _right(self, code: int) -> str:
        """The ACL that is missing, or ""."""
        return {
            KafkaError.TOPIC_AUTHORIZATION_FAILED: f"WRITE and DESCRIBE on topic {self.topic}, and READ on the topics "
            f"whose offsets group {self.group} holds",
            KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "WRITE and DESCRIBE on transactional ids that begin with "
            f"{self.group}-",
            KafkaError.GROUP_AUTHORIZATION_FAILED: f"READ on group {self.group}",
            KafkaError.CLUSTER_AUTHORIZATION_FAILED: "IDEMPOTENT_WRITE on the cluster",
        }.get(code, "")


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


class TransactionalProducer:
    """A transactional producer that also moves the offset of one partition in one group; use it in a `with` block.

    to: the topics that it produces to, for errors. remedies: see `ProducerFaults`. Entering it fences every older
    producer of the transactional id and aborts what that left open. For one thread.
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
        heard = ConnectionFaults(client.brokers)
        self._faults = ProducerFaults(heard, to, group, transactional_id, remedies or {})
        self._where, self._failed = where, _Failure()
        own = {"transactional.id": transactional_id}
        group_only = {"group.id": group, "isolation.level": "read_committed", "enable.auto.commit": "false"}
        try:
            self._producer = Producer(with_callbacks(client.librdkafka() | _PRODUCER | own, heard))
            self._consumer = Consumer(with_callbacks(client.librdkafka() | group_only, heard))
        except KafkaException as error:
            raise refused_configuration(error.args[0], client.brokers) from None

    def __enter__(self) -> Self:
        try:
            self._call(
                f"begin as {self._faults.transactional_id}", partial(self._producer.init_transactions, ANSWER_SECONDS)
            )
        except FirnError:
            self._consumer.close()
            raise
        return self

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
        Raises TransientError, also where the answer to the commit was lost and nobody knows; otherwise TerminalErrors.
        """
        self._failed = _Failure()
        self._call("begin a transaction", self._producer.begin_transaction)
        try:
            count = self._produce(messages)
            self._flush()
            self._send_position(position)
            confirm()
        except BaseException:
            self._abort()
            raise
        self._commit()
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
                self._wait_for_room(message)
            except KafkaException as error:
                raise self._faults.explain(error.args[0], f"produce {message.description}") from None
            else:
                return

    def _wait_for_room(self, message: Message) -> None:
        if len(self._producer) == 0:
            raise ConfigError(
                f"A record is larger than the producer's buffer: {_PRODUCER['queue.buffering.max.kbytes']} KB.",
                where=message.description,
                next_step=self._faults.remedy(KafkaError._QUEUE_FULL),
            )
        self._serve(0.1)

    def _flush(self) -> None:
        """Wait until each message was acknowledged or has failed, which librdkafka bounds by the transaction's time."""
        while len(self._producer) > 0:
            self._serve(0.5)
        self._serve(0)

    def _serve(self, seconds: float) -> None:
        self._call("produce", partial(self._producer.poll, seconds))
        if (cause := self._faults.heard.terminal()) is not None:
            raise cause
        if self._failed.error is not None:
            raise self._faults.explain(self._failed.error, f"deliver {self._failed.description}")

    def _send_position(self, position: CommittedOffset) -> None:
        at = TopicPartition(*self._where, position.offset, metadata=position.metadata)
        group = self._consumer.consumer_group_metadata()
        send = partial(self._producer.send_offsets_to_transaction, [at], group, ANSWER_SECONDS)
        self._call(f"commit offsets of group {self._faults.group}", send)

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


class _Failure:
    """The first message that was not delivered."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None
        self.description = ""

    def keep(self, description: str, error: KafkaError | None, _message: Delivered) -> None:
        # Messages that were purged because another one failed say nothing new.
        if error is not None and self.error is None:
            self.error, self.description = error, description


def lost_race(transactional_id: str) -> TransientError:
    """The error for a caller whose last look is old: another producer of this id has committed since."""
    return TransientError(
        f"Another producer of transactional id {transactional_id} has committed in the meantime.",
        next_step="Nothing: the next attempt takes into account what was committed.",
    )
