"""Ledgers of their own on the local Snowflake, as different runs of a sink see them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest
from snowflake.connector import SnowflakeConnection

from firn.ledger.table import LedgerTable
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin, connect
from firn.snowflake.identifiers import Namespace
from tests.support.sinks import login_of
from tests.support.snowflake import drop_schema, make_schema


@pytest.fixture(scope="module")
def login(settings: Settings) -> SnowflakeLogin:
    return login_of(settings)


@pytest.fixture(scope="module")
def new_schema(settings: Settings, login: SnowflakeLogin) -> Iterator[Callable[[], Namespace]]:
    """Makes schemas, each with room for a ledger of its own."""
    made: list[str] = []

    def make() -> Namespace:
        made.append(f"LEDGER_{uuid.uuid4().hex[:8].upper()}")
        make_schema(settings, made[-1])
        return Namespace(login.database, made[-1])

    yield make
    for schema in made:
        drop_schema(settings, schema)


@pytest.fixture(scope="module")
def namespace(new_schema: Callable[[], Namespace]) -> Namespace:
    return new_schema()


@pytest.fixture
def connection(login: SnowflakeLogin) -> Iterator[SnowflakeConnection]:
    with connect(login) as opened:
        yield opened


@pytest.fixture
def new_run(connection: SnowflakeConnection, namespace: Namespace) -> Callable[..., LedgerTable]:
    """Makes the ledger as different runs see it, of one new sink unless another is named."""
    own = f"sink_{uuid.uuid4().hex[:8]}"

    def make(sink: str = own) -> LedgerTable:
        run = LedgerTable(namespace, sink, uuid.uuid4().hex)
        run.ensure(connection)
        return run

    return make
