"""What goes into typed columns straight from a decoder's columns is what goes there through the JSON of the records."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from io import BytesIO
from typing import Any
from unittest.mock import patch

import fastavro
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firn.connector.config import ConverterConfig
from firn.connector.formats import Format
from firn.registry.schemas import RegisteredSchema
from firn.snowflake.columns import METADATA_COLUMN, Column, column_type
from spark_jobs.sink.columns import cells
from spark_jobs.sink.columns.column_assignment import SchemaTypes
from spark_jobs.sink.columns.column_mapping import ColumnMapper
from spark_jobs.sink.columns.required_schema_changes import schema_change_request
from spark_jobs.sink.decode.base.contract import Converter, Decoded, Writer
from spark_jobs.sink.decode.converters import converter_for, hoisted
from spark_jobs.sink.decode.protobuf import converter as protobuf_converter
from spark_jobs.sink.values.table_loaders import ColumnsLoader
from tests.spark_jobs.sink.decode.framed_cases import FRAME
from tests.spark_jobs.sink.decode.protobuf.test_vector import FIRST, MESSAGES, PROTO3, file_of

CHECKS = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
TYPES = (
    "NUMBER(38,0)",
    "NUMBER(19,0)",
    "NUMBER(38,20)",
    "NUMBER(12,2)",
    "FLOAT",
    "VARCHAR(16777216)",
    "VARCHAR(3)",
    "BOOLEAN",
    "BINARY",
    "DATE",
    "TIME(6)",
    "TIMESTAMP_NTZ(6)",
    "TIMESTAMP_NTZ(3)",
    "TIMESTAMP_NTZ(9)",
    "TIMESTAMP_NTZ(0)",
    "TIMESTAMP_TZ(6)",
    "TIMESTAMP_LTZ(6)",
    "VARIANT",
    "OBJECT",
    "ARRAY",
)
STATES = ["OPEN", "PAID", "T"]
AVRO: dict[str, Any] = {
    "long": "long",
    "int": "int",
    "double": "double",
    "float": "float",
    "string": "string",
    "boolean": "boolean",
    "at": {"type": "long", "logicalType": "timestamp-millis"},
    "micros": {"type": "long", "logicalType": "timestamp-micros"},
    "day": {"type": "int", "logicalType": "date"},
    "state": {"type": "enum", "name": "State", "symbols": STATES},
    "maybe": ["null", "string"],
    "maybe_at": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
    "default": [{"type": "double"}, "null"],
    "list": {"type": "array", "items": "long"},
}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": name, "type": type_, **({"default": 1.5} if name == "default" else {})} for name, type_ in AVRO.items()
    ],
}
LONGS = st.one_of(st.integers(-5, 5), st.integers(0, 2_000_000_000_000), st.integers(-(2**63), 2**63 - 1))
DOUBLES = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 12.5, 1e-5, 1e-4, 1e10, 9999999999.5, 1e22]))
TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["", "null", "12", "true", "NaN", "2025-01-01", '"', "{}"]))
RECORDS = st.fixed_dictionaries(
    {
        "long": LONGS,
        "int": st.integers(-(2**31), 2**31 - 1),
        "double": DOUBLES,
        "float": st.floats(width=32),
        "string": TEXTS,
        "boolean": st.booleans(),
        "at": LONGS,
        "micros": LONGS,
        "day": st.integers(-800_000, 3_000_000),
        "state": st.sampled_from(STATES),
        "maybe": st.none() | TEXTS,
        "maybe_at": st.none() | LONGS,
        "default": st.none() | DOUBLES,
        "list": st.lists(LONGS, max_size=2),
    }
)
PARSED = fastavro.parse_schema(SCHEMA)


def avro(record: dict[str, Any]) -> bytes:
    out = BytesIO()
    fastavro.schemaless_writer(out, PARSED, record)
    return FRAME + out.getvalue()


def converter(schema: RegisteredSchema) -> Converter:
    format = {"AVRO": Format.AVRO, "PROTOBUF": Format.PROTOBUF, "JSON": Format.JSON_SCHEMA}[schema.kind]
    return converter_for(ConverterConfig(format), lambda _: schema)


def result(decoded: Decoded, load: ColumnsLoader, types_of: SchemaTypes, *, strict: bool) -> Any:
    """All that is known of a batch: the texts by column, the bad records, the changes that the table requires."""
    mapper = ColumnMapper(load, types_of, strict=strict)
    mapped = mapper.map(decoded.content, decoded.schema_ids, decoded.parts, decoded.fields)
    changes = schema_change_request("t", 0, "T", mapper.required_changes) if mapper.required_changes.any else None
    texts = [None if each is None or each.null_count == len(each) else each.to_pylist() for each in mapped.texts]
    return texts, mapped.bad, changes


def check(found: Converter, values: list[bytes], types: list[str], *, grow: bool, strict: bool, required: bool) -> None:
    """Typed columns say the same with the decoder's columns and without; every second field has a column."""
    decoded = found.decode(pa.array(values, pa.binary()))
    if decoded.bad or decoded.content.null_count:
        return
    wanted = found.types_of(Writer(1)).columns
    columns = [
        Column(name.upper(), column_type(type_), nullable=not required)
        for name, type_ in zip(wanted, types, strict=False)
    ]
    load = ColumnsLoader((METADATA_COLUMN, *columns), exists=True, grow=grow)
    through_json = replace(decoded, fields=None)
    arguments = load, lambda _: wanted
    assert result(decoded, *arguments, strict=strict) == result(through_json, *arguments, strict=strict)


