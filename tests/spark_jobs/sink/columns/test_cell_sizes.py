"""Values that are too large for their column: what is said, which type would take them, and what is only rounded."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from firn.snowflake.columns import column_type
from spark_jobs.sink.columns import cell_converters
from spark_jobs.sink.columns.cells import to_cells
from tests.spark_jobs.sink.columns.test_cell_properties import misfit, one

NINES = "9" * 38


@pytest.mark.parametrize(
    ("raw", "name", "text"),
    [
        ("12.345", "NUMBER(10,2)", "12.35"),
        ("-12.345", "NUMBER(10,2)", "-12.35"),
        ("-12.50", "NUMBER(3,1)", "-12.5"),
        ("12.00", "NUMBER(38,0)", "12"),
        ("0.004", "NUMBER(10,2)", "0.00"),
        ("-0.004", "NUMBER(10,2)", "0.00"),
        ("1e3", "NUMBER(4,0)", "1000"),
        ("99.99", "NUMBER(4,2)", "99.99"),
        ("0.999", "NUMBER(3,3)", "0.999"),
        (f'"{NINES}.0"', "NUMBER(38,0)", NINES),
        ('"+.5"', "NUMBER(2,1)", "0.5"),
        ("1e-400", "FLOAT", "0.0"),
        ("1e10", "FLOAT", "10000000000.0"),
        ('" -inf "', "FLOAT", "-inf"),
        ("31535999999", "TIMESTAMP_NTZ(0)", "2969-05-02 23:59:59"),
        ("31536000000", "TIMESTAMP_NTZ(0)", "1971-01-01 00:00:00"),
        ("31536000000000", "TIMESTAMP_NTZ(0)", "1971-01-01 00:00:00"),
        ("31536000000000000", "TIMESTAMP_NTZ(0)", "1971-01-01 00:00:00"),
        ("-31536000000", "TIMESTAMP_NTZ(0)", "1969-01-01 00:00:00"),
        ("1760000000.123456789", "TIMESTAMP_NTZ(9)", "2025-10-09 08:53:20.123456789"),
        ("-0.001", "TIMESTAMP_NTZ(3)", "1969-12-31 23:59:59.999"),
        ('"2025-10-10T09:14:59.999999Z"', "TIMESTAMP_NTZ(0)", "2025-10-10 09:14:59"),
        ('"2025-10-10T09:14:59.5+01:00[Europe/Paris]"', "TIMESTAMP_TZ(1)", "2025-10-10 09:14:59.5+01:00"),
        ("-1e-10", "TIMESTAMP_NTZ(9)", "1969-12-31 23:59:59.999999999"),
        ('"2025-10-10 00:00+1400"', "TIMESTAMP_TZ(0)", "2025-10-10 00:00:00+14:00"),
        ('"2025-10-10T09:14:59 -14"', "TIMESTAMP_LTZ(0)", "2025-10-10 23:14:59+00:00"),
        ('"12:34:56.7Z"', "TIME(3)", "12:34:56.700"),
        ('"12:34:56Z"', "TIME(3)", "12:34:56.000"),
        ('"12:34:50+0000"', "TIME(0)", "12:34:50"),
        ('"0001-01-01"', "DATE", "0001-01-01"),
        ('"9999-12-31T23:59:59Z"', "TIMESTAMP_LTZ(0)", "9999-12-31 23:59:59+00:00"),
        ('"😀😀😀"', "VARCHAR(3)", "😀😀😀"),
        ('"AAAA"', "BINARY(3)", "000000"),
    ],
)
def test_a_value_that_fits_is_rounded_or_cut_at_most_behind_a_point(raw: str, name: str, text: str) -> None:
    assert one(raw, name) == text


@pytest.mark.parametrize(
    ("raw", "name", "detail", "wider"),
    [
        ("12345", "NUMBER(4,0)", "12345 has more digits than NUMBER(4,0) holds", "NUMBER(38,0)"),
        ("99.995", "NUMBER(4,2)", "99.995 has more digits than NUMBER(4,2) holds", "NUMBER(38,2)"),
        (f"{NINES}9", "NUMBER(38,0)", f"{NINES}9 has more digits than NUMBER(38,0) holds", None),
        ("12.5", "NUMBER(38,0)", "12.5 has a fraction, and NUMBER(38,0) holds whole numbers", None),
        ("1e36", "NUMBER(10,2)", "1e36 has more digits than NUMBER(10,2) holds", None),
        ('"1e999999999999999999999"', "NUMBER(9,0)", "the exponent of", None),
        ('"12a"', "NUMBER(4,0)", '"12a" is no NUMBER(4,0)', None),
        ("true", "NUMBER(4,0)", "true is no NUMBER(4,0)", None),
        ('"1e400"', "FLOAT", '"1e400" is too large for a FLOAT', None),
        ("2", "BOOLEAN", "2 is no BOOLEAN", None),
        ('"abcd"', "VARCHAR(3)", '"abcd" has 4 characters, too many for VARCHAR(3)', "VARCHAR(16777216)"),
        (json.dumps("long " * 20), "VARCHAR(9)", f'"{("long " * 20)[:39]}... has 100 characters', "VARCHAR(16777216)"),
        ('"AAAAAAA="', "BINARY(4)", '"AAAAAAA=" has 5 bytes, too many for BINARY(4)', None),
        ('"AAA"', "BINARY(4)", '"AAA" is no BINARY(4): it is no base64', None),
        ('"é"', "BINARY(4)", '"é" is no BINARY(4): it is no base64', None),
        ('"2025-02-29"', "DATE", '"2025-02-29" is no DATE: there is no such day or time', None),
        ('"12025-01-01T00:00:00.000Z"', "DATE", '"12025-01-01T00:00:00.000Z" is no DATE', None),
        ('"-0044-03-15T00:00:00.000Z"', "DATE", '"-0044-03-15T00:00:00.000Z" is no DATE', None),
        ('"0000-01-01"', "DATE", '"0000-01-01" is no DATE', None),
        ('"0001-01-01T00:00+01:00"', "TIMESTAMP_LTZ(0)", '"0001-01-01T00:00+01:00" is no TIMESTAMP_LTZ(0)', None),
        ("253402300800000000000", "DATE", "253402300800000000000 is no DATE", None),
        ("1e30", "TIMESTAMP_TZ(9)", "1e30 is no TIMESTAMP_TZ(9)", None),
        ('"2025-10-10T09:14:59+14:01"', "TIMESTAMP_NTZ(9)", '"2025-10-10T09:14:59+14:01" is no TIMESTAMP', None),
        ('"2025-10-10T09:14:59+02:60"', "TIMESTAMP_NTZ(9)", '"2025-10-10T09:14:59+02:60" is no TIMESTAMP', None),
        ('"2025-10-10T09:14:60Z"', "TIMESTAMP_NTZ(9)", '"2025-10-10T09:14:60Z" is no TIMESTAMP_NTZ(9)', None),
        ("5", "GEOGRAPHY", "5 cannot be loaded: no field is converted to GEOGRAPHY", None),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_the_type_that_would_take_it(
    raw: str, name: str, detail: str, wider: str | None
) -> None:
    found = misfit(raw, name)
    assert found.detail.startswith(detail)
    assert (str(found.wider) if found.wider else None) == wider
    if found.wider:
        assert one(raw, str(found.wider)) is not None


def test_misfits_come_in_the_order_of_their_rows_and_leave_the_others_alone() -> None:
    raw = pa.array(["1", '"a"', None, '"2"', "null", "1e9"])
    cells = to_cells(raw, column_type("NUMBER(3,0)"))
    assert cells.texts.to_pylist() == ["1", None, None, "2", None, None]
    assert [each.row for each in cells.misfits] == [1, 5]


def test_a_text_beyond_a_plain_varchar_wants_the_longest_one() -> None:
    raw = '"' + "x" * 16_777_217 + '"'
    assert str(misfit(raw, "VARCHAR(16777216)").wider) == "VARCHAR(134217728)"
    assert str(misfit(raw.replace("xx", "x", 1), "VARCHAR(5)").wider) == "VARCHAR(16777216)"
    assert str(misfit(raw, "VARCHAR(5)").wider) == "VARCHAR(134217728)"


@pytest.mark.parametrize("name", ["VARCHAR", "VARCHAR(3)", "VARIANT", "OBJECT", "ARRAY"])
@pytest.mark.parametrize("raw", ['"éééé"', '{"a":"éé"}', '["éé", 1]', "123456789"])
def test_what_has_too_many_bytes_fits_no_column_however_wide(
    name: str, raw: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cell_converters, "MAX_BYTES", 7)
    cells = to_cells(pa.array([raw, "{}", "[]", "1"]), column_type(name))
    assert cells.misfits[0].row == 0
    assert cells.misfits[0].wider is None
    assert cells.texts.to_pylist()[1:].count(None) == (2 if name == "OBJECT" else 0)


def test_a_column_without_any_value_stays_so() -> None:
    for raw in (pa.nulls(3, pa.string()), pa.array(["null"]), pa.array([], pa.string())):
        cells = to_cells(raw, column_type("DATE"))
        assert cells.texts.null_count == len(cells.texts) == len(raw)
        assert cells.misfits == ()


def test_deeply_nested_or_broken_json_in_a_string_is_no_object() -> None:
    for text in ("{" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000, '{"a":NaN}', "{'a':1}"):
        assert "is no OBJECT" in misfit(json.dumps(text), "OBJECT").detail
