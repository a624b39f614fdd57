"""Types of columns from schemas: every type of every kind of schema takes the values that its decoder writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message_factory import GetMessageClass

from firn.connector.config import ConverterConfig, ProtobufOptions
from firn.connector.formats import Format
from firn.registry.protobuf_schema import root_file
from firn.registry.schemas import InvalidSchemaError, RegisteredSchema
from firn.snowflake.columns import ColumnType
from spark_jobs.sink.columns.cells import to_cells
from spark_jobs.sink.columns.fields import split
from spark_jobs.sink.decode.base.contract import Writer
from spark_jobs.sink.decode.base.scalars import CLASSIC_ZONE, STREAMING_ZONE
from spark_jobs.sink.decode.converters import converter_for
from tests.spark_jobs.sink.decode.avro_cases import RICH, frame, write
from tests.spark_jobs.sink.decode.framed_cases import FRAME
from tests.spark_jobs.sink.decode.json.test_schema import ONE_OF, connect, obj
from tests.spark_jobs.sink.decode.protobuf.test_protobuf import FIRST, ORDER, proto

Json = Any
INTEGER, TEXT, BINARY, TIME = "NUMBER(38,0)", "VARCHAR(16777216)", "BINARY(8388608)", "TIME(6)"
TIMESTAMP = "TIMESTAMP_NTZ(6)"
AVRO, JSON_SCHEMA, PROTOBUF = (ConverterConfig(each) for each in (Format.AVRO, Format.JSON_SCHEMA, Format.PROTOBUF))


def schema_types(schema: RegisteredSchema, config: ConverterConfig, *part: int) -> dict[str, ColumnType]:
    return converter_for(config, lambda _: schema).types_of(Writer(1, part)).columns


def types(schema: RegisteredSchema, config: ConverterConfig, *part: int) -> dict[str, str]:
    found = schema_types(schema, config, *part)
    return {name: str(each) for name, each in found.items()}


def cells(schema: RegisteredSchema, config: ConverterConfig, value: bytes, zone: str = CLASSIC_ZONE) -> dict[str, str]:
    """What each field of a framed value becomes in a column of its schema's type; every one must fit."""
    decoded = converter_for(config, lambda _: schema, time_zone=zone).decode(pa.array([value], pa.binary()))
    assert decoded.bad == ()
    found, wanted = split(decoded.content).texts, schema_types(schema, config)
    fitted = {name: to_cells(raw, wanted[name]) for name, raw in found.items() if name in wanted}
    assert {name: each.misfits for name, each in fitted.items() if each.misfits} == {}
    assert list(wanted) == [name for name in found if name in wanted]
    return {name: each.texts[0].as_py() for name, each in fitted.items()}


def record(fields: Mapping[str, Json], **more: Json) -> Json:
    named = [{"name": name, "type": each} for name, each in fields.items()]
    return {"type": "record", "name": "Root", "fields": named} | more


def avro(schema: Json) -> RegisteredSchema:
    return RegisteredSchema("AVRO", json.dumps(schema))


def decimal(precision: int | None, scale: int, base: Json = "bytes") -> Json:
    kind = {"type": base, "logicalType": "decimal", "scale": scale}
    return kind if precision is None else kind | {"precision": precision}


