"""JSON with a JSON Schema in the registry: the rows of Confluent's JsonSchemaConverter, and what is bad."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.base import contract, rows
from spark_jobs.sink.decode.base.contract import Decoded
from tests.spark_jobs.sink.decode.framed_cases import FRAME, decode, decoder, only, reason, references

Json = Any
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
CONNECT = "org.apache.kafka.connect.data."
ONE_OF = "io.confluent.connect.json.OneOf.field."
NULL = {"type": "null"}


def read(schema: Json, *bodies: Json, **referred: Json) -> Decoded:
    """Decode bodies (bytes as they are, all else as JSON); `referred` are `<name>.json`."""
    texts = {f"{name}.json": json.dumps(each) for name, each in referred.items()}
    registered = RegisteredSchema("JSON", json.dumps(schema), references("JSON", texts))
    return decode(
        registered, *[FRAME + (each if isinstance(each, bytes) else json.dumps(each).encode()) for each in bodies]
    )


def obj(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


def value(schema: Json, body: Json) -> Json:
    return only(read(obj(v=schema), {"v": body}))["v"]


def connect(kind: str, connect_type: str, name: str = "", **parameters: str) -> Json:
    schema: Json = {"type": kind, "connect.type": connect_type}
    if name:
        schema["title"] = CONNECT + name
    if parameters:
        schema["connect.parameters"] = parameters
    return schema


@pytest.mark.parametrize(
    ("schema", "body", "expected"),
    [
        ({"type": "boolean"}, True, True),
        ({"type": "integer"}, 2**63 - 1, 2**63 - 1),
        ({"type": "integer"}, 3.0, 3),
        ({"type": "number"}, 0.1, Decimal("0.1")),
        ({"type": "number"}, 7, 7),
        ({"type": "string"}, 'é"\n', 'é"\n'),
        ({"type": "string", "enum": ["a", "b"]}, "b", "b"),
        ({"enum": ["a", 5]}, 5, 5),
        ({"type": "array", "items": {"type": "integer"}}, [1, 2], [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, [], []),
        (connect("integer", "int8"), -128, -128),
        (connect("integer", "int16"), 32767, 32767),
        (connect("number", "float32"), 0.1, Decimal("0.1")),
        (connect("string", "bytes"), "AQI=", "AQI="),
        (connect("number", "bytes", "Decimal", scale="2"), 12.34, Decimal("12.34")),
        (connect("string", "bytes", "Decimal", scale="2"), "BNI=", Decimal("12.34")),
        (connect("integer", "int32", "Date"), 20371, "2025-10-10T00:00:00.000Z"),
        (connect("integer", "int32", "Time"), 3_600_000, "01:00:00.000+0000"),
        (connect("integer", "int64", "Timestamp"), 1_760_000_000_000, 1_760_000_000_000),
        ({"type": "object", "connect.type": "map", "additionalProperties": {"type": "integer"}}, {"k": 1}, {"k": 1}),
        ({}, {"any": [None, 1.5, "x"]}, {"any": [None, Decimal("1.5"), "x"]}),
        (True, [1], [1]),
        ({"const": 5}, 5, 5),
        ({"type": "array"}, [1, "x"], [1, "x"]),
        ({"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}, [1, "x"], [1, "x"]),
        ({"minLength": 1}, "told by a keyword", "told by a keyword"),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1}, {"a": 1}),
    ],
)
def test_every_type(schema: Json, body: Json, expected: Json) -> None:
    assert value(schema, body) == expected


def test_digits_beyond_a_double_stay_where_connect_keeps_them() -> None:
    decimal, exact = connect("number", "bytes", "Decimal", scale="20"), b"12345678901234567.12345678901234567890"
    assert only(read(decimal, exact)) == Decimal(exact.decode())
    assert only(read({"type": "object"}, b'{"x": %s}' % exact)) == {"x": Decimal(exact.decode())}


def test_maps_with_other_keys_are_arrays_of_pairs() -> None:
    entries = {"type": "array", "connect.type": "map"}
    body = [{"key": 1, "value": "a"}, {"key": 2, "value": None}]
    optional = {"oneOf": [NULL, {"type": "string"}]}
    assert value(entries | {"items": obj(key={"type": "integer"}, value=optional)}, body) == [[1, "a"], [2, None]]
    strings = [{"key": "a", "value": "b"}]
    assert value(entries | {"items": obj(key=optional, value=optional)}, strings) == {"a": "b"}
    assert (
        reason(read(entries | {"items": obj(key={"type": "integer"}, value=optional)}, [[1, "a"]])) == "schema_mismatch"
    )


@pytest.mark.parametrize("sum_of", ["oneOf", "anyOf"])
def test_a_type_and_null_are_an_optional_type(sum_of: str) -> None:
    schema = {sum_of: [NULL, {"type": "integer"}]}
    assert (value(schema, None), value(schema, 5)) == (None, 5)
    assert (value({"type": ["string", "null"]}, None), value({"type": ["string", "null"]}, "x")) == (None, "x")


def test_other_sums_have_a_field_for_each_branch() -> None:
    first, second = obj(a={"type": "integer"}), obj(a={"type": "integer"}, b={"type": "integer"})
    schema = {"oneOf": [{"type": "integer"}, {"type": "string"}, first, second]}
    none = {ONE_OF + str(at): None for at in range(4)}
    assert value(schema, 1) == none | {ONE_OF + "0": 1}
    assert value(schema, "x") == none | {ONE_OF + "1": "x"}
    assert value(schema, {"a": 1}) == none | {ONE_OF + "2": {"a": 1}}
    assert value(schema, {"a": 1, "b": 2}) == none | {ONE_OF + "3": {"a": 1, "b": 2}}
    assert value({"type": ["integer", "string"]}, "x") == {ONE_OF + "0": None, ONE_OF + "1": "x"}
    assert value({"oneOf": [NULL, *schema["oneOf"]]}, None) is None
    assert reason(read(schema, b"1.5")) == "schema_mismatch"
    assert reason(read(schema, b"null")) == "schema_mismatch"


def test_combined_branches_are_numbered_first_as_officially() -> None:
    schema = {"oneOf": [{"type": "integer"}, {"type": "string", "enum": ["x"]}, {"allOf": [obj(a={"type": "number"})]}]}
    assert value(schema, "x") == {ONE_OF + "0": "x", ONE_OF + "1": None, ONE_OF + "2": None}
    assert value(schema, {"a": 1}) == {ONE_OF + "0": None, ONE_OF + "1": {"a": 1}, ONE_OF + "2": None}


def test_all_of_gathers_the_properties() -> None:
    base = {"definitions": {"base": obj(a={"type": "integer"})}}
    schema = base | {"allOf": [{"$ref": "#/definitions/base"}, obj(b={"type": "string"})]}
    assert only(read(schema, {"a": 1, "b": "x"})) == {"a": 1, "b": "x"}
    assert reason(read(schema, {"b": "x"})) == "schema_mismatch"
    optional = base | {"allOf": [{"$ref": "#/definitions/base"}, obj(b={"type": "string"}) | {"required": []}]}
    assert only(read(optional, {"a": 1})) == {"a": 1, "b": None}
    assert value({"allOf": [{"type": "string"}, {"const": "x"}]}, "x") == "x"
    assert only(read(base | {"allOf": [{"$ref": "#/definitions/base"}], "title": "T"}, {"a": 1})) == {"a": 1}


def test_declared_properties_are_there_and_others_are_kept() -> None:
    schema = obj(a={"type": "integer"}) | {"required": []}
    assert only(read(schema, {})) == {"a": None}
    assert only(read(schema, {"a": None})) == {"a": None}
    assert only(read(schema, {"A": 1, "x": {"y": [1.10, None]}})) == {
        "a": None,
        "A": 1,
        "x": {"y": [Decimal("1.1"), None]},
    }


def test_a_required_property_is_not_absent_and_the_path_to_it_is_told() -> None:
    decoded = read(obj(a=obj(b={"type": "array", "items": {"type": "integer"}})), {"a": {}}, {"a": {"b": [1, "x"]}})
    assert [bad.reason for bad in decoded.bad] == ["schema_mismatch"] * 2
    assert "value.a.b is null or absent" in decoded.bad[0].detail
    assert "value.a.b[] is no int64: x" in decoded.bad[1].detail


def test_a_default_takes_the_place_of_null_as_officially() -> None:
    schema = obj(a={"type": "integer", "default": 5}, b={"oneOf": [NULL, {"type": "string", "default": "x"}]})
    assert only(read(schema, {})) == {"a": 5, "b": "x"}
    assert only(read(schema, {"a": None, "b": "y"})) == {"a": 5, "b": "y"}


def test_references_lead_anywhere_and_back() -> None:
    node = obj(v={"type": "integer"}, next={"oneOf": [NULL, {"$ref": "#/definitions/node"}]})
    tree = {"$ref": "#/definitions/node", "definitions": {"node": node}}
    assert only(read(tree, {"v": 1, "next": {"v": 2, "next": None}})) == {"v": 1, "next": {"v": 2, "next": None}}
    itself = obj(sub={"type": "array", "items": {"$ref": "#"}})
    assert only(read(itself, {"sub": [{"sub": []}]})) == {"sub": [{"sub": []}]}


@pytest.mark.parametrize("base", [{}, {"$id": "http://shop.example/schemas/order.json"}])
def test_schemas_of_other_subjects(base: Json) -> None:
    schema = base | obj(address={"$ref": "address.json"}, code={"$ref": "address.json#/definitions/code"})
    address = obj(city={"type": "string"}, country={"$ref": "country.json"}) | {
        "definitions": {"code": {"type": "integer"}}
    }
    body = {"address": {"city": "Bern", "country": "CH"}, "code": 3000}
    assert only(read(schema, body, address=address, country={"type": "string"})) == body


def test_null_is_a_tombstone_where_the_schema_allows_it() -> None:
    decoded = read({"oneOf": [NULL, {"type": "string"}]}, b"null", "x")
    assert (decoded.content.to_pylist(), decoded.bad) == ([None, '"x"'], ())
    assert reason(read({"type": "string"}, b"null")) == "schema_mismatch"


@pytest.mark.parametrize(
    ("schema", "body", "expected"),
    [
        ({"type": "integer"}, "5", "schema_mismatch"),
        ({"type": "integer"}, 1.5, "schema_mismatch"),
        ({"type": "integer"}, 2**63, "schema_mismatch"),
        ({"type": "integer"}, True, "schema_mismatch"),
        (connect("integer", "int8"), 128, "schema_mismatch"),
        ({"type": "string"}, 5, "schema_mismatch"),
        ({"type": "boolean"}, 0, "schema_mismatch"),
        ({"type": "array", "items": {"type": "integer"}}, {"a": 1}, "schema_mismatch"),
        ({"type": "object"}, [1], "schema_mismatch"),
        (connect("string", "bytes"), "not base64", "schema_mismatch"),
        ({"type": "string"}, b"{", "invalid_json"),
        ({"type": "string"}, b"", "invalid_json"),
        ({"type": "string"}, b'"x" 1', "invalid_json"),
        ({"type": "number"}, b"NaN", "invalid_json"),
        ({"type": "string"}, b'"\xff"', "invalid_utf8"),
        ({}, b"[" * 100_000, "schema_mismatch"),
    ],
)
def test_what_is_bad(schema: Json, body: Json, expected: str) -> None:
    assert reason(read(schema, body)) == expected


@pytest.mark.parametrize(
    "text", ["", "{", '"text"', "[]", '{"type": "unheard"}', '{"$ref": "absent.json"}', '{"$ref": "#/definitions/x"}',
             '{"properties": []}', '{"properties": {"a": 5}}', '{"type": 5}', '{"$ref": 5}', '{"oneOf": [[]]}',
             '{"$schema": 5, "type": {}}', '{"oneOf": [{"$ref": "#"}, {"type": "integer"}]}',
             '{"$id": "http://[", "type": "string"}', '{"properties": {"a": {"$ref": "http://["}}}', '{"allOf": 5}',
             '{"properties": {"a": {}}, "required": 5}']
)  # fmt: skip
def test_texts_that_are_no_schema_to_read_with(text: str) -> None:
    assert reason(decode(RegisteredSchema("JSON", text), FRAME + b"{}")) == "invalid_schema"


LONG = "x" * 500


@pytest.mark.parametrize(
    ("items", "item"),
    [
        ({"type": "object", "properties": {LONG: {"type": "integer"}}}, {}),
        ({"oneOf": [{"type": each} for each in ("integer", "string", "boolean", "array")] * 4}, 1),
        ({"type": "object", "properties": {"a": {"type": "string", "default": LONG}}}, {}),
        ({"type": "object", "properties": {"a": {"type": "object", "default": {"b": LONG}}}}, {}),
        ({"type": "string", "default": LONG}, None),
        ({"type": "object", "properties": {"a": {"type": "array", "default": [LONG]}}}, {}),
    ],
)
def test_names_and_defaults_that_become_too_large_are_bad_and_the_next_record_is_not(
    items: Json, item: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "MAX_TEXT", 12_000)
    monkeypatch.setattr(rows, "checked", str)  # it would come too late
    at = decoder(RegisteredSchema("JSON", json.dumps({"type": "array", "items": items})))
    bodies = pa.array([FRAME + json.dumps([item] * count).encode() for count in (30, 1)], pa.binary())
    for _ in range(30):  # what the good ones take does not add up
        decoded = at.decode(bodies)
        assert [(each.row, each.reason) for each in decoded.bad] == [(0, "too_large")]
        assert decoded.content[1].is_valid


SCHEMA = obj(
    i={"type": "integer"},
    s={"type": ["string", "null"]},
    d=connect("number", "bytes", "Decimal", scale="2"),
    t=connect("integer", "int32", "Date"),
    b=connect("string", "bytes"),
    u={"oneOf": [{"type": "integer"}, {"type": "string"}, obj(x={"type": "number"})]},
    m={"type": "object", "connect.type": "map", "additionalProperties": {"type": "integer"}},
    l={"type": "array", "items": {"$ref": "#"}},
) | {"required": []}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("AQI="),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("isdtbumlx"), inner, max_size=5),
    max_leaves=15,
)


@QUICK
@given(st.lists(JSON.map(lambda each: json.dumps(each).encode()) | st.binary(max_size=20), max_size=8))
def test_any_bytes_are_a_row_of_valid_json_or_a_bad_record(bodies: list[bytes]) -> None:
    decoded = read(SCHEMA, *bodies)
    bad = {each.row for each in decoded.bad}
    for row, text in enumerate(decoded.content.to_pylist()):
        assert (text is None) == (row in bad)
        assert text is None or json.loads(text).keys() >= set("isdtbuml")


KEYWORDS = [
    "$id", "$ref", "$schema", "$anchor", "$dynamicRef", "id", "type", "properties", "required", "items", "prefixItems",
    "additionalProperties", "oneOf", "anyOf", "allOf", "definitions", "$defs", "default", "enum", "const", "title",
    "connect.type", "connect.parameters", "a",
]  # fmt: skip
WORDS = [
    "http://[", "#", "#/definitions/a", "#/a/0", "%zz", "urn:x", "../a", "object", "array", "string", "integer", "null",
    "number", "bytes", "map", "int8", "http://json-schema.org/draft-04/schema#", CONNECT + "Decimal", "\ud800",
    "https://json-schema.org/draft/2020-12/schema",
]  # fmt: skip
SCHEMAS = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.floats() | st.sampled_from(WORDS) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYWORDS), inner, max_size=5),
    max_leaves=12,
)


@settings(QUICK, max_examples=300)
@given(SCHEMAS.map(json.dumps) | st.text(max_size=10))
def test_whatever_the_schema_nothing_is_raised(text: str) -> None:
    bodies = [FRAME + each for each in (b"{}", b'{"a":[1,"x",{}]}', b'"AQ=="', b"1.5", b"null")]
    decoded = decode(RegisteredSchema("JSON", text), *bodies)
    assert {bad.reason for bad in decoded.bad} <= {"invalid_schema", "schema_mismatch"}
