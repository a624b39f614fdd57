"""One production run from end to end: topic and subject made when absent, records made, sent and accounted for.

Not for what calls it: flows/produce.py, benchmarks and tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firn.kafka.client import KafkaClient, client_from_settings
from firn.kafka.cluster import admin_client
from firn.produce.orders import SCHEMA_FILE, Clock, first_order_id, order_events
from firn.produce.producer import DeliveryReport, Progress, produce_all
from firn.produce.records import check_columns, encoder, file_records, order_records
from firn.produce.rows import RowFile, open_rows
from firn.provision.subject import ensure_subject
from firn.provision.topic import ensure_topic, topic_spec
from firn.registry import schemas
from firn.registry.avro_schema import parse, read_schema
from firn.registry.login import login_from_secret, registry_client
from firn.secrets import RegistrySecret, read_secret
from firn.settings import Settings


@dataclass(frozen=True)
class Target:
    """Where records go: the topic exists, the schema is registered."""

    topic: str
    kafka: KafkaClient
    schema: Any
    schema_id: int

    @property
    def encode(self) -> Callable[[Any], bytes]:
        """Values to framed bytes."""
        return encoder(self.schema, self.schema_id)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every record, beside its source."""
        return {"event-type": str(self.schema["name"])}


@dataclass(frozen=True)
class FileSource:
    """A file that was checked against its schema."""

    rows: RowFile
    schema: str
    key: str | None


def open_file(path: Path, schema_file: Path, key: str | None) -> FileSource:
    """Check file, schema and key against each other. Raises ConfigError; nothing is produced or made yet."""
    schema, rows = read_schema(schema_file), open_rows(path)
    check_columns(rows, parse(schema, where=str(schema_file)), key)
    return FileSource(rows, schema, key)


def order_schema() -> str:
    """The schema of the sample orders."""
    return read_schema(SCHEMA_FILE)


def prepare(settings: Settings, topic: str, schema: str) -> Target:
    """Make the topic and register the schema under `<topic>-value` where they are absent."""
    kafka = client_from_settings(settings)
    secret = read_secret(settings, settings.registry_secret_id, RegistrySecret)
    client = registry_client(login_from_secret(secret))
    subject = f"{topic}-value"
    ensure_topic(admin_client(kafka), topic_spec(settings, topic))
    ensure_subject(client, subject, schema, settings.registry_compatibility)
    schema_id = schemas.register(client, subject, schema)
    return Target(topic, kafka, parse(schema, where=f"subject {subject}"), schema_id)


def produce_orders(
    settings: Settings,
    target: Target,
    *,
    count: int,
    now_ms: int,
    seed: int | None = None,
    rate: float | None = None,
    progress: Progress = lambda _count: None,
) -> DeliveryReport:
    """Produce `count` events of new orders; `now_ms` is the clock, from which order ids and event time follow."""
    clock = Clock.for_run(now_ms, count, rate)
    events = order_events(count, seed=seed, first_id=first_order_id(now_ms), clock=clock)
    records = order_records(events, target.encode)
    return produce_all(
        settings, target.kafka, target.topic, records, headers=target.headers, rate=rate, progress=progress
    )


def produce_file(
    settings: Settings,
    target: Target,
    source: FileSource,
    *,
    rate: float | None = None,
    progress: Progress = lambda _count: None,
) -> DeliveryReport:
    """Produce the rows of a file up to its end or its first bad row."""
    records = file_records(source.rows, target.schema, source.key, target.encode)
    return produce_all(
        settings, target.kafka, target.topic, records, headers=target.headers, rate=rate, progress=progress
    )
