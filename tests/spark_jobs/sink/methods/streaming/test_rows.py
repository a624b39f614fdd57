"""Rows as a channel gets them: one JSON object a line, with every digit, and no field that has no value."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firn.channels.lines import Lines
from firn.snowflake.columns import METADATA_COLUMN, Column, column_type
from spark_jobs.sink.columns.cells import to_cells
from spark_jobs.sink.methods.streaming.rows import rows_of
from spark_jobs.sink.values.table_loaders import ColumnsLoader, PipeLoader, VariantLoader

METADATA = '{"offset":1}'


def texts(*values: str | None) -> pa.StringArray:
    return pa.array(values, pa.string())


def lines(rows: Lines) -> list[bytes]:
    """What the service reads, encoded as the SDK encodes it."""
    found = msgspec.json.Encoder().encode_lines(rows).splitlines()
    assert len(found) == len(rows)
    assert found == rows.each()
    return found


def sent(rows: Lines) -> list[dict[str, Any]]:
    """The same as values; numbers keep their digits."""
    return [json.loads(line, parse_float=Decimal) for line in lines(rows)]


def typed(type_: str, *values: str | None) -> Lines:
    """The rows of one column of this type, from JSON texts."""
    column = Column("C", column_type(type_))
    cells = to_cells(texts(*values), column.type)
    assert not cells.misfits
    return rows_of(ColumnsLoader((column,), True, False), [cells.texts])


def test_two_variants_are_the_texts_themselves() -> None:
    rows = rows_of(VariantLoader(), [texts(METADATA, None), texts('{"a":1.50}', "7")])
    assert lines(rows) == [b'{"RECORD_METADATA":{"offset":1},"RECORD_CONTENT":{"a":1.50}}', b'{"RECORD_CONTENT":7}']


def test_rows_of_a_slice_are_its_own() -> None:
    metadata, content = texts(METADATA, METADATA, METADATA), texts("1", "2", "3")
    rows = rows_of(VariantLoader(), [metadata.slice(1, 1), content.slice(1, 1)])
    assert lines(rows) == [b'{"RECORD_METADATA":{"offset":1},"RECORD_CONTENT":2}']


def test_a_record_for_a_pipe_is_the_whole_object() -> None:
    loader = PipeLoader(True, ("DB", "SC", "T"), (), "SELECT $1 FROM {source}")
    records = texts('{"id":0}', '{"id":1,"RECORD_METADATA":{}}', '{"id":\r\n2}')
    rows = rows_of(loader, [records.slice(1)])
    assert sent(rows) == [{"id": 1, "RECORD_METADATA": {}}, {"id": 2}]


def test_line_breaks_between_values_do_not_end_a_row() -> None:
    rows = rows_of(VariantLoader(), [texts(METADATA), texts('{\r\n  "a": "x\\ny"\n}')])
    assert sent(rows) == [{"RECORD_METADATA": {"offset": 1}, "RECORD_CONTENT": {"a": "x\ny"}}]


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("NUMBER(38,0)", "12345678901234567890123456789012345678", 12345678901234567890123456789012345678),
        (
            "NUMBER(38,10)",
            "1234567890123456789012345678.1234567891",
            Decimal("1234567890123456789012345678.1234567891"),
        ),
        ("NUMBER(10,2)", '" -0.50 "', Decimal("-0.50")),
        ("FLOAT", "1.5e300", Decimal("1.5e+300")),
        ("FLOAT", '"NaN"', "NaN"),
        ("FLOAT", '"-Infinity"', "-inf"),
        ("BOOLEAN", '"yes"', True),
        ("VARCHAR", '"a\\"b\\\\\\n\\u00e9\\u0001"', 'a"b\\\né\x01'),
        ("VARCHAR", '{"a": 1}', '{"a":1}'),
        ("DATE", '"2024-02-29"', "2024-02-29"),
        ("TIME(3)", '"01:02:03.5Z"', "01:02:03.500"),
        ("TIMESTAMP_NTZ(6)", "1700000000123", "2023-11-14T22:13:20.123000"),
        ("TIMESTAMP_LTZ(3)", '"2024-01-01T12:00:00+02:00"', "2024-01-01T10:00:00.000+00:00"),
        ("TIMESTAMP_TZ(0)", '"2024-01-01 12:00:00-03:30"', "2024-01-01T12:00:00-03:30"),
        ("VARIANT", '{"a":[1,{"b":null}]}', {"a": [1, {"b": None}]}),
        ("OBJECT", '{"a":1}', {"a": 1}),
        ("ARRAY", "5", [5]),
        ("BINARY", '"aGk="', "6869"),
    ],
)
def test_a_value_has_the_type_that_its_column_takes(type_: str, value: str, expected: Any) -> None:
    (row,) = sent(typed(type_, value))
    assert row == {"C": expected}
    assert type(row["C"]) is type(expected)


def test_what_has_no_value_is_left_out_so_that_it_is_null() -> None:
    assert sent(typed("NUMBER", "1", None, "null")) == [{"C": 1}, {}, {}]


def test_columns_that_no_sink_writes_are_left_out() -> None:
    columns = (
        METADATA_COLUMN,
        Column("ID", column_type("NUMBER"), generated=True),
        Column("PLACE", column_type("GEOGRAPHY")),
        Column('odd "name"', column_type("VARCHAR")),
    )
    rows = rows_of(ColumnsLoader(columns, True, False), [texts(METADATA), texts("1"), texts("x"), texts("y")])
    assert sent(rows) == [{"RECORD_METADATA": {"offset": 1}, 'odd "name"': "y"}]


@given(st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)), min_size=1))
def test_any_characters_arrive_as_they_are(values: list[str | None]) -> None:
    column = Column("C", column_type("VARCHAR"))
    rows = rows_of(ColumnsLoader((column,), True, False), [pa.array(values, pa.string())])
    assert sent(rows) == [{} if value is None else {"C": value} for value in values]