ENTRY = {
    "type": "array",
    "items": {
        "type": "record", "name": "Entry", "connect.internal.type": "MapEntry",
        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "string"}],
    },
}  # fmt: skip
POINT = {"type": "record", "name": "Point", "fields": [{"name": "x", "type": "int"}]}
CONNECT_DECIMAL = {
    "type": "bytes", "connect.name": "org.apache.kafka.connect.data.Decimal",
    "connect.parameters": {"scale": "2", "connect.decimal.precision": "12"},
}  # fmt: skip
NOON = datetime(2025, 10, 9, 8, 53, 20, 123_000, UTC)
AVRO_TYPES: list[tuple[Json, Json, str, str | None]] = [
    ("boolean", True, "BOOLEAN", "true"),
    ("int", -(2**31), INTEGER, "-2147483648"),
    ("long", 2**63 - 1, INTEGER, "9223372036854775807"),
    ("float", 0.5, "FLOAT", "0.5"),
    ("float", float("nan"), "FLOAT", "NaN"),
    ("double", 1e300, "FLOAT", "1e+300"),
    ("double", float("-inf"), "FLOAT", "-inf"),
    ("string", 'é"\n', TEXT, 'é"\n'),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", TEXT, "B"),
    ("bytes", b"\xde\xad\xbe\xef", BINARY, "DEADBEEF"),
    ({"type": "fixed", "name": "F", "size": 3}, b"\x00\x01\xff", BINARY, "0001FF"),
    (decimal(10, 2), Decimal("12345.60"), "NUMBER(38,2)", "12345.60"),
    (decimal(4, 2, "fixed") | {"name": "D", "size": 4}, Decimal("-1.50"), "NUMBER(38,2)", "-1.50"),
    (decimal(38, 0), Decimal(10**38 - 1), INTEGER, "9" * 38),
    (decimal(37, 37), Decimal("0.1"), "NUMBER(38,37)", "0." + "1".ljust(37, "0")),
    (decimal(64, 2), Decimal("9" * 50 + ".25"), TEXT, "9" * 50 + ".25"),
    (CONNECT_DECIMAL, b"\x7b", "NUMBER(38,2)", "1.23"),
    ({"type": "int", "logicalType": "date"}, date(2024, 2, 29), "DATE", "2024-02-29"),
    ({"type": "int", "logicalType": "time-millis"}, time(23, 59, 58, 7_000), TIME, "23:59:58.007000"),
    ({"type": "long", "logicalType": "timestamp-millis"}, NOON, TIMESTAMP, "2025-10-09 08:53:20.123000"),
    (
        {"type": "long", "connect.name": "org.apache.kafka.connect.data.Timestamp"},
        1760000000123,
        TIMESTAMP,
        "2025-10-09 08:53:20.123000",
    ),
    ({"type": "long", "logicalType": "timestamp-micros"}, NOON, INTEGER, "1760000000123000"),
    ({"type": "long", "logicalType": "time-micros"}, time(0, 0, 1), INTEGER, "1000000"),
    ({"type": "string", "logicalType": "uuid"}, "6ba7b810-9dad-11d1-80b4-00c04fd430c8", TEXT, None),
    ({"type": "array", "items": "int"}, [1, 2], "ARRAY", "[1,2]"),
    ({"type": "map", "values": "int"}, {"a": 1}, "VARIANT", '{"a":1}'),
    (ENTRY, [{"key": 7, "value": "x"}], "VARIANT", '[[7,"x"]]'),
    (POINT, {"x": 1}, "VARIANT", '{"x":1}'),
    (["null", "double"], 0.5, "FLOAT", "0.5"),
    ([{"type": "long", "logicalType": "timestamp-millis"}, "null"], None, TIMESTAMP, None),
    (["string"], "x", TEXT, "x"),
    (["null", "int", "string"], "x", "VARIANT", '{"int":null,"string":"x"}'),
]


@pytest.mark.parametrize(("schema", "value", "type_", "cell"), AVRO_TYPES)
def test_every_type_of_avro_has_a_column_that_takes_it(schema: Json, value: Json, type_: str, cell: str | None) -> None:
    registered = avro(record({"f": schema}))
    assert types(registered, AVRO) == {"f": type_}
    found = cells(registered, AVRO, frame(write(record({"f": schema}), {"f": value})))
    assert cell is None or found == {"f": cell}


def test_the_fields_of_a_record_keep_their_names_and_order() -> None:
    schema = record({f"f{at}": kind for at, (kind, *_) in enumerate(AVRO_TYPES)})
    value = {f"f{at}": value for at, (_, value, _, _) in enumerate(AVRO_TYPES)}
    found = cells(avro(schema), AVRO, frame(write(schema, value)))
    assert list(found) == list(value)


@pytest.mark.parametrize(("zone", "cell"), [(CLASSIC_ZONE, "01:02:03.000000"), (STREAMING_ZONE, "01:02:03.000000")])
def test_times_of_day_fit_with_either_zone(zone: str, cell: str) -> None:
    schema = record({"t": {"type": "int", "logicalType": "time-millis"}})
    assert cells(avro(schema), AVRO, frame(write(schema, {"t": time(1, 2, 3)})), zone) == {"t": cell}


