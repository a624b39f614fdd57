"""Reading a dead-letter topic: the committed dead letters of one sink, and how a person sees one. Changes nothing.

Several sinks may share a topic: `__connect.errors.connector.name` tells them apart. A dead letter without that header
may be of any sink, and counts as this sink's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, cast

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition

from firn.dead_letters import envelope
from firn.dead_letters.envelope import envelope_of
from firn.errors import ConfigError
from firn.kafka import cluster
from firn.kafka.client import KafkaClient
from firn.kafka.cluster import with_callbacks
from firn.kafka.faults import ConnectionFaults, refused_configuration
from firn.kafka.producer_faults import ProducerFaults
from firn.kafka.transactional_producer import Header

COLUMNS = ("partition", "offset", "topic", "source_partition", "source_offset", "time", "stage", "reason")

_SILENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Range:
    """The offsets [start, end) of a partition of the dead-letter topic."""

    start: int
    end: int


@dataclass(frozen=True)
class DeadLetter:
    """One dead letter; timestamp in Unix milliseconds, that of its record."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    timestamp: int

    @cached_property
    def envelope(self) -> Mapping[str, str]:
        """Connect's headers by name; empty where they are switched off."""
        return envelope_of(self.headers)

    def belongs_to(self, sink: str) -> bool:
        """Whether it may be a dead letter of this sink."""
        return self.envelope.get(envelope.CONNECTOR, sink) == sink


@dataclass(frozen=True)
class Summary:
    """A dead letter as one line; what it does not tell is None."""

    partition: int
    offset: int
    topic: str | None
    source_partition: int | None
    source_offset: int | None
    time: str
    stage: str | None
    reason: str | None

    @classmethod
    def of(cls, letter: DeadLetter) -> Summary:
        """The line of a dead letter."""
        headers = letter.envelope
        return cls(
            letter.partition,
            letter.offset,
            headers.get(envelope.TOPIC),
            number(headers.get(envelope.PARTITION)),
            number(headers.get(envelope.OFFSET)),
            _time(letter.timestamp),
            headers.get(envelope.STAGE),
            headers.get(envelope.MESSAGE),
        )


