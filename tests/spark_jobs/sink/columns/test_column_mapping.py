"""Records result to a table: where each value goes, which records have no place, what the table would need."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.snowflake.columns import METADATA_COLUMN, Column, Columns, ColumnType, column_type
from spark_jobs.sink.columns.column_mapping import ColumnMapper, MappedColumns
from spark_jobs.sink.columns.fields import ColumnMatcher, column_name
from spark_jobs.sink.columns.required_schema_changes import schema_change_request
from spark_jobs.sink.decode.base.contract import Writer
from spark_jobs.sink.values.reports import SchemaChangeRequest
from spark_jobs.sink.values.table_loaders import ColumnsLoader

CITY = Column("CITY", column_type("VARCHAR"))
AGE = Column("AGE", column_type("NUMBER(3,0)"))
ODD = Column("has cat", column_type("BOOLEAN"))
LOAD = ColumnsLoader((METADATA_COLUMN, CITY, AGE, ODD), exists=True, grow=False)
GROWING = ColumnsLoader(LOAD.columns, exists=True, grow=True)
SCHEMAS: dict[int, dict[str, ColumnType]] = {
    9: {"at": column_type("TIMESTAMP_NTZ(6)")},
    7: {"city": column_type("VARCHAR"), "size": column_type("FLOAT")},
    8: {"size": column_type("VARCHAR")},
}


def mapper(load: ColumnsLoader, *, strict: bool = False) -> ColumnMapper:
    return ColumnMapper(load, lambda writer: SCHEMAS[writer.schema_id], strict=strict)


def mapped(
    load: ColumnsLoader, *records: Any, ids: list[int | None] | None = None, by: ColumnMapper | None = None
) -> MappedColumns:
    texts = pa.array([json.dumps(record) for record in records], pa.string())
    return (by or mapper(load)).map(texts, pa.array(ids or [None] * len(records), pa.int32()))


def rows(result: MappedColumns) -> list[list[str | None] | None]:
    return [None if texts is None else texts.to_pylist() for texts in result.texts]


def required(
    load: ColumnsLoader, *records: Any, ids: list[int | None] | None = None, strict: bool = False
) -> SchemaChangeRequest | None:
    by = mapper(load, strict=strict)
    mapped(load, *records, ids=ids, by=by)
    return schema_change_request("t", 0, "T", by.required_changes) if by.required_changes.any else None


def with_columns(*columns: Column, grow: bool = False) -> ColumnsLoader:
    return ColumnsLoader((METADATA_COLUMN, *columns), exists=True, grow=grow)


def test_fields_find_their_columns_whatever_their_case_and_absent_ones_are_null() -> None:
    result = mapped(LOAD, {"City": "Oslo", "AGE": 3}, {"has cat": True}, {"city": None, "HAS CAT": False})
    assert rows(result) == [None, ["Oslo", None, None], ["3", None, None], [None, "true", "false"]]
    assert result.bad == ()


def test_a_field_in_quotes_wants_the_column_of_exactly_that_name() -> None:
    load = with_columns(CITY, Column("city", column_type("VARCHAR")))
    result = mapped(load, {"city": "exact", "CITY": "folded"}, {'"city"': "quoted"}, {"City": "any"})
    assert rows(result)[1:] == [["folded", None, "any"], ["exact", "quoted", None]]


def test_no_value_is_left_out_unsaid() -> None:
    result = mapped(LOAD, {"city": "a"}, {"street": "b"}, {"street": None}, [1], {"age": 1000}, {"record_metadata": {}})
    assert [(bad.row, bad.reason) for bad in result.bad] == [
        (1, "unknown_field"),
        (3, "not_an_object"),
        (4, "unfitting_value"),
        (5, "ambiguous_field"),
    ]
    assert "'street'" in result.bad[0].detail
    assert "column AGE" in result.bad[2].detail


def test_fields_without_a_column_are_left_out_where_that_is_asked_for() -> None:
    leaving = replace(LOAD, leave_out=True)
    result = mapped(leaving, {"city": "a", "street": "b"}, {"street": "b"}, {"age": 1000})
    assert rows(result)[:2] == [None, ["a", None, None]]
    assert [(bad.row, bad.reason) for bad in result.bad] == [(2, "unfitting_value")]


def test_two_fields_for_one_column_are_bad_only_where_both_have_a_value() -> None:
    result = mapped(LOAD, {"city": "a", "CITY": None}, {"city": "a", "CITY": "b"}, {"CITY": "c"})
    assert [(bad.row, bad.reason) for bad in result.bad] == [(1, "ambiguous_field")]
    cities = rows(result)[1]
    assert cities
    assert (cities[0], cities[2]) == ("a", "c")


def test_a_column_that_must_have_a_value_makes_records_without_one_bad() -> None:
    load = with_columns(CITY, Column("ID", column_type("NUMBER"), nullable=False))
    result = mapped(load, {"id": 1}, {"city": "x"}, {"id": None})
    assert [(bad.row, bad.reason) for bad in result.bad] == [(1, "missing_value"), (2, "missing_value")]
    filled = with_columns(Column("ID", column_type("NUMBER"), nullable=False, default="7"))
    assert mapped(filled, {}).bad == ()


def test_a_number_is_milliseconds_where_the_schema_says_timestamp_else_its_size_tells_the_unit() -> None:
    load = with_columns(Column("AT", column_type("TIMESTAMP_NTZ")))
    result = mapped(load, {"at": 1000}, {"at": 1000}, {"at": "1970-01-02"}, ids=[9, None, 9])
    found = [(text or "")[:19] for text in rows(result)[1] or []]
    assert found == ["1970-01-01 00:00:01", "1970-01-01 00:16:40", "1970-01-02 00:00:00"]


def test_what_snowflake_numbers_takes_no_field() -> None:
    load = with_columns(Column("ID", column_type("NUMBER"), nullable=False, generated=True))
    assert [bad.reason for bad in mapped(load, {}, {"id": 1}).bad] == ["ambiguous_field"]


def test_new_fields_want_columns_with_the_types_of_their_schema_else_of_their_values() -> None:
    found = required(GROWING, {"size": 1}, {"note": "x"}, {"note": None, "empty": None}, ids=[7, None, None])
    assert found == SchemaChangeRequest("t", 0, "T", 7, {"SIZE": "FLOAT", "NOTE": "VARCHAR(16777216)"})


def test_a_schema_wants_its_columns_before_they_have_values_and_two_schemas_agree_on_one() -> None:
    found = required(GROWING, {"city": "a"}, {"size": "big"}, ids=[7, 8])
    assert found is not None
    assert found.add == {"SIZE": "VARIANT"}
    assert required(GROWING, {"city": "a", "nothing": None}) is None


def test_a_table_that_is_not_made_wants_its_columns_even_if_there_are_none() -> None:
    absent = ColumnsLoader((), exists=False, grow=True)
    assert required(absent, {}, ids=[0]) == SchemaChangeRequest("t", 0, "T", None)
    found = required(absent, {"Name": "x", '"exact"': 1.5})
    assert found is not None
    assert found.add == {"NAME": "VARCHAR(16777216)", "exact": "FLOAT"}


def test_required_columns_become_nullable_and_narrow_ones_wide() -> None:
    load = with_columns(
        Column("ID", column_type("NUMBER"), nullable=False), Column("CODE", column_type("VARCHAR(2)")), AGE, grow=True
    )
    found = required(load, {"id": 1, "code": "ab", "age": 1}, {"code": "abc"}, {"id": 2, "age": 12345})
    assert found == SchemaChangeRequest(
        "t", 0, "T", None, {}, ["ID"], {"CODE": "VARCHAR(16777216)", "AGE": "NUMBER(38,0)"}
    )


@pytest.mark.parametrize(
    "record", [{"new": 1, "has cat": [1]}, [1], {"new": 1, "": 2}, {"": 2, "new": 1}, {"new": 1, "NEW": "x"}]
)
def test_bad_records_want_nothing(record: Any) -> None:
    assert required(GROWING, record) is None


def test_what_stands_behind_a_bad_record_wants_nothing_where_the_sink_stops_in_front_of_it() -> None:
    id_, at = Column("ID", column_type("NUMBER"), nullable=False), Column("AT", column_type("DATE"))
    load = with_columns(CITY, AGE, id_, at, grow=True)
    bad = {"id": 2, "at": "never"}
    behind = [{"id": 1, "size": 2}, {"city": "x"}, {"id": 1, "age": 12345}, {"id": 2, "note": "y"}]
    assert required(load, {"id": 1}, bad, *behind, ids=[None, None, 7, None, None, 8], strict=True) is None
    found = required(load, {"id": 1, "new": 1}, bad, *behind, strict=True)
    assert found == SchemaChangeRequest("t", 0, "T", None, {"NEW": "NUMBER(38,0)"})


def test_new_fields_of_one_name_share_a_column_where_no_record_has_both() -> None:
    records = [{"new": 1}, {"NEW": 2}, {"New": 3, "NEW": None}, {"new": 4, "NEW": "x"}]
    assert [(bad.row, bad.reason) for bad in mapped(GROWING, *records).bad] == [(3, "ambiguous_field")]
    assert required(GROWING, *records) == SchemaChangeRequest("t", 0, "T", None, {"NEW": "NUMBER(38,0)"})


def test_a_field_that_no_column_can_be_named_after_is_bad() -> None:
    result = mapped(GROWING, {"": 1}, {"x" * 256: 1}, {"x" * 256: None}, {"a\0b": 1}, {"y" * 10**6: 1})
    assert [(bad.row, bad.reason) for bad in result.bad] == [(row, "unknown_field") for row in (0, 1, 3, 4)]
    assert all(len(bad.detail) < 150 for bad in result.bad)  # it goes into headers of dead letters


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["a", "B", "c d", "é"]), st.integers() | st.none() | st.text()), min_size=1
    )
)
def test_a_table_made_as_wanted_takes_every_record(records: list[dict[str, Any]]) -> None:
    found = required(ColumnsLoader((), exists=False, grow=True), *records)
    assert found is not None
    columns: Columns = (METADATA_COLUMN, *(Column(name, column_type(text)) for name, text in found.add.items()))
    result = mapped(ColumnsLoader(columns, exists=True, grow=False), *records)
    assert result.bad == ()
    for at, record in enumerate(records):
        for field, value in record.items():
            column = ColumnMatcher(columns).column_of(field)
            texts = None if column is None else result.texts[column]
            got = None if texts is None else texts[at].as_py()
            assert (got is None) == (value is None)


@pytest.mark.parametrize(
    ("field", "name"), [("abc", "ABC"), ("a b", "A B"), ('"', '"'), ('"a""b"', 'a"b'), ("数据", "数据"), ('""', '""')]
)
def test_names_of_new_columns_are_the_official_ones(field: str, name: str) -> None:
    assert column_name(field) == name


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("INT", "NUMBER(38,0)"), ("number(10, 2)", "NUMBER(10,2)"), ("STRING", "VARCHAR(16777216)"),
        ("CHAR", "VARCHAR(1)"),
        ("DOUBLE PRECISION", "FLOAT"), ("TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(3)"), ("TIME", "TIME(9)"),
        ("BINARY", "BINARY(8388608)"),
        ("VECTOR(FLOAT, 3)", "VECTOR(FLOAT, 3)"), ("GEOGRAPHY", "GEOGRAPHY"), ("variant", "VARIANT"),
    ],
)  # fmt: skip
def test_types_are_read_under_all_their_names(text: str, same: str) -> None:
    found: ColumnType = column_type(text)
    assert str(found) == same
    assert column_type(str(found)) == found


def test_messages_of_one_protobuf_schema_have_types_of_their_own() -> None:
    types = {
        Writer(5, (0,)): {"head": column_type("VARCHAR"), "at": column_type("NUMBER(38,0)")},
        Writer(5, (1, 0)): {"raw": column_type("BINARY"), "at": column_type("TIMESTAMP_NTZ(6)")},
    }
    texts, ids = pa.array(['{"raw":"AP8=","at":-1}', "{}"]), pa.array([5, 0], pa.int32())
    growing = ColumnMapper(GROWING, types.__getitem__, strict=True)
    growing.map(texts, ids, [(1, 0), (0,)])
    assert schema_change_request("t", 0, "T", growing.required_changes).add == {
        "RAW": "BINARY(8388608)",
        "AT": "TIMESTAMP_NTZ(6)",
    }
    load = with_columns(Column("AT", column_type("TIMESTAMP_NTZ(3)")), Column("RAW", column_type("VARCHAR")))
    both = pa.array(['{"at":1700000000000}', '{"at":-1}', '{"at":-1}'])
    result = ColumnMapper(load, types.__getitem__, strict=True).map(both, pa.array([5] * 3), [(1, 0), (1, 0), (0,)])
    assert rows(result)[1] == ["2023-11-14 22:13:20.000", "1969-12-31 23:59:59.999", "1969-12-31 23:59:59.000"]


def test_a_table_gets_no_more_columns_than_it_may_have() -> None:
    load = replace(GROWING, max_columns=6)  # room for two
    by = mapper(load)
    wide = {f"id-{number}": 1 for number in range(20_000)}
    result = mapped(load, wide, {"a": 1}, {"city": "x"}, {"b": 1, "A": 2}, {"c": 1}, {"b": 2}, by=by)
    assert [(each.row, each.reason) for each in result.bad if each.reason == "too_many_columns"] == [
        (0, "too_many_columns"),
        (4, "too_many_columns"),
    ]
    assert "firn.table.max.columns" in result.bad[0].detail
    assert set(by.required_changes.add) == {"A", "B"}
    assert [each.row for each in mapped(load, {"d": 1}, {"b": 1}, by=by).bad] == [0]


def test_a_record_that_is_too_wide_makes_no_table_wide() -> None:
    load = ColumnsLoader((), exists=False, grow=True, max_columns=3)
    by = mapper(load)
    assert [each.row for each in mapped(load, {"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1}, by=by).bad] == [0]
    assert set(by.required_changes.add) == {"A", "B"}
