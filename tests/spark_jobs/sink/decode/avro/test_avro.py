"""Batches of values: rows in, rows out, and every bad record named."""

from __future__ import annotations

import json
import time
from typing import Any

import pyarrow as pa
import pytest

from firn.errors import TransientError
from firn.registry.faults import UnknownSchemaError
from firn.registry.schemas import InvalidSchemaError, RegisteredSchema
from spark_jobs.sink.decode.avro.converter import avro_decoder
from spark_jobs.sink.decode.avro.schema import parse_schema
from spark_jobs.sink.decode.avro.vector import VectorDecoder
from spark_jobs.sink.decode.base.contract import Decoded
from spark_jobs.sink.decode.base.rows import RowDecoder
from spark_jobs.sink.decode.framing.decoder import MAX_IN_BATCH, REMEMBERED_SECONDS, FramedDecoder
from tests.spark_jobs.sink.decode.avro_cases import frame, parsed, write

LONG = {"type": "record", "name": "L", "fields": [{"name": "n", "type": "long"}]}
TEXT = {"type": "record", "name": "S", "fields": [{"name": "s", "type": "string"}]}
SCHEMAS = {1: LONG, 2: TEXT}
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
CONNECT_DECIMAL = {"type": "bytes", "connect.name": "org.apache.kafka.connect.data.Decimal"}
CHAIN = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}


def avro(schema: Any) -> RegisteredSchema:
    return RegisteredSchema("AVRO", json.dumps(schema))


def schema_of(schema_id: int) -> RegisteredSchema:
    if schema_id == 77:
        return RegisteredSchema("PROTOBUF", 'syntax = "proto3";')
    if schema_id not in SCHEMAS:
        raise UnknownSchemaError(f"no schema {schema_id}")
    return avro(SCHEMAS[schema_id])


def test_a_schema_of_another_kind_makes_its_records_bad_and_no_others() -> None:
    decoded = decode(frame(b"\x02", 77), frame(write(LONG, {"n": 5}), 1))
    assert [(bad.row, bad.reason, bad.detail) for bad in decoded.bad] == [
        (0, "invalid_schema", "schema id 77 is a PROTOBUF schema, the converter reads AVRO")
    ]
    assert parsed(decoded.content[1].as_py()) == {"n": 5}


def decode(*values: bytes | None, schema: Any = None) -> Decoded:
    decoder = avro_decoder(schema_of if schema is None else lambda _: avro(schema))
    return decoder.decode(pa.array(values, pa.binary()))


def content(schema: Any, body: bytes) -> Any:
    decoded = decode(frame(body), schema=schema)
    assert not decoded.bad
    return parsed(decoded.content[0].as_py())


def reason(schema: Any, body: bytes) -> str:
    (bad,) = decode(frame(body), schema=schema).bad
    return bad.reason


def test_ids_tombstones_and_bad_records_mix_in_one_batch() -> None:
    decoded = decode(
        frame(write(LONG, {"n": 1}), 1), None, frame(write(TEXT, {"s": "é"}), 2), b"", frame(b"", 9), frame(b"\x04", 1)
    )
    assert decoded.content.to_pylist() == ['{"n":1}', None, '{"s":"é"}', None, None, '{"n":2}']
    assert decoded.schema_ids.to_pylist() == [1, None, 2, None, None, 1]
    assert [(bad.row, bad.reason) for bad in decoded.bad] == [(3, "too_short"), (4, "unknown_schema_id")]
    assert "9" in decoded.bad[1].detail


def test_an_empty_batch_and_one_of_tombstones_only() -> None:
    assert decode().content.to_pylist() == []
    assert decode(None, None).content.to_pylist() == [None, None]


def test_a_slice_of_a_batch_decodes_its_own_rows() -> None:
    whole = pa.array([b"junk", frame(write(LONG, {"n": 7}), 1), None, frame(write(TEXT, {"s": "x"}), 2)], pa.binary())
    decoded = avro_decoder(schema_of).decode(whole.slice(1, 2))
    assert decoded.content.to_pylist() == ['{"n":7}', None]


def test_the_columns_come_as_plain_arrays_of_the_promised_types() -> None:
    decoded = decode(frame(b"\x02", 1))
    assert isinstance(decoded.content, pa.StringArray)
    assert isinstance(decoded.schema_ids, pa.Int32Array)


