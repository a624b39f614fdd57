"""A row that a method cannot take is a bad record of its own, and told before it is handed over."""

from __future__ import annotations

import pyarrow as pa
import pytest

from firn.snowflake.columns import METADATA_COLUMN, Column, column_type
from spark_jobs.sink.columns.staged_columns import column_builder_for
from spark_jobs.sink.values.bad_records import NOT_AN_OBJECT, TOO_LARGE
from spark_jobs.sink.values.table_loaders import ColumnsLoader, PipeLoader, TableLoader, VariantLoader

TYPED = ColumnsLoader((METADATA_COLUMN, Column("A", column_type("VARCHAR"))), True, False)
PIPE = PipeLoader(True, ("DB", "SC", "T"), (), "SELECT $1 FROM {source}")


def bad_rows(loader: TableLoader, row_bytes: int | None, *content: str) -> list[tuple[int, str]]:
    builder = column_builder_for(loader, lambda _: {}, strict=False, row_bytes=row_bytes)
    metadata = pa.array(['{"offset":1}'] * len(content), pa.string())
    built = builder.build(pa.array(content, pa.string()), metadata, pa.nulls(len(content), pa.int32()))
    return [(bad.row, bad.reason) for bad in built.bad]


@pytest.mark.parametrize("loader", [VariantLoader(), TYPED, PIPE])
def test_a_row_beyond_the_limit_is_bad_and_the_others_are_not(loader: TableLoader) -> None:
    large, small = f'{{"A":"{"x" * 100}"}}', '{"A":"x"}'
    assert bad_rows(loader, 90, small, large, small) == [(1, TOO_LARGE)]
    assert bad_rows(loader, None, small, large, small) == []
    assert bad_rows(loader, 1_000, small, large, small) == []


def test_a_record_that_is_bad_already_keeps_its_reason() -> None:
    assert bad_rows(TYPED, 10, f'"{"x" * 100}"') == [(0, NOT_AN_OBJECT)]
