"""Connect's JsonConverter with schemas.enable=true: values are what their schema says, or bad records."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.sink.decode.base import contract, json_text, rows
from spark_jobs.sink.decode.base.contract import Decoded
from spark_jobs.sink.decode.base.scalars import STREAMING_ZONE
from spark_jobs.sink.decode.connect.schema import Schema
from spark_jobs.sink.decode.json import envelope as module
from spark_jobs.sink.decode.json.connect_json import connect_schema
from spark_jobs.sink.decode.json.envelope import MAX_BEGINNINGS, json_envelope_decoder
from spark_jobs.sink.values.bad_records import INVALID_JSON, INVALID_SCHEMA, INVALID_UTF8, SCHEMA_MISMATCH
from tests.spark_jobs.sink.decode.avro_cases import parsed
from tests.spark_jobs.sink.decode.connect_cases import Case, cases, envelope

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
ORDER = {
    "type": "struct",
    "fields": [{"field": "id", "type": "int64"}, {"field": "note", "type": "string", "optional": True}],
}


def decode(*values: bytes | None) -> Decoded:
    return json_envelope_decoder(STREAMING_ZONE).decode(pa.array(values, pa.binary()))


def wrap(schema: Any, payload: Any) -> bytes:
    return json.dumps({"schema": schema, "payload": payload}).encode()


def content(schema: Any, payload: Any) -> str | None:
    decoded = decode(wrap(schema, payload))
    assert not decoded.bad
    return decoded.content[0].as_py()  # type: ignore[no-any-return]


@QUICK
@given(cases(), cases())
def test_every_type_becomes_the_json_that_was_meant(first: Case, second: Case) -> None:
    values = [envelope(first), envelope(first), envelope(second), envelope(first)]
    decoded = decode(*values)  # known beginnings and new ones
    assert not decoded.bad
    wanted = [each.expected for each in (first, first, second, first)]
    assert [None if text is None else parsed(text) for text in decoded.content.to_pylist()] == wanted


@pytest.mark.parametrize(
    ("schema", "payload", "text"),
    [
        (ORDER, {"id": 1}, '{"id":1,"note":null}'),
        (ORDER, {"id": 1.0, "note": "", "unknown": 5}, '{"id":1,"note":""}'),
        ({"type": "map", "keys": {"type": "int8"}, "values": {"type": "string"}}, [[1, "a"], [1, "b"]], '[[1,"b"]]'),
        ({"type": "float"}, 0.1, "0.1"),
        ({"type": "double"}, "-Infinity", '"-Infinity"'),
        ({"type": "double"}, 5, "5.0"),
        (DECIMAL, "AQ==", "0.01"),
        (DECIMAL, 1.5, "1.5"),
        (DECIMAL, 10**40, f'"{10**40}"'),
        ({"type": "int64", "default": 7, "optional": True}, None, "7"),
        ({"type": "int64", "optional": True}, None, None),
        ({"type": "string", "name": "io.debezium.data.Json", "version": 1, "doc": "d"}, "{}", '"{}"'),
        (None, None, None),
        (None, {"a": [1, 10**40]}, f'{{"a":[1,"{10**40}"]}}'),
        (None, "x", '"x"'),
    ],
)
def test_what_a_payload_becomes(schema: Any, payload: Any, text: str | None) -> None:
    assert content(schema, payload) == text


@pytest.mark.parametrize(
    ("schema", "payload", "detail"),
    [
        (ORDER, {"note": "x"}, "payload.id is null"),
        (ORDER, {"id": "1"}, "payload.id is no int64: 1"),
        (ORDER, {"id": 1.5}, "payload.id is no int64: 1.5"),
        (ORDER, {"id": True}, "payload.id is no int64: a boolean"),
        (ORDER, {"id": 1, "note": 5}, "payload.note is no string: 5"),
        (ORDER, [1], "payload is no struct: an array"),
        (ORDER, None, "payload is null"),
        ({"type": "int8"}, 128, "payload is no int8: 128"),
        ({"type": "int32", "name": "org.apache.kafka.connect.data.Date"}, 1.0, "payload is no int32: 1.0"),
        ({"type": "float"}, 1e39, "payload is no float32"),
        ({"type": "double"}, "1", "payload is no float64: 1"),
        ({"type": "boolean"}, 1, "payload is no boolean: 1"),
        ({"type": "bytes"}, "?", "payload is no bytes (base64): ?"),
        ({"type": "bytes"}, 1, "payload is no bytes (base64): 1"),
        (DECIMAL, "", "payload is no decimal"),
        (DECIMAL, True, "payload is no bytes (base64): a boolean"),
        ({"type": "array", "items": {"type": "int8"}}, [1, None], "payload[] is null"),
        ({"type": "array", "items": {"type": "int8"}}, {}, "payload is no array: an object"),
        ({"type": "map", "keys": {"type": "string"}, "values": ORDER}, {"a": {}}, "payload{}.id is null"),
        ({"type": "map", "keys": {"type": "string"}, "values": ORDER}, [], "payload is no object of a map"),
        ({"type": "map", "keys": {"type": "int8"}, "values": ORDER}, [[1]], "payload is no array of [key, value]"),
    ],
)
def test_a_payload_that_is_not_what_its_schema_says(schema: Any, payload: Any, detail: str) -> None:
    decoded = decode(wrap(schema, payload))
    assert decoded.content.to_pylist() == [None]
    assert [bad.reason for bad in decoded.bad] == [SCHEMA_MISMATCH]
    assert detail in decoded.bad[0].detail


@pytest.mark.parametrize(
    ("schema", "detail"),
    [
        ("int8", "schema has no type"),
        ({}, "schema has no type"),
        ({"type": "enum"}, "schema has the unknown type 'enum'"),
        ({"type": "float64"}, "schema has the unknown type 'float64'"),
        ({"type": "struct"}, "schema is a struct without a list of fields"),
        ({"type": "struct", "fields": [{"type": "int8"}]}, "schema.fields[0] has no name"),
        ({"type": "struct", "fields": [{"type": "int8", "field": "a"}] * 2}, "schema.fields[1] has no name of its own"),
        ({"type": "struct", "fields": [{"field": "a"}]}, "schema.a has no type"),
        ({"type": "array"}, "schema.items has no type"),
        ({"type": "map", "keys": {"type": "int8"}}, "schema.values has no type"),
        ({"type": "map", "values": {"type": "int8"}}, "schema.keys has no type"),
        ({"type": "int8", "parameters": {"a": 1}}, "schema has parameters that are no strings"),
        ({"type": "int8", "default": "x"}, "schema.default is no int8: x"),
        ({**DECIMAL, "parameters": {"scale": "x"}}, "is a Decimal of scale 'x'"),
        ({**DECIMAL, "parameters": {"scale": "1000000"}}, "is a Decimal of scale '1000000'"),
        ({"type": DECIMAL["type"], "name": DECIMAL["name"]}, "is a Decimal of scale ''"),
    ],
)
def test_a_schema_that_cannot_be_used(schema: Any, detail: str) -> None:
    decoded = decode(wrap(schema, "AQ=="))
    assert [bad.reason for bad in decoded.bad] == [INVALID_SCHEMA]
    assert detail in decoded.bad[0].detail


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"null", SCHEMA_MISMATCH),
        (b"", SCHEMA_MISMATCH),
        (b"5", SCHEMA_MISMATCH),
        (b'{"a":1}', SCHEMA_MISMATCH),
        (b'{"payload":1}', SCHEMA_MISMATCH),
        (b'{"schema":null,"payload":1,"more":2}', SCHEMA_MISMATCH),
        (b'{"schema":{"type":"int8"},"payload":1', INVALID_JSON),
        (b'{"schema":{"type":"int8"},"payload":12', INVALID_JSON),
        (b'{"schema":{"type":"int8"},"payload":}', INVALID_JSON),
        (b'{"schema":{"type":"int8"},"payload":1}}', INVALID_JSON),
        (b'{"schema":{"type":"string"},"payload":"\xff"}', INVALID_UTF8),
        (b'{"schema":{"type":"double"},"payload":1e99999999999999999999}', INVALID_JSON),
        (b'{"schema":{"type":"double"},"payload":1e400}', SCHEMA_MISMATCH),
        (b'{"schema":null,"payload":' + b"[" * 100_000, INVALID_JSON),
    ],
)
def test_what_is_no_envelope_also_behind_good_ones(value: bytes, reason: str) -> None:
    good = [b'{"schema":{"type":"int8"},"payload":1}', b'{"schema":{"type":"string"},"payload":"a"}']
    decoded = decode(None, *good, value)
    assert decoded.content.to_pylist() == [None, "1", '"a"', None]
    assert [(bad.row, bad.reason) for bad in decoded.bad] == [(3, reason)]


def test_a_known_beginning_is_not_taken_for_more_than_it_is() -> None:
    first = b'{"schema":{"type":"string"},"payload":"a"}'
    twice = b'{"schema":{"type":"string"},"payload":"a","schema":{"type":"int8"},"payload":5}'
    late = b'{"schema":null,"payload":6,"schema":{"type":"int8"}}'
    spaced = b'{"schema":{"type":"string"},"payload": "b" } \n'
    half = b'{"schema":{"type":"string"},"payload":"\\ud800"}'
    inside = b'{"schema":{"type":"string","doc":"\\"payload\\":"},"payload":"c"}'
    assert decode(first, twice, late, spaced, half, inside, inside).content.to_pylist() == [
        '"a"', "5", "6", '"b"', '"\ufffd"', '"c"', '"c"',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        (b"0.99999999999999999999", None),
        (b"9007199254740993.0", "9007199254740993"),
        (b"5.0", "5"),
        (b"18446744073709551617", None),
        (b"1e400", None),
        (b"1e18", "1000000000000000000"),
    ],
)
def test_the_verdict_on_a_record_does_not_depend_on_those_before_it(payload: bytes, text: str | None) -> None:
    schema = b'{"type":"struct","fields":[{"field":"a","type":"int64"},{"field":"b","type":"double"}]}'
    one, other = (b'{"schema":%s,"payload":{"a":%s,"b":0.1}}' % (schema, each) for each in (payload, b"1"))
    first, later = decode(one), decode(other, one, other, one)
    (content,) = first.content.to_pylist()
    assert content == (text and f'{{"a":{text},"b":0.1}}')
    assert later.content.to_pylist()[1::2] == [content] * 2
    assert [bad.detail for bad in later.bad] == [bad.detail for bad in first.bad] * 2


def test_a_bad_payload_does_not_make_a_known_beginning_forgotten() -> None:
    schemas = [{"type": "struct", "name": str(at), "fields": [{"field": "a", "type": "int8"}]} for at in range(8)]
    assert len(schemas) == MAX_BEGINNINGS
    decoder = json_envelope_decoder(STREAMING_ZONE)
    good, bad = ([wrap(schema, {"a": each}) for schema in schemas] for each in (1, "x"))
    decoder.decode(pa.array([*good, *bad[:1] * 20], pa.binary()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_text, "utf8", refuse)  # an envelope that is not known
        assert not decoder.decode(pa.array(good, pa.binary())).bad


def refuse(_: bytes) -> str:
    raise AssertionError


def test_decimals_anywhere_in_a_schema_keep_their_digits() -> None:
    schema = {"type": "struct", "fields": [{"field": "a", "type": "array", "items": DECIMAL}]}
    value = wrap(schema, {"a": [0]}).replace(b"[0]", b"[12345678901234567890.12345]")
    assert decode(value, value).content.to_pylist() == ['{"a":[12345678901234567890.12345]}'] * 2


LONG = "x" * 500


@pytest.mark.parametrize(
    ("items", "item"),
    [
        ({"type": "struct", "fields": [{"field": LONG, "type": "int8", "optional": True}]}, {}),
        ({"type": "string", "default": LONG}, None),
    ],
)
def test_names_and_defaults_that_become_too_large_are_bad_and_the_next_record_is_not(
    items: Any, item: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "MAX_TEXT", 12_000)
    monkeypatch.setattr(rows, "checked", str)  # it would come too late
    schema, decoder = {"type": "array", "items": items}, json_envelope_decoder(STREAMING_ZONE)
    values = pa.array([wrap(schema, [item] * count) for count in (30, 1)], pa.binary())
    for _ in range(30):  # what the good ones take does not add up
        decoded = decoder.decode(values)
        assert [(bad.row, bad.reason) for bad in decoded.bad] == [(0, "too_large")]
        assert decoded.content[1].is_valid


def test_few_schemas_are_kept_and_those_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compile_schema(node: Any) -> Schema:
        compiled.append(node["name"])
        return connect_schema(node)

    monkeypatch.setattr(module, "connect_schema", compile_schema)
    monkeypatch.setattr(module, "MAX_SCHEMAS", 2)
    monkeypatch.setattr(module, "MAX_BEGINNINGS", 0)
    values = [wrap({"type": "int8", "name": name}, 1) for name in "aabacabb"]
    assert not decode(*values).bad
    assert compiled == ["a", "b", "c", "b"]


def test_more_schemas_than_are_remembered() -> None:
    schemas = [{"type": "struct", "name": str(at), "fields": [{"field": str(at), "type": "int8"}]} for at in range(40)]
    assert len(schemas) > MAX_BEGINNINGS
    values = [wrap(schema, {schema["name"]: at}) for at, schema in enumerate(schemas)] * 2
    assert decode(*values).content.to_pylist() == [f'{{"{at}":{at}}}' for at in range(40)] * 2


@QUICK
@given(cases(), st.data())
def test_damaged_envelopes_never_crash(case: Case, data: st.DataObject) -> None:
    good = envelope(case)
    at = data.draw(st.integers(0, len(good)))
    damaged = good[:at] + data.draw(st.binary(max_size=3)) + good[at + data.draw(st.integers(0, 3)) :]
    decoded = decode(good, damaged)
    assert {bad.row for bad in decoded.bad} <= {1}
    for text in filter(None, decoded.content.to_pylist()):
        parsed(text)  # raises where it is no JSON