@pytest.mark.parametrize("precision", [None, 0, 39, "many"])
def test_a_decimal_that_no_number_is_sure_to_hold_is_text(precision: Json) -> None:
    assert types(avro(record({"d": decimal(precision, 0), "e": decimal(precision, 2)})), AVRO) == {"d": TEXT, "e": TEXT}


@pytest.mark.parametrize(("precision", "scale"), [(10, -2), (10, 11), (38, 38)])
def test_a_decimal_of_a_scale_that_no_number_has_is_text(precision: int, scale: int) -> None:
    assert types(avro(record({"d": decimal(precision, scale)})), AVRO) == {"d": TEXT}


def test_a_field_that_is_always_null_has_no_type() -> None:
    schema = record({"nothing": "null", "only": ["null"], "x": "int"})
    assert types(avro(schema), AVRO) == {"x": INTEGER}
    assert cells(avro(schema), AVRO, frame(write(schema, {"nothing": None, "only": None, "x": 1}))) == {"x": "1"}


def test_a_union_of_one_type_is_an_object_where_singletons_are_not_flattened() -> None:
    schema, config = record({"f": ["string"]}), replace(AVRO, flatten_singletons=False)
    assert types(avro(schema), config) == {"f": "VARIANT"}
    assert cells(avro(schema), config, frame(write(schema, {"f": "x"}))) == {"f": '{"string":"x"}'}


def test_a_record_that_may_be_null_has_its_fields() -> None:
    assert types(avro(["null", record({"x": "int"})]), AVRO) == {"x": INTEGER}


def test_a_wide_union_has_a_field_for_each_of_its_types() -> None:
    schema = ["null", record({"x": "int"}), "string"]
    assert types(avro(schema), AVRO) == {"Root": "VARIANT", "string": TEXT}
    assert cells(avro(schema), AVRO, frame(write(schema, "s"))) == {"Root": None, "string": "s"}


@pytest.mark.parametrize(
    "schema", ["int", "null", {"type": "map", "values": "int"}, {"type": "array", "items": "int"}, ["null"]]
)
def test_what_is_no_object_of_known_fields_has_no_types(schema: Json) -> None:
    assert types(avro(schema), AVRO) == {}


def test_a_record_within_itself_is_looked_at_once() -> None:
    assert types(avro(record({"next": ["null", "Root"], "n": "int"})), AVRO) == {"next": "VARIANT", "n": INTEGER}


def test_a_schema_that_cannot_be_read_is_told() -> None:
    with pytest.raises(InvalidSchemaError):
        schema_types(RegisteredSchema("AVRO", "{"), AVRO)


@pytest.mark.parametrize(
    ("schema", "value", "type_", "cell"),
    [
        ("long", 5, INTEGER, "5"),
        (record({"x": "int"}), {"x": 1}, "VARIANT", '{"x":1}'),
        (["null", "string"], None, TEXT, None),
        ({"type": "array", "items": "int"}, [1], "ARRAY", "[1]"),
    ],
)
def test_a_hoisted_value_is_the_one_field(schema: Json, value: Json, type_: str, cell: str | None) -> None:
    config = replace(AVRO, hoist=("v",))
    assert types(avro(schema), config) == {"v": type_}
    assert cells(avro(schema), config, frame(write(schema, value))) == {"v": cell}


def test_of_several_hoists_the_last_names_the_field() -> None:
    config = replace(AVRO, hoist=("inner", "outer"))
    assert types(avro("long"), config) == {"outer": "VARIANT"}
    assert cells(avro("long"), config, frame(write("long", 5))) == {"outer": '{"inner":5}'}