def test_a_new_schema_id_needs_no_new_decoder_and_each_schema_is_asked_for_once() -> None:
    asked: list[int] = []

    def looked_up(schema_id: int) -> RegisteredSchema:
        asked.append(schema_id)
        return schema_of(schema_id)

    decoder = avro_decoder(looked_up)
    for schema_id, body in [(1, b"\x02"), (2, b"\x02a"), (1, b"\x04")]:
        assert not decoder.decode(pa.array([frame(body, schema_id)], pa.binary())).bad
    assert asked == [1, 2]


def test_a_schema_that_cannot_be_used_is_asked_for_once_too() -> None:
    asked: list[int] = []

    def looked_up(schema_id: int) -> RegisteredSchema:
        asked.append(schema_id)
        return RegisteredSchema("AVRO", "{")

    decoder, values = avro_decoder(looked_up), pa.array([frame(b"", 5), frame(b"", 6)], pa.binary())
    details = [[bad.detail for bad in decoder.decode(values).bad] for _ in range(2)]
    assert asked == [5, 6]
    assert details[0] == details[1]
    assert ["id 5" in details[0][0], "id 6" in details[0][1]] == [True, True]


class Registry:
    """A registry that counts its requests, and a clock."""

    def __init__(self) -> None:
        self.known: dict[int, RegisteredSchema] = {}
        self.asked: list[int] = []
        self.now = 0.0

    def schema_of(self, schema_id: int) -> RegisteredSchema:
        self.asked.append(schema_id)
        if schema_id not in self.known:
            raise UnknownSchemaError("not yet")
        return self.known[schema_id]

    def decoder(self) -> FramedDecoder:
        return FramedDecoder("AVRO", self.schema_of, lambda _: RowDecoder(lambda _: '{"n":1}'), lambda: self.now)


def test_a_schema_that_is_registered_later_is_found_after_a_while() -> None:
    registry = Registry()
    decoder, values = registry.decoder(), pa.array([frame(b"\x02", 5), None, frame(b"\x02", 5)], pa.binary())
    details = [[bad.detail for bad in decoder.decode(values).bad] for _ in range(3)]
    assert details == [["not yet"] * 2] * 3
    registry.known[5] = avro(LONG)
    assert decoder.decode(values).bad
    assert registry.asked == [5]
    registry.now += REMEMBERED_SECONDS
    assert decoder.decode(values).content.to_pylist() == ['{"n":1}', None, '{"n":1}']
    assert registry.asked == [5, 5]


def test_a_batch_of_junk_asks_for_few_of_its_ids() -> None:
    registry = Registry()
    registry.known |= dict.fromkeys((3, 4), avro(LONG))
    decoder = registry.decoder()
    junk_ids = [*range(10**6, 0, -500)]
    good, junk, last = (
        pa.array([frame(b"\x02", each) for each in ids], pa.binary()) for ids in ([3], junk_ids, [3, 4])
    )
    assert not decoder.decode(good).bad
    for _ in range(3):
        decoded = decoder.decode(pa.concat_arrays([junk, last]))
        reasons = ["unknown_schema_id"] * MAX_IN_BATCH + ["not_looked_up"] * (len(junk) + 1 - MAX_IN_BATCH)
        assert [bad.reason for bad in decoded.bad] == reasons
        assert decoded.content[len(junk)].as_py() == '{"n":1}'  # known before
        assert registry.asked == [3, *junk_ids[:MAX_IN_BATCH]]
    assert decoder.decode(pa.concat_arrays([last, junk])).content.to_pylist()[:2] == ['{"n":1}'] * 2


def test_batches_that_begin_where_nothing_was_looked_up_judge_every_record_once() -> None:
    registry = Registry()
    ids = [*range(1_000, 1_250), 7]
    registry.known[7] = avro(LONG)
    decoder, rest, judged = registry.decoder(), ids, []
    while rest:
        bad = decoder.decode(pa.array([frame(b"\x02", each) for each in rest], pa.binary())).bad
        known = [each.row for each in bad if each.reason == "unknown_schema_id"]
        cut = next((each.row for each in bad if each.reason == "not_looked_up"), len(rest))
        assert known == [*range(len(known))]
        assert cut > 0
        judged += rest[: len(known)]
        rest = rest[cut:]
    assert judged == ids[:-1]
    assert registry.asked == ids


def test_a_registry_that_is_down_makes_no_bad_record() -> None:
    def down(_: int) -> RegisteredSchema:
        raise TransientError("registry down")

    with pytest.raises(TransientError):
        avro_decoder(down).decode(pa.array([frame(b"\x02")], pa.binary()))


