"""Messages and a group's position in one Kafka transaction: both, or neither.

Shared by letters on their way out (`box`) and back (`replay`). Not for what is sent. Semantics: KIP-98 and KIP-447;
librdkafka's transactional producer API.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka import Message as Delivered

from firn.dead_letters.envelope import Header
from firn.dead_letters.faults import LetterFaults
from firn.errors import ConfigError, FirnError, TransientError
from firn.kafka.client import KafkaClient
from firn.kafka.cluster import with_callbacks
from firn.kafka.faults import ConnectionFaults, refused_configuration

T = TypeVar("T")
log = logging.getLogger(__name__)

ANSWER_SECONDS = 30.0
"""How long one step of a transaction may take before it counts as a transient fault."""

# A killed task's transaction holds back read_committed readers until the next one of its partition aborts it, or
# until it times out. Five minutes are time for gigabytes of letters, and below what brokers allow (15 minutes).
TRANSACTION_MS = 5 * 60 * 1000

_PRODUCER = {
    "transaction.timeout.ms": str(TRANSACTION_MS),
    "acks": "all",
    "compression.type": "lz4",
    "linger.ms": "20",
    "partitioner": "murmur2_random",
    # A letter is as large as its record was: how large that may be, the topic says. A batch stays below the limit that
    # topics have by default.
    "message.max.bytes": "1000000000",
    "batch.size": "500000",
    "queue.buffering.max.messages": "100000",
    "queue.buffering.max.kbytes": str(256 * 1024),
}
_POLL_EVERY = 500


@dataclass(frozen=True)
class Message:
    """One record to produce. partition -1: by its key. timestamp: Unix milliseconds, -1 for none. note: for errors."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    timestamp: int
    note: str


class Committed(NamedTuple):
    """What a group holds for a partition; offset -1 and no metadata where it holds nothing."""

    offset: int
    metadata: str


class GroupTransactions:
    """A transactional producer beside the offsets of one partition in one group; use it in a `with` block.

    Entering it fences every older producer of the transactional id and aborts what that left open. One thread.
    """

    def __init__(self, client: KafkaClient, transactional_id: str, group: str, where: tuple[str, int], to: str) -> None:
        heard = ConnectionFaults(client.brokers)
        self._faults = LetterFaults(heard, to, group, transactional_id)
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

    def committed(self) -> Committed:
        """What the group holds now, behind every transaction that was open."""
        asked = [TopicPartition(*self._where)]
        doing = f"read the offsets of group {self._faults.group}"
        found = self._call(doing, partial(self._consumer.committed, asked, timeout=ANSWER_SECONDS))[0]
        if found.error is not None:
            raise self._faults.explain(found.error, doing)
        return Committed(max(found.offset, -1), found.metadata or "")

    def send(self, messages: Iterable[Message], position: Committed, confirm: Callable[[], None]) -> int:
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
        keep = partial(self._failed.keep, message.note)
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
                raise self._faults.explain(error.args[0], f"produce {message.note}") from None
            else:
                return

    def _wait_for_room(self, message: Message) -> None:
        if len(self._producer) == 0:
            raise ConfigError(
                f"A record is larger than a dead letter may be: {_PRODUCER['queue.buffering.max.kbytes']} KB.",
                where=message.note,
                next_step="Take it out of the way: `firn sink offsets` with --reset moves the sink behind it.",
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
            raise self._faults.explain(self._failed.error, f"deliver {self._failed.note}")

    def _send_position(self, position: Committed) -> None:
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
        self.note = ""

    def keep(self, note: str, error: KafkaError | None, _message: Delivered) -> None:
        # Those that were purged because another one failed tell nothing.
        if error is not None and self.error is None:
            self.error, self.note = error, note


def lost_race(transactional_id: str) -> TransientError:
    """Another producer of this id committed since the caller last looked."""
    return TransientError(
        f"Another attempt has committed for {transactional_id} meanwhile.",
        next_step="Nothing: what it committed is looked at and taken into account.",
    )
