"""A null in a nullable field is its default or stays null, as the converter and its options say, in both decoders."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firn.connector.parse import check_sink_config, parse_sink_config
from firn.registry.schemas import RegisteredSchema, SchemaKind
from spark_jobs.sink.decode.avro.schema import parse_schema
from spark_jobs.sink.decode.avro.values import ReferenceDecoder
from spark_jobs.sink.decode.avro.vector import VectorDecoder
from spark_jobs.sink.decode.converters import converter_for
from tests.spark_jobs.sink.decode.avro_cases import Json, frame, parsed, schemas, values, write
from tests.support.connectors import MINIMAL

SNOWFLAKE_AVRO = "com.snowflake.kafka.connector.records.SnowflakeAvroConverter"
INT = {"type": "int", "connect.default": 5}
TEXT = {"type": "string", "connect.default": "x"}


def record(*types: Json, name: str = "R", **more: Json) -> Json:
    """A record with the fields a, b, ..."""
    fields = [{"name": field, "type": type_} for field, type_ in zip("abcd", types, strict=False)]
    return {"type": "record", "name": name, "fields": fields} | more


def texts(schema: Json, body: bytes, *, null_defaults: bool = True) -> list[str | None]:
    """What each decoder that can read the schema gives; the vector decoder has a row of its own to spare."""
    node, framed = parse_schema(json.dumps(schema)), frame(body)
    found = [ReferenceDecoder(node, "+0000", null_defaults=null_defaults).decode(framed, 5)]
    vector = VectorDecoder.of(node, "+0000", null_defaults=null_defaults)
    if vector:
        by_vector = vector.decode(pa.array([framed], pa.binary()))[0].as_py()
        # The least long looks like the block count that the vector decoder does not trust itself with.
        found += [] if by_vector is None and b"\xff" * 9 in body else [by_vector]
    return found


def decoded(schema: Json, value: Json, *, null_defaults: bool = True) -> Json:
    found = [None if text is None else parsed(text) for text in texts(
        schema, write(schema, value), null_defaults=null_defaults
    )]  # fmt: skip
    assert found.count(found[0]) == len(found)
    return found[0]


@pytest.mark.parametrize(
    ("type_", "default", "expected"),
    [
        ("boolean", False, "false"),
        ("int", -(2**31), "-2147483648"),
        ("long", 2**63 - 1, "9223372036854775807"),
        ("float", 0.1, "0.1"),
        ("double", 1, "1.0"),
        ("string", 'a"\n', '"a\\"\\n"'),
        ("bytes", "\u00ff\u0000", '"/wA="'),
        ({"type": "fixed", "name": "F", "size": 2}, "ab", '"YWI="'),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", '"B"'),
        ({"type": "int", "logicalType": "date"}, 1, '"1970-01-02T00:00:00.000Z"'),
        ({"type": "int", "logicalType": "time-millis"}, 1, '"00:00:00.001+0000"'),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1, "1"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "\u0004\u00d2", "12.34"),
        ({"type": "array", "items": "int"}, [1, 2], "[1,2]"),
        ({"type": "map", "values": "string"}, {"k": "v"}, '{"k":"v"}'),
        (record("int", ["null", "int"], name="S"), {"a": 1}, '{"a":1,"b":null}'),
        (record(["null", INT], name="S"), {}, '{"a":5}'),
        ({"type": "array", "items": ["null", INT]}, [None], "[5]"),
    ],
)
def test_every_type_prints_its_default(type_: Json, default: Json, expected: str) -> None:
    with_default = (type_ if isinstance(type_, dict) else {"type": type_}) | {"connect.default": default}
    for union in (["null", with_default], [with_default, "null"]):
        body = write(record(union), {"a": None})
        assert set(texts(record(union), body)) == {f'{{"a":{expected}}}'}
        assert set(texts(record(union), body, null_defaults=False)) == {'{"a":null}'}


@pytest.mark.parametrize(
    ("type_", "default"),
    [
        ("int", 2**31),
        ("int", "5"),
        ("int", True),
        ("int", 1.0),
        ("float", 1e39),
        ("double", 10**400),
        ("string", 5),
        ("string", "\ud800"),
        ("bytes", "\u0100"),
        ({"type": "fixed", "name": "F", "size": 2}, "abc"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, ""),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "C"),
        ({"type": "array", "items": "int"}, [1, None]),
        ({"type": "array", "items": ["int", "null"]}, [1]),
        ({"type": "map", "values": "string"}, []),
        (record("int", name="S"), {}),
        ("string", None),
    ],
)
def test_a_default_that_does_not_fit_leaves_the_null_and_the_schema_good(type_: Json, default: Json) -> None:
    with_default = (type_ if isinstance(type_, dict) else {"type": type_}) | {"connect.default": default}
    assert decoded(record(["null", with_default]), {"a": None}) == {"a": None}


def test_the_default_belongs_to_the_type_wherever_it_stands() -> None:
    assert decoded({"type": "array", "items": ["null", INT]}, [None, 1]) == [5, 1]
    assert decoded({"type": "map", "values": [TEXT, "null"]}, {"k": None}) == {"k": "x"}
    assert decoded(record(["null", record([INT, "null"], name="S")]), {"a": {"a": None}}) == {"a": {"a": 5}}
    enum = {"type": "enum", "name": "E", "symbols": ["A"], "connect.default": "A"}
    assert decoded(record(enum, ["null", "E"]), {"a": "A", "b": None}) == {"a": "A", "b": "A"}


def test_the_default_of_a_field_is_for_schema_evolution_alone() -> None:
    schema = record(["string", "null"], ["int", "null"])
    schema["fields"][0]["default"], schema["fields"][1]["default"] = "x", 5
    assert decoded(schema, {"a": None, "b": None}) == {"a": None, "b": None}


def test_in_a_wide_union_the_branches_that_are_not_chosen_have_their_defaults() -> None:
    schema = record(["null", TEXT, "long"])
    assert decoded(schema, {"a": 7}) == {"a": {"string": "x", "long": 7}}
    assert decoded(schema, {"a": 7}, null_defaults=False) == {"a": {"string": None, "long": 7}}
    assert decoded(schema, {"a": None}) == {"a": None}


def test_a_null_at_the_top_is_a_tombstone_whatever_its_default() -> None:
    assert decoded(["null", TEXT], None) is None
    assert decoded(["null", TEXT], "y") == "y"


def test_schemas_and_defaults_that_lead_back_to_themselves() -> None:
    chain = record(["null", INT], ["null", "N"], name="N")
    value = {"a": None, "b": {"a": 1, "b": None}}
    assert decoded(chain, value) == {"a": 5, "b": {"a": 1, "b": None}}
    assert decoded(chain | {"connect.default": {"a": None}}, value) == {"a": 5, "b": {"a": 1, "b": None}}


def test_defaults_that_double_at_every_level_do_not_fill_the_memory() -> None:
    schema = record(["null", TEXT], name="R0", **{"connect.default": {}})
    for level in range(1, 40):
        schema = record(["null", schema], ["null", f"R{level - 1}"], name=f"R{level}", **{"connect.default": {}})
    body = write(record(["null", schema]), {"a": None})
    assert all(text is not None and len(text) < 3_000_000 for text in texts(record(["null", schema]), body))


# A schema with defaults, and by the number in a type's `number` the value of its default, to write where a null stands.
Defaults = dict[int, Json]


class _UnfitError(Exception):
    """The value is no default: in a union only null can be."""


def avro_json(schema: Json, value: Json) -> Json:
    """A value in Avro's own JSON."""
    if isinstance(schema, list):
        if value is not None:
            raise _UnfitError
        return None
    if isinstance(value, bytes):
        return value.decode("latin-1")
    kind = schema["type"] if isinstance(schema, dict) else schema
    match kind:
        case "array":
            return [avro_json(schema["items"], each) for each in value]
        case "map":
            return {key: avro_json(schema["values"], each) for key, each in value.items()}
        case "record":
            return {each["name"]: avro_json(each["type"], value[each["name"]]) for each in schema["fields"]}
    return value


