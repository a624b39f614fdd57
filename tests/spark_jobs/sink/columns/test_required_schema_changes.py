"""Types of columns from values where no schema tells them, and a type for the values of two."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firn.snowflake.columns import column_type
from spark_jobs.sink.columns.cells import to_cells
from spark_jobs.sink.columns.required_schema_changes import merge_types, type_of_values

QUICK = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
TYPES = [
    "NUMBER(38,0)", "NUMBER(10,2)", "NUMBER(5,4)", "FLOAT", "VARCHAR(10)", "VARCHAR(16777216)", "BINARY(8)", "BOOLEAN",
    "DATE", "TIME(3)", "TIME(6)", "TIMESTAMP_NTZ(6)", "TIMESTAMP_TZ(9)", "VARIANT", "OBJECT", "ARRAY", "GEOGRAPHY",
]  # fmt: skip


def of(*texts: str | None) -> str | None:
    found = type_of_values(pa.array(texts, pa.string()))
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["1", "-22"], "NUMBER(38,0)"),
        (["-5"], "NUMBER(38,0)"),
        (["1", "-1.5"], "FLOAT"),
        (["9" * 38, "-" + "9" * 38], "NUMBER(38,0)"),
        (["9" * 39], "FLOAT"),
        (["1.5"], "FLOAT"),
        (["1e3"], "FLOAT"),
        (["-2E-3"], "FLOAT"),
        (["1", "1.5"], "FLOAT"),
        (['"a"', '"1"'], "VARCHAR(16777216)"),
        (['"null"'], "VARCHAR(16777216)"),
        (["true", "false"], "BOOLEAN"),
        (["[]", "[1]"], "ARRAY"),
        (["{}"], "VARIANT"),
        (['"a"', "1"], "VARIANT"),
        (["true", "1"], "VARIANT"),
        (["[1]", "{}"], "VARIANT"),
        ([None, "null", "7", None], "NUMBER(38,0)"),
        (["null", "1.5", None], "FLOAT"),
        ([None, "null"], None),
        ([], None),
    ],
)
def test_the_type_of_values(texts: list[str | None], expected: str | None) -> None:
    assert of(*texts) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("NUMBER(38,0)", "FLOAT", "FLOAT"),
        ("NUMBER(10,2)", "FLOAT", "FLOAT"),
        ("NUMBER(10,2)", "NUMBER(12,1)", "NUMBER(13,2)"),
        ("NUMBER(10,2)", "NUMBER(10,4)", "NUMBER(12,4)"),
        ("NUMBER(38,0)", "NUMBER(10,2)", "NUMBER(38,2)"),
        ("VARCHAR(10)", "VARCHAR(16777216)", "VARCHAR(16777216)"),
        ("BINARY(8)", "BINARY(9)", "BINARY(9)"),
        ("TIME(3)", "TIME(6)", "TIME(6)"),
        ("TIMESTAMP_NTZ(6)", "TIMESTAMP_NTZ(3)", "TIMESTAMP_NTZ(6)"),
        ("TIMESTAMP_NTZ(6)", "TIMESTAMP_TZ(6)", "VARIANT"),
        ("VARCHAR(10)", "NUMBER(38,0)", "VARIANT"),
        ("DATE", "TIMESTAMP_NTZ(6)", "VARIANT"),
        ("OBJECT", "ARRAY", "VARIANT"),
        ("OBJECT", "VARIANT", "VARIANT"),
        ("GEOGRAPHY", "GEOMETRY", "VARIANT"),
    ],
)
def test_two_types_become_one_that_holds_both(one: str, other: str, expected: str) -> None:
    assert str(merge_types(column_type(one), column_type(other))) == expected
    assert str(merge_types(column_type(other), column_type(one))) == expected


@pytest.mark.parametrize("same", TYPES)
def test_a_type_merged_with_itself_stays(same: str) -> None:
    assert str(merge_types(column_type(same), column_type(same))) == same


@QUICK
@given(st.lists(st.sampled_from(TYPES), min_size=3, max_size=3))
def test_it_does_not_matter_which_types_are_merged_first(texts: list[str]) -> None:
    a, b, c = map(column_type, texts)
    assert merge_types(merge_types(a, b), c) == merge_types(a, merge_types(b, c))


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**38) + 1, 10**38 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
VALUES = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)


@QUICK
@given(st.lists(VALUES, min_size=1, max_size=5))
def test_values_fit_the_type_that_is_made_of_them(values: list[object]) -> None:
    raw = pa.array([json.dumps(value) for value in values], pa.string())
    found = type_of_values(raw)
    if found is None:
        assert values == [None] * len(values)
    else:
        cells = to_cells(raw, found)
        assert cells.misfits == ()
        assert [text is None for text in cells.texts.to_pylist()] == [value is None for value in values]