JSON_TYPES: list[tuple[Json, Json, str, str | None]] = [
    ({"type": "boolean"}, True, "BOOLEAN", "true"),
    ({"type": "integer"}, 2**63 - 1, INTEGER, "9223372036854775807"),
    ({"type": "number"}, 0.1, "FLOAT", "0.1"),
    ({"type": "string"}, 'é"', TEXT, 'é"'),
    ({"type": "string", "format": "date-time"}, "2025-01-01T00:00:00Z", TEXT, "2025-01-01T00:00:00Z"),
    ({"type": "string", "enum": ["A"]}, "A", TEXT, "A"),
    (connect("integer", "int8"), 127, INTEGER, "127"),
    (connect("number", "float32"), 0.5, "FLOAT", "0.5"),
    (connect("number", "int64"), 7, INTEGER, "7"),
    (connect("string", "bytes"), "AQI=", BINARY, "0102"),
    (connect("integer", "int32", "Date"), 20_000, "DATE", "2024-10-04"),
    (connect("integer", "int32", "Time"), 3_723_004, TIME, "01:02:03.004000"),
    (connect("integer", "int64", "Timestamp"), 1760000000123, TIMESTAMP, "2025-10-09 08:53:20.123000"),
    (connect("number", "bytes", "Decimal", scale="2"), 12.25, TEXT, "12.25"),
    ({"type": "array", "items": {"type": "integer"}}, [1], "ARRAY", "[1]"),
    ({"type": "array", "items": [{"type": "integer"}]}, [1, "a"], "ARRAY", '[1,"a"]'),
    (obj(x={"type": "integer"}), {"x": 1}, "VARIANT", '{"x":1}'),
    (
        {"type": "object", "connect.type": "map", "additionalProperties": {"type": "integer"}},
        {"a": 1},
        "VARIANT",
        '{"a":1}',
    ),
    (
        {"type": "array", "connect.type": "map", "items": obj(key={"type": "integer"}, value={"type": "string"})},
        [{"key": 1, "value": "x"}],
        "VARIANT",
        '[[1,"x"]]',
    ),
    ({"type": ["null", "integer"]}, 5, INTEGER, "5"),
    ({"oneOf": [{"type": "null"}, {"type": "string"}]}, None, TEXT, None),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "x", "VARIANT", f'{{"{ONE_OF}0":null,"{ONE_OF}1":"x"}}'),
    ({"allOf": [{"type": "string"}]}, "x", TEXT, "x"),
    ({"allOf": [obj(a={"type": "integer"})]}, {"a": 1}, "VARIANT", '{"a":1}'),
    ({"$ref": "#/definitions/Id"}, 5, INTEGER, "5"),
    ({}, [1, {"a": "b"}], "VARIANT", '[1,{"a":"b"}]'),
    ({"minLength": 1}, "x", TEXT, "x"),
]


@pytest.mark.parametrize(("schema", "value", "type_", "cell"), JSON_TYPES)
def test_every_type_of_json_schema_has_a_column_that_takes_it(
    schema: Json, value: Json, type_: str, cell: str | None
) -> None:
    whole = obj(f=schema) | {"definitions": {"Id": {"type": "integer"}}}
    registered = RegisteredSchema("JSON", json.dumps(whole))
    assert types(registered, JSON_SCHEMA) == {"f": type_}
    assert cells(registered, JSON_SCHEMA, FRAME + json.dumps({"f": value}).encode()) == {"f": cell}


def test_properties_that_a_json_schema_does_not_declare_have_no_type() -> None:
    registered = RegisteredSchema("JSON", json.dumps(obj(a={"type": "string"}, n={"type": "null"})))
    assert types(registered, JSON_SCHEMA) == {"a": TEXT}
    assert cells(registered, JSON_SCHEMA, FRAME + b'{"a": "x", "more": 1, "n": null}') == {"a": "x"}


def test_a_sum_of_json_schemas_has_a_field_for_each() -> None:
    schema = {"oneOf": [obj(a={"type": "string"}), {"type": "integer"}]}
    registered = RegisteredSchema("JSON", json.dumps(schema))
    assert types(registered, JSON_SCHEMA) == {f"{ONE_OF}0": "VARIANT", f"{ONE_OF}1": INTEGER}
    assert cells(registered, JSON_SCHEMA, FRAME + b"5") == {f"{ONE_OF}0": None, f"{ONE_OF}1": "5"}


@pytest.mark.parametrize("schema", [True, {"type": "string"}, {"type": "object"}, {"type": "null"}])
def test_a_json_schema_without_properties_has_no_types(schema: Json) -> None:
    assert types(RegisteredSchema("JSON", json.dumps(schema)), JSON_SCHEMA) == {}