def furnished(draw: st.DrawFn, schema: Json, found: Defaults) -> Json:
    """`schema` with defaults at some of the types that may be null."""
    if isinstance(schema, list):
        branches = [furnished(draw, each, found) for each in schema]
        return [_with_default(draw, each, found) for each in branches] if len(branches) == 2 else branches
    if not isinstance(schema, dict):
        return schema
    match schema["type"]:
        case "array":
            return schema | {"items": furnished(draw, schema["items"], found)}
        case "map":
            return schema | {"values": furnished(draw, schema["values"], found)}
        case "record":
            fields = [each | {"type": furnished(draw, each["type"], found)} for each in schema["fields"]]
            return schema | {"fields": fields}
    return schema


def _with_default(draw: st.DrawFn, schema: Json, found: Defaults) -> Json:
    if schema == "null" or draw(st.booleans()):
        return schema
    value, _ = draw(values(schema))
    whole = schema if isinstance(schema, dict) else {"type": schema}
    try:
        default = avro_json(schema, value)
    except _UnfitError:
        return whole | {"connect.default": {"no": "default"} if whole["type"] != "map" else []}
    found[len(found)] = value
    return whole | {"connect.default": default, "number": len(found) - 1}


def filled(schema: Json, value: Json, found: Defaults) -> Json:
    """`value` with the defaults written out."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) > 1:
            names = [each if isinstance(each, str) else each["name"] for each in others]
            return value and (value[0], filled(others[names.index(value[0])], value[1], found))
        number = others[0].get("number") if isinstance(others[0], dict) else None
        value = found[number] if value is None and number is not None else value
        return None if value is None else filled(others[0], value, found)
    match schema["type"] if isinstance(schema, dict) else schema:
        case "array":
            return [filled(schema["items"], each, found) for each in value]
        case "map":
            return {key: filled(schema["values"], each, found) for key, each in value.items()}
        case "record":
            return {each["name"]: filled(each["type"], value[each["name"]], found) for each in schema["fields"]}
    return value


@st.composite
def defaulted(draw: st.DrawFn, *, rich: bool) -> tuple[Json, Json, Json, Json]:
    """A schema, a value with nulls, the same with the defaults written out, and the JSON without defaults."""
    found: Defaults = {}
    schema = furnished(draw, draw(schemas(rich=rich)), found)
    value, expected = draw(values(schema))
    return schema, value, filled(schema, value, found), expected


@pytest.mark.parametrize("rich", [False, True])
def test_both_decoders_print_a_null_as_if_the_default_had_been_written(rich: bool) -> None:
    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
    @given(defaulted(rich=rich))
    def check(case: tuple[Json, Json, Json, Json]) -> None:
        schema, value, written_out, expected = case
        assert decoded(schema, value) == decoded(schema, written_out)
        assert decoded(schema, value, null_defaults=False) == expected

    check()


JSON_SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "default": "x"}}}
ENVELOPE = {"type": "struct", "fields": [{"field": "a", "type": "string", "optional": True, "default": "x"}]}
AVRO_CASE = ("AVRO", record(["null", TEXT]), frame(b"\0"))
JSON_CASE = ("JSON", JSON_SCHEMA, frame(b'{"a":null}'))
ENVELOPE_CASE: tuple[SchemaKind, Json, bytes] = (
    "JSON",
    {},
    json.dumps({"schema": ENVELOPE, "payload": {"a": None}}).encode(),
)


@pytest.mark.parametrize(
    ("case", "config", "expected"),
    [
        (AVRO_CASE, {}, "x"),
        (AVRO_CASE, {"input.data.format": "AVRO"}, "x"),
        (AVRO_CASE, {"value.converter.ignore.default.for.nullables": "true"}, None),
        (AVRO_CASE, {"value.converter": "AvroConverter"}, "x"),
        (AVRO_CASE, {"value.converter": "AvroConverter", "value.converter.ignore.default.for.nullables": "true"}, None),
        (AVRO_CASE, {"value.converter": SNOWFLAKE_AVRO}, None),
        (JSON_CASE, {"value.converter": "JsonSchemaConverter"}, "x"),
        (JSON_CASE, {"input.data.format": "JSON_SR", "value.converter.ignore.default.for.nullables": "false"}, "x"),
        (JSON_CASE, {"input.data.format": "JSON_SR", "value.converter.ignore.default.for.nullables": "true"}, None),
        (ENVELOPE_CASE, {"value.converter": "JsonConverter"}, "x"),
        (ENVELOPE_CASE, {"value.converter": "JsonConverter", "value.converter.replace.null.with.default": "true"}, "x"),
        (
            ENVELOPE_CASE,
            {"value.converter": "JsonConverter", "value.converter.replace.null.with.default": "false"},
            None,
        ),
    ],
)
def test_the_class_and_its_options_decide(
    case: tuple[SchemaKind, Json, bytes], config: dict[str, str], expected: str | None
) -> None:
    kind, schema, value = case
    converter = parse_sink_config(MINIMAL | config, where="x").value
    found = converter_for(converter, lambda _: RegisteredSchema(kind, json.dumps(schema))).decode(
        pa.array([value, value], pa.binary())
    )
    assert not found.bad
    assert [json.loads(text) for text in found.content.to_pylist()] == [{"a": expected}] * 2


def test_what_is_not_optional_without_replacing_defaults() -> None:
    off: dict[str, Any] = {"value.converter.ignore.default.for.nullables": "true"}
    required = JSON_SCHEMA | {"required": ["a"]}
    converter = parse_sink_config(MINIMAL | off | {"value.converter": "JsonSchemaConverter"}, where="x").value
    decoder = converter_for(converter, lambda _: RegisteredSchema("JSON", json.dumps(required)))
    assert decoder.decode(pa.array([frame(b"{}")], pa.binary())).content.to_pylist() == ['{"a":"x"}']

    off = {"value.converter": "JsonConverter", "value.converter.replace.null.with.default": "false"}
    decoder = converter_for(parse_sink_config(MINIMAL | off, where="x").value, lambda _: RegisteredSchema("JSON", "{}"))
    schema = {"type": "string", "default": "x"}
    envelopes = [{"schema": schema | {"optional": optional}, "payload": None} for optional in (True, False)]
    found = decoder.decode(pa.array([json.dumps(each).encode() for each in envelopes], pa.binary()))
    assert found.content.to_pylist() == [None, None]
    assert [(bad.row, bad.reason) for bad in found.bad] == [(1, "schema_mismatch")]


@pytest.mark.parametrize(
    ("converter", "option"),
    [
        (SNOWFLAKE_AVRO, "ignore.default.for.nullables"),
        ("ProtobufConverter", "ignore.default.for.nullables"),
        ("AvroConverter", "replace.null.with.default"),
    ],
)
def test_an_option_of_another_converter_is_warned_of(converter: str, option: str) -> None:
    raw = MINIMAL | {"value.converter": converter, f"value.converter.{option}": "false"}
    warnings = check_sink_config(raw, where="x").warnings
    assert [warning.name for warning in warnings if option in warning.name] == [f"value.converter.{option}"]
