"""The soak's producer: records at a steady rate, and what Kafka has acknowledged of them.

Framed Avro with a sequence number for each partition and an amount, now and then a tombstone or a malformed record.
Idempotent and patient: it outlives every outage of the broker, and nothing it sends may fail.
"""

from __future__ import annotations

import random
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from firn.kafka.client import client_from_settings
from firn.kafka.partitions import TopicPartition
from tests.support.kafka import Topic, framed
from tests.support.sinks import wait_until

PATIENCE_MS = 600_000
_TICK = 0.02
_FIELDS = [{"name": "seq", "type": "long"}, {"name": "amount", "type": "long"}, {"name": "note", "type": "string"}]
_FIRST_SCHEMA: dict[str, Any] = {"type": "record", "name": "Order", "namespace": "firn.soak", "fields": _FIELDS}


@dataclass
class Acknowledged:
    """What Kafka has acknowledged of one partition: offsets below `end`, sums over good records."""

    good: int = 0
    amount: int = 0
    tombstones: int = 0
    malformed: set[int] = field(default_factory=set)
    end: int = 0

    @property
    def records(self) -> int:
        """All records."""
        return self.good + self.tombstones + len(self.malformed)


@dataclass
class _Feed:
    """One topic that is produced to: its schema as it is now, and how far each partition's sequence is."""

    topic: Topic
    rate: float
    schema: dict[str, Any] = field(default_factory=lambda: _FIRST_SCHEMA)
    schema_id: int = 0
    sequences: list[int] = field(default_factory=list)
    sent: int = 0


class Traffic:
    """Produces in a thread of its own from `start` to `stop`. `acknowledged` belongs to that thread until then."""

    def __init__(
        self, seed: int, busy: Topic, quiet: Topic, *, rate: float, quiet_rate: float, malformed: float
    ) -> None:
        self._rng = random.Random(seed)
        self._malformed = malformed
        self.busy = _Feed(busy, rate, sequences=[0] * busy.partitions)
        self.quiet = _Feed(quiet, quiet_rate, sequences=[0] * quiet.partitions)
        self.acknowledged: dict[TopicPartition, Acknowledged] = {}
        self.failures: list[str] = []
        self._versions = 0
        self._patience = 0.0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        for feed in (self.busy, self.quiet):
            feed.schema_id = feed.topic.register(feed.schema)
        limits = {"enable.idempotence": True, "acks": "all", "linger.ms": 5, "message.timeout.ms": PATIENCE_MS}
        client = client_from_settings(busy.settings)
        self._producer = Producer(client.librdkafka() | limits | {"error_cb": self._told, "log_level": 0})

    def start(self) -> None:
        """Begin to produce."""
        self._thread.start()

    def stop(self, seconds: float = PATIENCE_MS / 1000) -> None:
        """Stop, and wait until everything is acknowledged, or `seconds` have passed."""
        self._patience = seconds
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()

    def register_version(self) -> tuple[dict[str, Any], int]:
        """Register the next version of the schema (one more optional field); `use` makes the producer write it."""
        self._versions += 1
        added = {"name": f"v{self._versions}", "type": ["null", "string"], "default": None}
        schema = {**self.busy.schema, "fields": [*self.busy.schema["fields"], added]}
        return schema, self.busy.topic.register(schema)

    def use(self, schema: dict[str, Any], schema_id: int) -> None:
        """Write this version from now on."""
        self.busy.schema, self.busy.schema_id = schema, schema_id

    def add_partition(self) -> int:
        """Add a partition to the busy topic and write to it, too; returns its number."""
        number = len(self.busy.sequences)
        topic = self.busy.topic
        topic.admin.client.create_partitions([NewPartitions(topic.name, number + 1)])[topic.name].result(30)
        name = topic.name
        wait_until(
            lambda: len(self._producer.list_topics(name, timeout=10).topics[name].partitions) > number,
            what="it is there",
        )
        self.busy.sequences.append(0)
        return number

    def _run(self) -> None:
        begun = time.monotonic()
        try:
            while not self._end.wait(_TICK):
                for feed in (self.busy, self.quiet):
                    while feed.sent < (time.monotonic() - begun) * feed.rate:
                        self._send(feed)
                self._producer.poll(0)
        except Exception as error:
            self.failures.append(f"the producer broke: {error}")
        if left := self._producer.flush(self._patience):
            self.failures.append(f"{left} records were never acknowledged")

    def _send(self, feed: _Feed) -> None:
        partition = self._rng.randrange(len(feed.sequences))
        amount, draw = self._rng.randrange(1, 100_000), self._rng.random()
        kind, value = "good", None
        if draw < self._malformed:
            kind, value = "malformed", self._broken(feed, amount)
        elif draw < self._malformed + 0.005:
            kind = "tombstone"
        else:
            value = self._value(feed, feed.sequences[partition], amount)
            feed.sequences[partition] += 1
        key = f"{partition}-{feed.sent}"
        feed.sent += 1

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._count(error, message, kind, amount)

        self._producer.produce(feed.topic.name, value, key, partition, on_delivery=delivered)

    def _value(self, feed: _Feed, sequence: int, amount: int) -> bytes:
        record = {"seq": sequence, "amount": amount, "note": "n" * self._rng.randrange(60)}
        return framed(feed.schema_id, feed.schema, [record])[0]

    def _broken(self, feed: _Feed, amount: int) -> bytes:
        """A record with a wrong magic byte, an unknown schema id, a cut or trailing bytes, or less than a header."""
        whole = self._value(feed, 0, amount)
        unknown = b"\x00\x00\x0f\x42\x40" + whole[5:]
        return self._rng.choice([b"\x07" + whole[1:], unknown, whole[:-1], whole + b"\x00", whole[:3]])

    def _count(self, error: KafkaError | None, message: Message, kind: str, amount: int) -> None:
        if error is not None:
            self.failures.append(f"a record was not delivered: {error}")
            return
        where, offset = TopicPartition(str(message.topic()), int(message.partition() or 0)), int(message.offset() or 0)
        seen = self.acknowledged.setdefault(where, Acknowledged())
        seen.end = max(seen.end, offset + 1)
        if kind == "malformed":
            seen.malformed.add(offset)
        elif kind == "tombstone":
            seen.tombstones += 1
        else:
            seen.good += 1
            seen.amount += amount

    def _told(self, error: KafkaError) -> None:
        if error.fatal():
            self.failures.append(f"the producer cannot go on: {error}")
