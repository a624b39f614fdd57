"""JSON texts split into fields: every digit stays, and nothing else comes along."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.sink.columns.fields import split

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def written(value: Any) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, list):
        return "[" + ",".join(map(written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} : {written(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=4) | st.just([1]), max_size=5))
def test_each_field_keeps_its_text(records: list[Any]) -> None:
    fields = split(pa.array([written(record) for record in records], pa.string()))
    assert list(fields.not_objects) == [row for row, record in enumerate(records) if isinstance(record, list)]
    for row, record in enumerate(records):
        expected = {} if isinstance(record, list) else {name: written(value) for name, value in record.items()}
        found = {name: texts[row].as_py() for name, texts in fields.texts.items() if texts[row].is_valid}
        assert found == expected


def test_of_a_name_that_comes_twice_the_last_one_counts() -> None:
    fields = split(pa.array(['{"a":1,"\\u0061":12345678901234567890.10}']))
    assert fields.texts["a"].to_pylist() == ["12345678901234567890.10"]
