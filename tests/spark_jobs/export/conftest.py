"""Exports from a local Snowflake of the module's own into the stack's Kafka; their tasks run in this process."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import pytest
from confluent_kafka import Message
from snowflake.connector import SnowflakeConnection

from firn.connector.export.config import (
    ExportConfig,
    MessageConfig,
    MessageFormat,
    SnapshotConfig,
    SourceConfig,
    SourceKind,
)
from firn.exports.context import ExportContext
from firn.exports.history import read_history
from firn.kafka.client import client_from_settings
from firn.operations.exports.run_report import ExportReport
from firn.registry.login import RegistryLogin
from firn.settings import Settings
from firn.snowflake.connection import connect, execute, query
from firn.snowflake.identifiers import Namespace
from spark_jobs.export import worker
from spark_jobs.export.run import ExportRun
from spark_jobs.spark.engine import Engine
from tests.support.export_orders import TABLE, committed_records
from tests.support.local_snowflake import Local, running_local

T = TypeVar("T")


class HereEngine:
    """Runs tasks in this process, one after the other."""

    slots = 2

    def run(self, task: Callable[[Iterator[T]], Iterator[str]], groups: Sequence[T]) -> list[str]:
        """As `Engine.run`."""
        return [text for group in groups for text in task(iter([group]))]

    def cancel(self) -> None:
        """Nothing runs beside the caller."""


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with running_local(tmp_path_factory.mktemp("exports")) as running:
        yield running
        worker.close()


@dataclass
class World:
    """A schema with a table ORDERS, its stream, and the export of it to a topic of the test's own."""

    local: Local
    settings: Settings
    connection: SnowflakeConnection
    schema: Namespace
    name: str = field(default_factory=lambda: f"out-{uuid.uuid4().hex[:8]}")
    more: dict[str, Any] = field(default_factory=dict)
    source: dict[str, Any] = field(default_factory=dict)
    registry: RegistryLogin | None = None
    engine: Engine = field(default_factory=HereEngine)

    @property
    def topic(self) -> str:
        """Where the orders go."""
        return f"{self.name}-orders"

    @property
    def config(self) -> ExportConfig:
        """The export's configuration."""
        source = SourceConfig(
            name="orders", kind=SourceKind.STREAM, names=("ORDERS_STREAM",), key_columns=("ID",), topic=self.topic
        )
        config = ExportConfig(
            self.name,
            (replace(source, **self.source),),
            value=MessageConfig(MessageFormat.JSON),
            snapshot=SnapshotConfig(shards=1),
            marker_topic=f"{self.name}-markers",
        )
        return replace(config, **self.more)

    @property
    def context(self) -> ExportContext:
        """The context of a run."""
        login = replace(self.local.login, database=self.schema.database, schema=self.schema.schema)
        return ExportContext(
            self.config, self.settings, client_from_settings(self.settings), self.registry, self.registry, login
        )

    def sql(self, statement: str) -> int:
        """Run a statement in the schema."""
        return execute(self.connection, statement)

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """The rows of a query."""
        return query(self.connection, statement)

    def run(self, *, once: bool = True, stop: threading.Event | None = None) -> ExportReport:
        """Run the export; `once`: until all is published."""
        return ExportRun(self.context, self.engine, once=once, stop=stop or threading.Event()).run()

    def messages(self, topic: str | None = None) -> list[Message]:
        """All committed records of a topic, as a plain consumer reads them, partition by partition."""
        return committed(self.context, topic or self.topic)

    def history(self) -> list[dict[str, Any]]:
        """FIRN_EXPORT_HISTORY of the export, oldest first."""
        return read_history(self.connection, self.schema, self.name, limit=1000)[::-1]

    def waiting(self) -> int:
        """Rows that wait in all outboxes of the schema."""
        tables = [row["name"] for row in self.rows("SHOW TABLES") if row["name"].startswith("FIRN_OUTBOX")]
        return sum(self.rows(f'SELECT COUNT(*) AS N FROM "{table}"')[0]["N"] for table in tables)


def committed(context: ExportContext, topic: str) -> list[Message]:
    """All committed records of a topic, read by a plain consumer."""
    found = committed_records(context.kafka.librdkafka(), topic)
    return sorted(found, key=lambda each: (each.partition(), each.offset()))


@pytest.fixture(scope="module")
def connection(local: Local) -> Iterator[SnowflakeConnection]:
    with connect(local.login) as opened:
        yield opened


@pytest.fixture
def world(local: Local, settings: Settings, connection: SnowflakeConnection) -> World:
    """A schema of the test's own, with ORDERS and a stream on it."""
    name = f"S_{uuid.uuid4().hex[:8].upper()}"
    execute(connection, f"CREATE SCHEMA D.{name}")
    execute(connection, f"USE SCHEMA D.{name}")
    execute(connection, TABLE)
    execute(connection, "CREATE STREAM ORDERS_STREAM ON TABLE ORDERS SHOW_INITIAL_ROWS = TRUE")
    return World(local, settings, connection, Namespace("D", name))
