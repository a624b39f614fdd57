"""Exports on a local Snowflake of the module's own, with a Kafka that says what a test lets it say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from unittest.mock import Mock

import pytest

from firn.connector.export.config import ExportConfig, SourceConfig, SourceKind
from firn.exports.context import ExportContext
from firn.kafka.client import KafkaClient
from firn.operations.exports import liveness, observer
from firn.operations.exports.observer import ExportObserver
from firn.settings import Settings
from firn.sinks.signs import Sign, Signs
from firn.snowflake.connection import execute
from tests.firn.exports.conftest import Export, connection, local, schema  # noqa: F401 - fixtures
from tests.support.local_snowflake import Local

ORDERS = SourceConfig("orders", SourceKind.STREAM, ("ORDERS_CHANGES",), key_columns=("ID",), topic="order-status")


@dataclass
class SaidInKafka:
    """What an export's signs in Kafka are; nothing at first."""

    signs: Signs = field(default_factory=lambda: Signs(None, {}))

    def sign(self, epoch: int, counter: int, *, moves: int = 0, ended: bool = False) -> None:
        """The newest sign of a driver."""
        self.signs = Signs(Sign(epoch, counter, datetime.now(UTC), moves=moves, ended=ended), {}, self.signs.requested)

    def hear(self, _admin: object, export_id: str, _name: str) -> Signs:
        """As `firn.operations.life.hear`: nothing before there is an id."""
        return self.signs if export_id else Signs(None, {})


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> SaidInKafka:
    said = SaidInKafka()
    for module in (liveness, observer):
        monkeypatch.setattr(module, "hear", said.hear)
        monkeypatch.setattr(module.cluster, "admin_client", Mock())
    return said


@pytest.fixture
def orders(connection, schema) -> None:  # noqa: F811
    execute(connection, "CREATE OR REPLACE TABLE ORDERS (ID NUMBER(5, 0), STATUS VARCHAR)")
    execute(connection, "CREATE OR REPLACE STREAM ORDERS_CHANGES ON TABLE ORDERS")


@pytest.fixture
def export(connection, schema, orders) -> Export:  # noqa: F811
    """An export that has not begun, of a name of its own."""
    name = f"out-{datetime.now(UTC).timestamp()}".replace(".", "-")
    return Export(connection, schema, ExportConfig(name, (ORDERS,)))


@pytest.fixture
def context(local: Local, export: Export) -> ExportContext:  # noqa: F811
    login = replace(local.login, database=export.namespace.database, schema=export.namespace.schema)
    return ExportContext(export.config, Settings(), KafkaClient(()), None, None, login)


@pytest.fixture
def new_observer(context: ExportContext, kafka: SaidInKafka) -> Iterator[Callable[..., ExportObserver]]:
    made: list[ExportObserver] = []

    def make(**options: object) -> ExportObserver:
        made.append(ExportObserver(context, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()
