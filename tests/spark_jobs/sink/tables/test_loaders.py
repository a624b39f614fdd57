"""Which loader a table gets, as the configuration and Snowflake say."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from firn.connector.config import ConverterConfig, Method, SinkConfig
from firn.connector.formats import Format
from firn.errors import ConfigError
from firn.snowflake.columns import Column, Columns, TableType, column_type
from firn.snowflake.identifiers import Namespace
from firn.snowflake.tables import TableShape
from spark_jobs.sink.tables import loaders, target_tables
from spark_jobs.sink.tables.target_tables import COMMENT, TYPED_COLUMNS, VARIANT_COLUMNS
from spark_jobs.sink.values.table_loaders import ColumnsLoader, RecordLoader, TableLoader, VariantLoader

TYPED = SinkConfig("s", schematization=True)


def loader_of(monkeypatch: pytest.MonkeyPatch, config: SinkConfig, shape: TableShape | None) -> TableLoader:
    monkeypatch.setattr(loaders, "user_pipe", lambda *_, **__: None)
    monkeypatch.setattr(loaders, "describe", lambda *_: shape)
    return loaders.loader_of(None, Namespace("D", "S"), config, "t")  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [VARIANT_COLUMNS, TYPED_COLUMNS])
def test_typed_columns_want_a_table_that_has_some_or_may_get_some(
    monkeypatch: pytest.MonkeyPatch, columns: Columns
) -> None:
    with pytest.raises(ConfigError, match="no columns for the fields") as raised:
        loader_of(monkeypatch, TYPED, TableShape(columns))
    assert "ALTER TABLE D.S.T SET ENABLE_SCHEMA_EVOLUTION = TRUE" in raised.value.next_step
    with pytest.raises(ConfigError, match="no columns for the fields"):
        loader_of(monkeypatch, replace(TYPED, auto_evolve=False), TableShape(columns, evolves=True))
    assert loader_of(monkeypatch, TYPED, TableShape(columns, evolves=True)) == ColumnsLoader(columns, True, True)
    assert loader_of(monkeypatch, replace(TYPED, auto_evolve=True), TableShape(columns)) == ColumnsLoader(
        columns, True, True
    )
    more = (*columns, Column("A", column_type("DATE")))
    assert loader_of(monkeypatch, TYPED, TableShape(more)) == ColumnsLoader(more, True, False)
    assert loader_of(monkeypatch, TYPED, None) == ColumnsLoader((), False, True)
    ignoring = replace(TYPED, unknown_fields="ignore")
    assert loader_of(monkeypatch, ignoring, TableShape(more)) == ColumnsLoader(more, True, False, leave_out=True)
    assert loader_of(monkeypatch, ignoring, TableShape(more, evolves=True)) == ColumnsLoader(more, True, True)


def test_a_hoisted_field_may_be_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    hoisting = replace(TYPED, value=ConverterConfig(Format.JSON, hoist=("RECORD_CONTENT",)))
    assert loader_of(monkeypatch, hoisting, TableShape(VARIANT_COLUMNS)) == ColumnsLoader(VARIANT_COLUMNS, True, False)


@pytest.mark.parametrize("typed", [True, False])
def test_an_interactive_table_of_somebody_else_gets_whole_records(
    monkeypatch: pytest.MonkeyPatch, *, typed: bool
) -> None:
    streaming = replace(TYPED, schematization=typed, method=Method.SNOWPIPE_STREAMING)
    theirs = TableShape((Column("A", column_type("DATE")),), kind=TableType.INTERACTIVE)
    assert loader_of(monkeypatch, streaming, theirs) == RecordLoader(typed)
    own = replace(theirs, columns=VARIANT_COLUMNS, comment=COMMENT, evolves=True)
    assert loader_of(monkeypatch, streaming, own) == (
        ColumnsLoader(VARIANT_COLUMNS, True, True) if typed else VariantLoader()
    )


def test_without_typed_columns_it_takes_two_variants(monkeypatch: pytest.MonkeyPatch) -> None:
    assert loader_of(monkeypatch, replace(TYPED, schematization=False), TableShape(VARIANT_COLUMNS)) == VariantLoader()


def test_a_table_of_a_streaming_sink_is_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    streaming = replace(TYPED, schematization=False, method=Method.SNOWPIPE_STREAMING)
    described: list[str] = []
    monkeypatch.setattr(loaders, "user_pipe", lambda *_, **__: None)
    monkeypatch.setattr(
        loaders, "describe", lambda _c, _n, table: described.append(table) or TableShape(VARIANT_COLUMNS)
    )
    monkeypatch.setattr(target_tables, "columns_of", lambda *_: described.append("again"))
    context: Any = SimpleNamespace(config=streaming, namespace=Namespace("D", "S"))
    connection: Any = None
    found = loaders.TableLoaders(context, connection, lambda _table, _loader: None).of_topics(["t"])
    assert found == {"t": VariantLoader()}
    assert len(described) == 1
