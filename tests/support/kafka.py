"""Topics with exactly the bytes that a test wants in them, through the production clients."""

from __future__ import annotations

import io
import json
import struct
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import fastavro
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from confluent_kafka.schema_registry import Schema

from firn.kafka import cluster
from firn.kafka.client import client_from_settings
from firn.registry.login import login_from_secret, registry_client
from firn.secrets import RegistrySecret, read_secret
from firn.settings import Settings

_MOVING = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
}


@dataclass
class Topic:
    """A topic of a test; its name is new every time."""

    settings: Settings
    prefix: str
    partitions: int = 2
    config: dict[str, str] = field(default_factory=dict)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = f"{self.prefix}-{uuid.uuid4().hex[:8]}"
        self.client = client_from_settings(self.settings)
        self.admin = cluster.admin_client(self.client)
        self.make()

    @property
    def table(self) -> str:
        """The table that `connector` maps the topic to."""
        return self.name.replace("-", "_").upper()

    def make(self) -> None:
        """Create the topic."""
        # Records of old timestamps would be gone at the broker's next look at retention.
        topic = NewTopic(self.name, self.partitions, 1, config={"retention.ms": "-1"} | self.config)
        self.admin.client.create_topics([topic])[self.name].result(30)

    def is_coordinated(self, group: str) -> bool:
        """Whether a broker answers for the group: a new broker loads its groups when it is first asked for one."""
        try:
            self.admin.client.describe_consumer_groups([group])[group].result(15)
        except KafkaException as fault:
            if fault.args[0].code() in _MOVING:
                return False
            raise
        return True

    def try_make(self) -> bool:
        """Create the topic unless its deletion is still under way; whether it was made."""
        try:
            self.make()
        except KafkaException:
            return False
        return True

    def delete(self) -> None:
        """Delete the topic."""
        self.admin.client.delete_topics([self.name])[self.name].result(30)

    def register(self, schema: dict[str, Any] | str, kind: str = "AVRO", *, part: str = "value") -> int:
        """Register a schema under `<topic>-value` (or `-key`); returns its id."""
        secret = read_secret(self.settings, self.settings.registry_secret_id, RegistrySecret)
        client = registry_client(login_from_secret(secret))
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return int(client.register_schema(f"{self.name}-{part}", Schema(text, kind)))

    def send(
        self,
        values: Iterable[bytes | None],
        *,
        partition: int = 0,
        keys: Sequence[str | bytes | None] | None = None,
        headers: list[tuple[str, bytes]] | None = None,
        timestamp: int = 0,
    ) -> None:
        """Produce values as they are and wait for every delivery. `timestamp` in Unix milliseconds; 0 is now."""
        failed: list[object] = []
        limits = {"acks": "all", "linger.ms": 5, "message.max.bytes": 30_000_000}
        producer = Producer(self.client.librdkafka() | limits)
        for number, value in enumerate(values):
            key = keys[number] if keys else f"k{number}"
            producer.produce(
                self.name,
                value,
                key,
                partition,
                headers=headers or [],
                timestamp=timestamp,
                on_delivery=lambda error, _message: failed.append(error) if error else None,
            )
            producer.poll(0)
        assert producer.flush(30) == 0
        assert failed == []

    def read(self, partition: int = 0) -> list[Message]:
        """All records of a partition that a reader of committed records sees."""
        own = {"group.id": "test", "isolation.level": "read_committed", "enable.partition.eof": "true"}
        consumer = Consumer(self.client.librdkafka() | own)
        consumer.assign([TopicPartition(self.name, partition, 0)])
        found: list[Message] = []
        try:
            while True:
                message = consumer.poll(10)
                assert message is not None, "no end of the partition within 10 s"
                if message.error():
                    return found
                found.append(message)
        finally:
            consumer.close()


def framed(schema_id: int, schema: dict[str, Any], records: Iterable[dict[str, Any]]) -> list[bytes]:
    """Records as Confluent-framed Avro."""
    parsed = fastavro.parse_schema(schema)
    values = []
    for record in records:
        body = io.BytesIO()
        fastavro.schemaless_writer(body, parsed, record)
        values.append(struct.pack(">bI", 0, schema_id) + body.getvalue())
    return values
