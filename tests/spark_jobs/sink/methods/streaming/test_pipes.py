"""Which pipe a table's rows go through, and the tables that a default pipe cannot fill."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from firn.errors import ConfigError
from firn.snowflake.columns import METADATA_COLUMN, Column, column_type
from firn.snowflake.identifiers import Namespace
from spark_jobs.sink.methods.streaming import pipes
from spark_jobs.sink.methods.streaming.pipes import check_target, pipe_of
from spark_jobs.sink.values.table_loaders import ColumnsLoader, PipeLoader, TableLoader, VariantLoader

SCHEMA = Namespace("DB", "SC")
SESSION: Any = None
AT = Column("AT", column_type("TIMESTAMP_NTZ"), nullable=False, default="CURRENT_TIMESTAMP()")


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The tables whose name a pipe has that takes streamed rows."""
    names: set[str] = set()
    monkeypatch.setattr(pipes, "streams_by_its_name", lambda _connection, _namespace, table: table in names)
    return names


def columns(*more: Column) -> ColumnsLoader:
    return ColumnsLoader((METADATA_COLUMN, *more), exists=True, grow=False)


@pytest.mark.parametrize("loader", [VariantLoader(), columns()])
def test_a_pipe_of_the_tables_name_goes_before_the_default_one(own: set[str], loader: TableLoader) -> None:
    assert pipe_of(SESSION, SCHEMA, "orders", loader) == "ORDERS-STREAMING"
    own.add("orders")
    assert pipe_of(SESSION, SCHEMA, "orders", loader) == "ORDERS"


def test_a_pipe_with_a_select_is_the_tables_own(own: set[str]) -> None:
    loader = PipeLoader(True, ("DB", "SC", "OTHER"), (), "SELECT $1 FROM {source}")
    assert pipe_of(SESSION, SCHEMA, "orders", loader) == "ORDERS"


def test_a_name_that_needs_quotes_stays_as_it_is(own: set[str]) -> None:
    assert pipe_of(SESSION, SCHEMA, "late orders", VariantLoader()) == "late orders-STREAMING"


def test_a_table_that_records_have_to_make_has_no_pipe_yet(own: set[str]) -> None:
    assert pipe_of(SESSION, SCHEMA, "orders", ColumnsLoader((), exists=False, grow=True)) is None


def test_a_default_pipe_cannot_fill_a_not_null_column_by_its_default(own: set[str]) -> None:
    with pytest.raises(ConfigError, match="AT") as raised:
        check_target(SESSION, SCHEMA, "orders", columns(AT))
    assert "COPY" in raised.value.next_step
    own.add("orders")
    check_target(SESSION, SCHEMA, "orders", columns(AT))


def test_a_default_that_will_be_null_is_said(own: set[str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        check_target(SESSION, SCHEMA, "orders", columns(Column("N", column_type("NUMBER"), default="7")))
    assert "writes NULL" in caplog.text
    assert "N" in caplog.text