PROTOBUF_TYPES = {
    "payment_0": "VARIANT", "other_1": "VARIANT",
    **dict.fromkeys(("i32", "i64", "u32", "u64", "s32", "s64", "f32", "f64", "sf32", "sf64"), INTEGER),
    "flo": "FLOAT", "dou": "FLOAT", "boo": "BOOLEAN", "str": TEXT, "raw": BINARY, "state": TEXT, "maybe": INTEGER,
    "line": "VARIANT", "lines": "ARRAY", "numbers": "ARRAY", "by_name": "VARIANT", "by_number": "VARIANT",
    "by_flag": "VARIANT", "wrapped": INTEGER, "text": TEXT, "at": TIMESTAMP, "day": "DATE", "time": TIME, "total": TEXT,
    "next": "VARIANT", "address": "VARIANT",
}  # fmt: skip


@pytest.fixture(scope="module")
def order() -> bytes:
    """A message with every field set."""
    message: Any = GetMessageClass(root_file(ORDER).message_types_by_name["Order"])(
        i32=-1, i64=-(2**63), u32=2**32 - 1, u64=2**64 - 1, s32=-5, s64=-5, f32=7, f64=2**64 - 1, sf32=-7, sf64=-7,
        flo=0.5, dou=1e300, boo=True, str="é", raw=b"\1\2", state=3, maybe=0, line={"sku": "s"}, lines=[{}],
        numbers=[1], by_name={"a": {}}, by_number={1: "x"}, by_flag={True: 3}, card="c", cash=1,
        at={"seconds": 1760000000, "nanos": 123_000_000}, day={"year": 2024, "month": 2, "day": 29},
        time={"hours": 1, "minutes": 2, "seconds": 3}, next={"i32": 1},
    )  # fmt: skip
    message.wrapped.value, message.text.value = 5, "w"
    message.total.value, message.total.scale = b"\x7b", 2
    message.address.city = "Basel"
    return FIRST + bytes(message.SerializeToString())


def test_every_type_of_protobuf_has_a_column_that_takes_it(order: bytes) -> None:
    assert types(ORDER, PROTOBUF) == PROTOBUF_TYPES
    found = cells(ORDER, PROTOBUF, order)
    assert {name: found[name] for name in ("u64", "raw", "state", "wrapped", "at", "day", "time", "total")} == {
        "u64": str(2**64 - 1),
        "raw": "0102",
        "state": "PAID",
        "wrapped": "5",
        "at": "2025-10-09 08:53:20.123000",
        "day": "2024-02-29",
        "time": "01:02:03.000000",
        "total": "1.23",
    }


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (ProtobufOptions(enums_as_numbers=True), {"state": INTEGER}),
        (ProtobufOptions(raw_wrappers=False), {"wrapped": "VARIANT", "text": "VARIANT"}),
    ],
)
def test_options_of_the_protobuf_converter_change_the_types(
    order: bytes, options: ProtobufOptions, changed: dict[str, str]
) -> None:
    config = replace(PROTOBUF, protobuf=options)
    assert types(ORDER, config) == PROTOBUF_TYPES | changed
    cells(ORDER, config, order)


def test_unions_of_protobuf_have_the_names_that_the_options_give(order: bytes) -> None:
    plain = replace(PROTOBUF, protobuf=ProtobufOptions(index_in_union_names=False))
    flat = replace(PROTOBUF, protobuf=ProtobufOptions(flatten_unions=True))
    assert list(types(ORDER, plain))[:2] == ["payment", "other"]
    assert list(types(ORDER, flat).items())[:3] == [("card", TEXT), ("coupon", "VARIANT"), ("cash", INTEGER)]
    assert cells(ORDER, plain, order)["other"] == '{"cash":1}'
    assert cells(ORDER, flat, order)["cash"] == "1"


def test_types_of_another_message_of_the_file() -> None:
    assert types(ORDER, PROTOBUF, 1) == {"state": TEXT}
    assert types(ORDER, PROTOBUF, 0, 0) == {"sku": TEXT, "tags": "VARIANT"}


def test_a_message_without_fields_has_no_types() -> None:
    assert types(proto("message Empty {}"), PROTOBUF) == {}


def test_every_kind_of_avro_type_that_other_tests_write_is_tried_here() -> None:
    tried = json.dumps([kind for kind, *_ in AVRO_TYPES])
    names = {"decimal": "logicalType", "fixed-decimal": '"fixed"', "null": '"null"'}
    assert [each for each in RICH if names.get(each, f'"{each}"') not in tried] == []