def test_one_bad_record_among_thousands_is_named_and_the_others_stand() -> None:
    values = [frame(write(TEXT, {"s": f"v{n}"}), 2) for n in range(5_000)]
    values[1234] = frame(b"\x08ab", 2)
    values[4000] = frame(b"\x02ab", 2)
    decoded = decode(*values)
    assert [(bad.row, bad.reason) for bad in decoded.bad] == [(1234, "malformed_avro"), (4000, "trailing_bytes")]
    assert decoded.content[1233].as_py() == '{"s":"v1233"}'
    assert decoded.content.null_count == 2


@pytest.mark.parametrize(
    ("value", "reason"),
    [(b"", "too_short"), (b"\0\0\0", "too_short"), (b"{}", "wrong_magic"), (b'{"a":"json"}', "wrong_magic")],
)
def test_values_without_the_frame(value: bytes, reason: str) -> None:
    assert [bad.reason for bad in decode(value).bad] == [reason]


def test_a_schema_that_is_not_avro_makes_its_records_bad() -> None:
    decoder = avro_decoder(lambda _: RegisteredSchema("AVRO", 'syntax = "proto3";'))
    assert [bad.reason for bad in decoder.decode(pa.array([frame(b"")], pa.binary())).bad] == ["invalid_schema"]


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ("long", b""),
        ("long", b"\xff" * 10 + b"\x01"),
        ("int", b"\xff\xff\xff\xff\xff\x0f"),
        ("boolean", b"\x02"),
        ("double", b"\0" * 7),
        ("string", b"\x01abc"),
        ("string", b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7fabc"),
        ("bytes", b"\x05abc"),
        (ENUM, b"\x01"),
        (ENUM, b"\x04"),
        (["null", "string"], b"\x01\x02a"),
        (["null", "string"], b"\x04"),
        ({"type": "fixed", "name": "F", "size": 4}, b"abc"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, b"\0"),
        ({"type": "array", "items": "long"}, b"\xfe\xff\xff\xff\xff\xff\x7f\x02"),
        ({"type": "array", "items": "long"}, b"\xff" * 9 + b"\x01\x00"),
        ({"type": "array", "items": "boolean"}, b"\xff" * 9 + b"\x01\x00\x00"),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\x7f\x00"),
        (
            {"type": "map", "values": {"type": "array", "items": "null"}},
            b"\x04\x02a\xc0\x9a\x0c\x00\x02b\xc0\x9a\x0c\x00\x00",
        ),
        (CHAIN, b"\x02" * 1_000_000 + b"\x00"),
    ],
)
def test_bytes_that_no_writer_wrote_are_malformed_at_once(schema: Any, body: bytes) -> None:
    start = time.monotonic()
    assert reason(schema, body) == "malformed_avro"
    assert time.monotonic() - start < 2


@pytest.mark.parametrize("schema", ["string", {"type": "map", "values": "long"}, {"type": "array", "items": "string"}])
def test_text_that_is_not_utf8_is_refused_wherever_it_stands(schema: Any) -> None:
    bodies = {"string": b"\x04\xc3\x28", "map": b"\x02\x04\xc3\x28\x02\x00", "array": b"\x02\x04\xc3\x28\x00"}
    assert reason(schema, bodies[schema if isinstance(schema, str) else schema["type"]]) == "invalid_utf8"


def test_bytes_behind_the_value_are_refused_however_many() -> None:
    for extra in range(1, 20):
        assert reason(LONG, b"\x02" + b"\x02" * extra) == "trailing_bytes"


def test_a_repeated_map_key_keeps_its_last_value() -> None:
    twice = b"\x04\x02a\x02\x02a\x04\x00"
    assert content({"type": "map", "values": "long"}, twice) == {"a": 2}
    assert content({"type": "map", "values": "bytes"}, b"\x04\x02a\x02x\x02a\x02y\x00") == {"a": "eQ=="}


