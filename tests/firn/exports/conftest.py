"""A local Snowflake with its meter, for one module of tests, and exports on it that are read to their end."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from snowflake.connector import SnowflakeConnection

from firn.connector.export.config import ExportConfig, SourceConfig
from firn.exports.ledger import ClaimedExport, ExportLedger
from firn.exports.moves.move import Moved, move
from firn.exports.outbox import read, settle, waiting
from firn.exports.preparation import prepare
from firn.exports.published import PublishedBatch
from firn.exports.source import Source
from firn.exports.sources import discover
from firn.snowflake.connection import connect, execute
from firn.snowflake.identifiers import Namespace
from tests.support.local_snowflake import Local, running_local

Json = dict[str, Any]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    with running_local(tmp_path_factory.mktemp("exports")) as running:
        yield running


@pytest.fixture(scope="module")
def connection(local: Local) -> Iterator[SnowflakeConnection]:
    with connect(local.login) as opened:
        yield opened


@pytest.fixture(scope="module")
def schema(connection: SnowflakeConnection) -> Namespace:
    """A schema of the module's own, which is the session's; each test makes its tables anew."""
    name = f"S_{uuid.uuid4().hex[:8].upper()}"
    execute(connection, f"CREATE SCHEMA D.{name}")
    execute(connection, f"USE SCHEMA D.{name}")
    return Namespace("D", name)


@dataclass
class Export:
    """One exporter: it claims, moves and reads as a run does."""

    connection: SnowflakeConnection
    namespace: Namespace
    config: ExportConfig
    ledger: ExportLedger = field(init=False)
    claimed: ClaimedExport = field(init=False)
    sources: tuple[Source, ...] = ()

    def __post_init__(self) -> None:
        self.ledger = ExportLedger(self.namespace, self.config.name)

    def start(self) -> Export:
        self.look()
        by = {"run_id": "test", "started": datetime.now(UTC).isoformat()}
        self.claimed = self.ledger.claim(self.connection, [each.name for each in self.sources], by)
        return self

    def look(self) -> tuple[Source, ...]:
        self.sources = discover(self.connection, self.config, self.namespace)
        prepare(self.connection, self.ledger, self.config, self.sources)
        return self.sources

    @property
    def source(self) -> Source:
        return self.sources[0]

    def move(self, source: Source | None = None) -> Moved:
        return move(self.connection, self.ledger, self.claimed, source or self.source, self.config)

    def rows(self, source: Source | None = None) -> list[Json]:
        """All rows that wait, in the order of publishing, with their JSON read."""
        source = source or self.source
        return [
            {**row, "SHARD": shard.shard, **{name: _read(row[name]) for name in ("KEY", "BEFORE", "PAYLOAD", "FAILED")}}
            for shard in waiting(self.connection, source).shards
            for batch in read(self.connection, source, 0, shard.last, shard.shard)
            for row in batch.to_pylist()
        ]

    def settle(self, source: Source | None = None) -> list[Json]:
        """All rows that wait, which are then settled as published."""
        source = source or self.source
        rows = self.rows(source)
        for shard in {row["SHARD"] for row in rows}:
            batches = sorted({row["BATCH"] for row in rows if row["SHARD"] == shard})
            counts = {batch: sum(r["BATCH"] == batch and r["SHARD"] == shard for r in rows) for batch in batches}
            published = [PublishedBatch(batch, shard, counts[batch]) for batch in batches]
            settle(self.connection, self.ledger, self.claimed, source, shard, published)
        return rows

    def changes(self, source: Source | None = None) -> list[tuple[Any, ...]]:
        """What a move brings, settled: action, isupdate, payload."""
        self.move(source)
        return [(row["ACTION"], row["ISUPDATE"], row["PAYLOAD"]) for row in self.settle(source)]


def _read(text: str | None) -> Any:
    return None if text is None else json.loads(text)


@pytest.fixture
def new_export(connection: SnowflakeConnection, schema: Namespace) -> Callable[..., Export]:
    """Makes exporters of one export in the schema, each begun; `more` are fields of `ExportConfig`."""
    own = f"export-{uuid.uuid4().hex[:8]}"

    def make(*sources: SourceConfig, name: str = own, **more: Any) -> Export:
        return Export(connection, schema, ExportConfig(name, sources, **more)).start()

    return make
