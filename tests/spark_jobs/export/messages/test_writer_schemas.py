"""Whatever a record holds, it is written byte for byte as fastavro writes it by the registered schema."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.export.messages import writer_schemas
from spark_jobs.export.messages.writer_schemas import WriterSchemas

_VALUES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("string", st.text()),
    ("boolean", st.booleans()),
    ("double", st.floats(allow_nan=False)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}, st.binary(max_size=6)),
    ({"type": "long", "logicalType": "timestamp-micros"}, st.integers(-(2**62), 2**62)),
    ({"type": "string", "logicalType": "uuid"}, st.uuids().map(str)),
]


def bytes_of(schema: Any, record: dict[str, Any]) -> bytes:
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, record)
    return body.getvalue()


@st.composite
def records(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema of nullable, required and nested fields, and a record of it."""
    fields: list[dict[str, Any]] = []
    record: dict[str, Any] = {}
    for number, (type_, values) in enumerate(draw(st.lists(st.sampled_from(_VALUES), min_size=1, max_size=6))):
        name, nullable = f"branch_{number}", draw(st.booleans())
        fields.append({"name": name, "type": ["null", type_] if nullable else type_})
        record[name] = None if nullable and draw(st.booleans()) else draw(values)
    inner = {"type": "record", "name": "Inner", "fields": [{"name": "at", "type": ["null", _VALUES[5][0]]}]}
    for name, type_ in (("before", ["null", inner]), ("after", ["null", "Inner"])):
        fields.append({"name": name, "type": type_})
        record[name] = draw(st.sampled_from([None, ("Inner", {"at": None}), ("Inner", {"at": 1_700_000_000_000_000})]))
    return {"type": "record", "name": "Envelope", "fields": fields}, record


@given(records())
def test_the_bytes_are_those_of_the_registered_schema(drawn: tuple[dict[str, Any], dict[str, Any]]) -> None:
    schema, record = drawn
    assert bytes_of(WriterSchemas(schema).of(record), record) == bytes_of(fastavro.parse_schema(schema), record)


def test_no_more_than_so_many_schemas_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_schemas, "_MOST", 2)
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": name, "type": ["null", "long"]} for name in ("a", "b")],
    }
    schemas = WriterSchemas(schema)
    for record in ({"a": a, "b": b} for a in (None, 1) for b in (None, 2)):
        assert bytes_of(schemas.of(record), record) == bytes_of(fastavro.parse_schema(schema), record)
    assert len(schemas._by_nulls) == 2