def test_blocks_may_give_their_size_and_be_several() -> None:
    assert content({"type": "array", "items": "long"}, b"\x03\x04\x02\x04\x02\x06\x00") == [1, 2, 3]


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "bytes", "logicalType": "decimal", "scale": 2}, (1234560).to_bytes(3, "big"), "12345.60"),
        ({"type": "bytes", "logicalType": "decimal", "scale": 4}, (-500).to_bytes(2, "big", signed=True), "-0.0500"),
        ({"type": "bytes", "logicalType": "decimal", "scale": 2}, (10**38).to_bytes(16, "big"), f'"1{"0" * 36}.00"'),
        ({"type": "bytes", "logicalType": "decimal", "scale": 20}, b"\x01", "0.00000000000000000001"),
        ({"type": "bytes", "logicalType": "decimal", "scale": -2}, b"\x05", "500"),
        ({"type": "bytes", "logicalType": "decimal", "scale": -400}, b"\x05", '"5E+400"'),
        ({"type": "bytes", "logicalType": "decimal", "scale": 2.0}, b"\x05", "0.05"),
        ({"type": "bytes", "logicalType": "decimal", "scale": True}, b"\x01", '"AQ=="'),
        ({**CONNECT_DECIMAL, "connect.parameters": {"scale": "2"}}, b"\x05", "0.05"),
        ({**CONNECT_DECIMAL, "connect.parameters": {"scale": "-1"}}, b"\x05", "50"),
        ({**CONNECT_DECIMAL, "connect.parameters": {"scale": "x"}}, b"\x05", '"BQ=="'),
        (CONNECT_DECIMAL, b"\x05", '"BQ=="'),
        ({"type": "int", "logicalType": "date"}, 2**31 - 1, '"5881580-07-11T00:00:00.000Z"'),
        ({"type": "int", "logicalType": "date"}, -719_529, '"-0001-12-31T00:00:00.000Z"'),
        ({"type": "int", "logicalType": "date"}, -(2**31), '"-5877641-06-23T00:00:00.000Z"'),
        ({"type": "int", "connect.name": "org.apache.kafka.connect.data.Date"}, 20371, '"2025-10-10T00:00:00.000Z"'),
        ({"type": "int", "logicalType": "time-millis"}, 86_400_000, "86400000"),
        ({"type": "int", "logicalType": "time-millis"}, 0, '"00:00:00.000+0000"'),
        ({"type": "long", "logicalType": "timestamp-millis"}, -(2**63), str(-(2**63))),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, 2**63 - 1, str(2**63 - 1)),
        ("double", 100.0, "100.0"),
        ("float", 0.1, "0.1"),
        ("double", float("-inf"), '"-Infinity"'),
        (["null", "long"], None, None),
        (["string"], "x", '"x"'),
        ("string", '\u2028\x00"', '"\u2028\\u0000\\""'),
    ],
)
def test_text_of_single_values(schema: Any, value: Any, expected: str) -> None:
    # Written without the logical type, so that any number goes.
    plain = {k: v for k, v in schema.items() if k == "type"} if isinstance(schema, dict) else schema
    decoded = decode(frame(write(plain, value)), schema=schema)
    assert decoded.content.to_pylist() == [expected]
    assert decoded.bad == ()


def test_a_decimal_of_thousands_of_digits_keeps_them_all() -> None:
    raw = b"\x7f" * 4_000
    text = content({"type": "bytes", "logicalType": "decimal"}, write("bytes", raw))
    assert len(text) > 9_000
    assert int(text[-18:]) == int.from_bytes(raw, "big") % 10**18


def test_wide_unions_name_the_branch_and_null_the_others() -> None:
    record = {"type": "record", "name": "a.b.R", "fields": [{"name": "x", "type": "int"}]}
    schema = ["null", "string", record, ENUM]
    assert content(schema, b"\x04\x0a") == {"string": None, "R": {"x": 5}, "E": None}
    assert content(schema, b"\x06\x02") == {"string": None, "R": None, "E": "B"}
    assert decode(frame(b"\x00"), schema=schema).content.to_pylist() == [None]


def test_branches_that_differ_in_namespace_only_keep_their_full_names() -> None:
    first, second = ({"type": "fixed", "name": f"{space}.F", "size": 1} for space in "ab")
    assert content([first, second], b"\x02\x01") == {"a.F": None, "b.F": "AQ=="}


def entries(key: Any, **entry: Any) -> Any:
    """The Avro schema of a Connect map with keys of the type `key` and int values."""
    fields = [{"name": "key", "type": key}, {"name": "value", "type": ["null", "int"]}]
    name = {"name": "MapEntry", "namespace": "io.confluent.connect.avro"}
    return {"type": "array", "items": {"type": "record", **name, **entry, "fields": fields}}