ANY_TYPES = st.lists(st.sampled_from(TYPES), min_size=5, max_size=14)


@CHECKS
@given(st.lists(RECORDS, min_size=1, max_size=5), ANY_TYPES, st.booleans(), st.booleans(), st.booleans())
def test_avro(records: list[dict[str, Any]], types: list[str], grow: bool, strict: bool, required: bool) -> None:
    found = converter(RegisteredSchema("AVRO", json.dumps(SCHEMA)))
    check(found, list(map(avro, records)), types, grow=grow, strict=strict, required=required)


@CHECKS
@given(st.lists(MESSAGES, min_size=1, max_size=5), ANY_TYPES, st.booleans(), st.booleans())
def test_protobuf(bodies: list[bytes], types: list[str], grow: bool, strict: bool) -> None:
    with patch.object(protobuf_converter, "root_file", lambda schema: file_of(schema.text)):
        found = converter(RegisteredSchema("PROTOBUF", PROTO3))
        check(found, [FIRST + body for body in bodies], types, grow=grow, strict=strict, required=False)


@pytest.mark.parametrize("kind", ["AVRO", "PROTOBUF"])
def test_values_of_their_schemas_own_types_are_never_looked_at(kind: str) -> None:
    if kind == "AVRO":
        fields = [
            ("long", 5),
            ("double", 2.5),
            ("string", "x"),
            ("at", 1_760_000_000_123),
            ("state", "OPEN"),
            ("maybe", None),
        ]
        schema = {**SCHEMA, "fields": [{"name": name, "type": AVRO[name]} for name, _ in fields]}
        out = BytesIO()
        fastavro.schemaless_writer(out, fastavro.parse_schema(schema), dict(fields))
        found, value = converter(RegisteredSchema("AVRO", json.dumps(schema))), FRAME + out.getvalue()
        wanted = ["5", "2.5", "x", "2025-10-09 08:53:20.123000", "OPEN", None]
    else:
        text = "syntax = 'proto3'; message Row { int64 a = 1; string b = 2; double c = 3; bool d = 4; }"
        found = converter(RegisteredSchema("PROTOBUF", text))
        value = FIRST + b"\x08\x05\x12\x01x\x19" + struct.pack("<d", 2.5) + b"\x20\x01"
        wanted = ["5", "x", "2.5", "true"]
    types = found.types_of(Writer(1)).columns
    load = ColumnsLoader((METADATA_COLUMN, *(Column(n.upper(), t) for n, t in types.items())), exists=True, grow=True)
    decoded = found.decode(pa.array([value] * 3))
    with (
        patch.object(cells, "converter", side_effect=AssertionError),
        patch("spark_jobs.sink.columns.column_mapping.split", side_effect=AssertionError),
    ):
        texts, bad, changes = result(decoded, load, lambda _: types, strict=True)
    assert (bad, changes) == ((), None)
    assert [text and text[0] for text in texts[1:]] == wanted


def test_fields_are_not_those_of_other_texts() -> None:
    found = converter(RegisteredSchema("AVRO", json.dumps(SCHEMA)))
    decoded = found.decode(pa.array([avro(RECORD)]))
    assert decoded.fields is not None
    assert decoded.fields.content is decoded.content
    wrapped = hoisted(found, "value").decode(pa.array([avro(RECORD)]))
    assert wrapped.fields is None or wrapped.fields.content is not wrapped.content


RECORD: dict[str, Any] = {
    "long": 1,
    "int": 1,
    "double": 1.0,
    "float": 1.0,
    "string": "",
    "boolean": True,
    "at": 1,
    "micros": 1,
    "day": 1,
    "state": "OPEN",
    "maybe": None,
    "maybe_at": None,
    "default": None,
    "list": [],
}