class DeadLetterReader:
    """Reads the dead letters of one sink in a topic. What was read, it does not remember.

    Its consumer group holds nothing, so sinks of one name in several ledgers may share it. kind: `sink`, or `export`
    for the dead letters of an export of this name.
    """

    def __init__(self, client: KafkaClient, topic: str, sink: str, kind: str = "sink") -> None:
        self._client, self._topic, self._sink, self._group = client, topic, sink, f"firn-read-{sink}"
        self._kind = kind
        self._admin = replace(cluster.admin_client(client), isolation=IsolationLevel.READ_COMMITTED)

    def topic(self) -> cluster.TopicInfo:
        """The dead-letter topic. Raises ConfigError where it does not exist."""
        found = cluster.find_topics(self._admin, [self._topic])
        if self._topic not in found:
            raise ConfigError(
                f"There is no dead-letter topic {self._topic}.",
                where=f"brokers {self._client.brokers}",
                next_step=f"Nothing, if the {self._kind} never ran with it: its first start creates the topic.",
            )
        return found[self._topic]

    def ranges(self) -> dict[int, Range]:
        """What each partition holds now, by partition."""
        info = self.topic()
        wheres = [(info.name, number) for number in range(info.partitions)]
        first, last = cluster.offsets(self._admin, wheres, "earliest"), cluster.offsets(self._admin, wheres, "latest")
        return {number: Range(first[info.name, number], last[info.name, number]) for number in range(info.partitions)}

    def newest(self, count: int | None) -> list[DeadLetter]:
        """The newest dead letters of each partition (None: all of them), in order of partition and offset."""
        found: list[DeadLetter] = []
        for number, held in self.ranges().items():
            found += self._newest(number, held, count)
        return found

    def one(self, partition: int, offset: int) -> DeadLetter:
        """The dead letter at this place. Raises ConfigError where there is none of this sink."""
        held = self.ranges().get(partition, Range(0, 0))
        if held.start <= offset < held.end:
            for letter in self.read({partition: Range(offset, offset + 1)}):
                return letter
        raise ConfigError(
            f"There is no dead letter of {self._kind} {self._sink} at partition {partition}, offset {offset}.",
            where=f"topic {self._topic}",
            next_step=f"`firn {self._kind} dead-letters list` lists those that exist.",
        )

    def read(self, ranges: Mapping[int, Range]) -> Iterator[DeadLetter]:
        """The sink's dead letters within `ranges`, partition after partition, in order of their offsets."""
        for number, within in ranges.items():
            for letter in self._read(number, within):
                if letter.belongs_to(self._sink):
                    yield letter

    def _newest(self, number: int, held: Range, count: int | None) -> list[DeadLetter]:
        """Looks further back until there are enough: other sinks' dead letters and markers take offsets."""
        reach = held.end - held.start if count is None else 2 * count
        while True:
            start = max(held.start, held.end - reach)
            found = list(self.read({number: Range(start, held.end)}))
            if start == held.start or (count is not None and len(found) >= count):
                return found if count is None else found[len(found) - min(count, len(found)) :]
            reach *= 4

    def _read(self, number: int, within: Range) -> Iterator[DeadLetter]:
        if within.start >= within.end:
            return
        faults = ConnectionFaults(self._client.brokers)
        consumer = self._consumer(faults)
        try:
            consumer.assign([TopicPartition(self._topic, number, within.start)])
            while True:
                message = consumer.poll(_SILENCE_SECONDS)
                error = KafkaError(KafkaError._TIMED_OUT) if message is None else message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise self._explain(faults, error)
                if message is None or error is not None or (message.offset() or 0) >= within.end:
                    return
                yield _letter(message)
        finally:
            consumer.close()

    def _consumer(self, faults: ConnectionFaults) -> Consumer:
        own = {
            "group.id": self._group,
            "isolation.level": "read_committed",
            "enable.auto.commit": "false",
            "enable.partition.eof": "true",
            "auto.offset.reset": "earliest",
        }
        try:
            return Consumer(with_callbacks(self._client.librdkafka() | own, faults))
        except KafkaException as error:
            raise refused_configuration(error.args[0], self._client.brokers) from None

    def _explain(self, faults: ConnectionFaults, error: KafkaError) -> Exception:
        explained = ProducerFaults(faults, self._topic, self._group, self._group)
        return explained.explain(error, f"read dead letters from {self._topic}")


def document(letter: DeadLetter) -> dict[str, Any]:
    """All of a dead letter, for JSON: texts where bytes are UTF-8, else hexadecimal digits; sizes in bytes."""
    return {
        **asdict(Summary.of(letter)),
        "key": shown(letter.key),
        "value": shown(letter.value),
        "headers": [{"name": name, **(shown(value) or {"size": None})} for name, value in letter.headers],
    }


def shown(data: bytes | None) -> dict[str, Any] | None:
    """Bytes for a person: their size, and text or hexadecimal digits; None for none."""
    if data is None:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"size": len(data), "hex": data.hex()}
    if text.isprintable() or all(character.isprintable() or character in "\r\n\t" for character in text):
        return {"size": len(data), "text": text}
    return {"size": len(data), "hex": data.hex()}


def number(text: str | None) -> int | None:
    """A header's number, where it is one."""
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _letter(message: Message) -> DeadLetter:
    partition, offset, timestamp = message.partition() or 0, message.offset() or 0, message.timestamp()[1]
    headers = cast(list[Header], message.headers() or [])  # as bytes: no deserializer is set
    key, value = message.key(), message.value()
    return DeadLetter(partition, offset, key, value, headers, timestamp)


def _time(timestamp: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{timestamp} ms"