@pytest.mark.parametrize(
    ("schema", "body", "expected"),
    [
        (entries("int"), b"\x04\x02\x02\x04\x04\x00\x00", "[[1,2],[2,null]]"),
        (entries("int"), b"\x04\x02\x02\x04\x02\x02\x06\x00", "[[1,3]]"),
        (entries("int"), b"\x00", "[]"),
        (entries("string"), b"\x02\x02a\x02\x04\x00", '{"a":2}'),
        (entries(["null", "string"]), b"\x04\x00\x02\x04\x02\x02a\x00\x00", '{"null":2,"a":null}'),
        (entries("string"), b"\x00", "{}"),
        (entries("int", **{"name": "E", "connect.internal.type": "MapEntry"}), b"\x02\x02\x02\x04\x00", "[[1,2]]"),
        (entries("int", name="E"), b"\x02\x02\x02\x04\x00", '[{"key":1,"value":2}]'),
    ],
)
def test_a_connect_map_whose_keys_are_no_plain_strings(schema: Any, body: bytes, expected: str) -> None:
    decoded = decode(frame(body), frame(body), schema=schema)
    assert not decoded.bad
    assert decoded.content.to_pylist() == [expected] * 2


def test_a_union_of_one_type_is_that_type_unless_the_converter_is_told_otherwise() -> None:
    schema = {"type": "array", "items": ["string"]}
    body = frame(b"\x02\x00\x02a\x00")
    assert decode(body, schema=schema).content.to_pylist() == ['["a"]']
    decoder = avro_decoder(lambda _: avro(schema), flatten_singletons=False)
    assert decoder.decode(pa.array([body], pa.binary())).content.to_pylist() == ['[{"string":"a"}]']


@pytest.mark.parametrize(
    ("schema", "bad", "good"),
    [
        (CHAIN, b"\x02" * 150 + b"\x00", b"\x02" * 60 + b"\x00"),
        ({"type": "array", "items": "null"}, write("long", 100_001) + b"\x00", write("long", 60_000) + b"\x00"),
    ],
)
def test_the_limits_count_within_one_value(schema: Any, bad: bytes, good: bytes) -> None:
    decoder = avro_decoder(lambda _: avro(schema))
    for _ in range(2):
        decoded = decoder.decode(pa.array([frame(bad), frame(good), frame(good)], pa.binary()))
        assert [each.row for each in decoded.bad] == [0]


def test_recursion_and_names_seen_before() -> None:
    assert content(CHAIN, b"\x02\x02\x00") == {"next": {"next": {"next": None}}}
    schema = {
        "type": "record", "name": "R", "namespace": "x.y",
        "fields": [{"name": "a", "type": ENUM}, {"name": "b", "type": "E"}, {"name": "c", "type": ["null", "x.y.E"]}],
    }  # fmt: skip
    assert content(schema, b"\x00\x02\x02\x00") == {"a": "A", "b": "B", "c": "A"}


def test_names_that_differ_in_case_or_are_not_ascii_stay_apart() -> None:
    fields = [{"name": name, "type": "long"} for name in ("a", "A", "größe")]
    assert content({"type": "record", "name": "R", "fields": fields}, b"\x02\x04\x06") == {"a": 1, "A": 2, "größe": 3}


def test_a_logical_type_beside_the_type_is_no_logical_type() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "d", "type": "int", "logicalType": "date"}]}
    assert content(schema, b"\x02") == {"d": 1}


def test_a_record_without_fields_is_an_empty_object() -> None:
    assert content({"type": "record", "name": "R", "fields": []}, b"") == {}


@pytest.mark.parametrize(
    "schema", ["", "[]", '"nothing"', '{"type":"record","name":"R"}', '{"name":"R"}', '[["null"]]', "[" * 100_000]
)
def test_texts_that_are_no_schema(schema: str) -> None:
    with pytest.raises(InvalidSchemaError):
        parse_schema(schema)


@pytest.mark.parametrize("depth", range(100, 500, 25))
def test_a_schema_is_used_or_refused_however_deep_it_is(depth: int) -> None:
    nested = '{"type":"array","items":' * depth + '"null"' + "}" * depth
    decoded = avro_decoder(lambda _: RegisteredSchema("AVRO", nested)).decode(pa.array([frame(b"\0")], pa.binary()))
    assert decoded.content.to_pylist() == ["[]"] or [bad.reason for bad in decoded.bad] == ["invalid_schema"]


def test_a_type_that_doubles_at_every_level_is_left_to_the_reference() -> None:
    schema: Any = "long"
    for level in range(30):
        inner = schema if level == 0 else f"R{level - 1}"
        first = {"name": "a", "type": schema}
        schema = {"type": "record", "name": f"R{level}", "fields": [first, {"name": "b", "type": inner}]}
    assert VectorDecoder.of(parse_schema(json.dumps(schema)), "Z") is None
