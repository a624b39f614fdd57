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
from firn.produce.framing import FormatName
from firn.produce.orders import SCHEMA_FILE, SCHEMA_FILES, Clock, first_order_id, order_events
from firn.produce.producer import DeliveryReport, Progress, Report, produce_all
from firn.produce.records import check_columns, file_records, order_records
from firn.produce.rows import RowFile, open_rows
from firn.produce.value_formats import ValueFormat, read_format
from firn.provision.subject import ensure_subject
from firn.provision.topic import ensure_topic, topic_spec
from firn.registry import schemas
from firn.registry.avro_schema import read_schema
from firn.registry.login import login_from_secret, registry_client
from firn.secrets import RegistrySecret, read_secret
from firn.settings import Settings


@dataclass(frozen=True)
class Target:
    """Where records go: the topic exists, the schema is registered.

    schema_id: of what has no registered schema 0.
    """

    topic: str
    kafka: KafkaClient
    values: ValueFormat
    schema_id: int

    @property
    def encode(self) -> Callable[[Any], bytes]:
        """Values to bytes."""
        return self.values.encoder(self.schema_id)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every record, beside its source."""
        return {"event-type": self.values.name} if self.values.name else {}


@dataclass(frozen=True)
class FileSource:
    """A file that was checked against its schema."""

    rows: RowFile
    values: ValueFormat
    key: str | None


def open_file(path: Path, schema_file: Path | None, key: str | None, name: FormatName = "avro") -> FileSource:
    """Check file, schema and key against each other. Raises ConfigError; nothing is produced or made yet."""
    values, rows = read_format(name, schema_file), open_rows(path)
    check_columns(rows, values, key)
    return FileSource(rows, values, key)


def order_schema() -> str:
    """The Avro schema of the sample orders."""
    return read_schema(SCHEMA_FILE)


def order_values(name: FormatName = "avro") -> ValueFormat:
    """The format of the sample orders, with their schema in it."""
    return read_format(name, SCHEMA_FILES.get(name))


def prepare(settings: Settings, topic: str, values: ValueFormat) -> Target:
    """Make the topic and register the schema under `<topic>-value` where they are absent."""
    kafka = client_from_settings(settings)
    ensure_topic(admin_client(kafka), topic_spec(settings, topic))
    if values.kind is None:
        return Target(topic, kafka, values, 0)
    secret = read_secret(settings, settings.registry_secret_id, RegistrySecret)
    client = registry_client(login_from_secret(secret))
    subject = f"{topic}-value"
    ensure_subject(client, subject, values.schema, settings.registry_compatibility, kind=values.kind)
    return Target(topic, kafka, values, schemas.register(client, subject, values.schema, values.kind))


def produce_orders(
    settings: Settings,
    target: Target,
    *,
    count: int,
    now_ms: int,
    seed: int | None = None,
    rate: float | None = None,
    progress: Progress = lambda _count: None,
    report: Report | None = None,
) -> DeliveryReport:
    """Produce `count` events of new orders; `now_ms` is the clock, from which order ids and event time follow."""
    clock = Clock.for_run(now_ms, count, rate)
    events = order_events(count, seed=seed, first_id=first_order_id(now_ms), clock=clock)
    records = order_records(events, target.encode)
    return produce_all(
        settings,
        target.kafka,
        target.topic,
        records,
        headers=target.headers,
        rate=rate,
        progress=progress,
        report=report,
    )


def produce_file(
    settings: Settings,
    target: Target,
    source: FileSource,
    *,
    rate: float | None = None,
    progress: Progress = lambda _count: None,
    report: Report | None = None,
) -> DeliveryReport:
    """Produce the rows of a file up to its end or its first bad row."""
    records = file_records(source.rows, target.values, source.key, target.encode)
    return produce_all(
        settings,
        target.kafka,
        target.topic,
        records,
        headers=target.headers,
        rate=rate,
        progress=progress,
        report=report,
    )
