"""Formats of values beside Avro: what a row becomes, and which rows and schemas are refused."""

import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from google.protobuf.message_factory import GetMessageClass

from firn.errors import ConfigError
from firn.produce.orders import SCHEMA_FILES, Clock, order_events
from firn.produce.records import BadRowError, check_columns, file_records
from firn.produce.rows import open_rows
from firn.produce.run import order_values
from firn.produce.scalars import CoercionError
from firn.produce.value_formats import JsonSchemaValues, JsonValues, ProtobufValues, read_format
from firn.registry.protobuf_schema import root_file
from firn.registry.schemas import RegisteredSchema

PROTO = """syntax = "proto3"; import "google/protobuf/timestamp.proto";
message Reading { string sensor = 1; double celsius = 2; bool good = 3; repeated int32 tags = 4;
  google.protobuf.Timestamp at = 5; bytes raw = 6; }"""
SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "sensor": {"type": "string"},
            "celsius": {"type": ["number", "null"]},
            "good": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "integer"}},
        },
        "required": ["sensor"],
        "additionalProperties": False,
    }
)


def rows(tmp_path, text, name="readings.csv"):
    (tmp_path / name).write_text(text)
    return open_rows(tmp_path / name)


def records(file, values, key=None):
    return list(file_records(file, values, key, values.encoder(258)))


def reading(data, schema=PROTO, name="Reading"):
    assert data[:6] == b"\x00\x00\x00\x01\x02\x00"  # magic byte, id, index of the first message
    file = root_file(RegisteredSchema("PROTOBUF", schema))
    return GetMessageClass(file.message_types_by_name[name]).FromString(data[6:])


@pytest.mark.parametrize("name", ["json", "json-schema", "protobuf", "avro"])
def test_sample_orders_fit_each_format(name):
    order = next(order_events(1, seed=1, first_id=2**53 + 1, clock=Clock(1, 1)))
    values = order_values(name)
    data = values.encoder(258)(order)
    if name == "json":
        assert json.loads(data) == order
    if name == "json-schema":
        assert data[:5] == b"\x00\x00\x00\x01\x02"
        assert json.loads(data[5:]) == values.coercer(text=False)(order) == order
    if name == "protobuf":
        found = reading(data, SCHEMA_FILES["protobuf"].read_text(), "OrderEvent")
        assert (found.order_id, found.order_status, found.order_total) == (2**53 + 1, 0, order["order_total"])


def test_rows_go_as_plain_json_without_a_schema(tmp_path):
    file = rows(tmp_path, '{"id": 1, "a": {"b": [1.5, null]}}\n', "rows.jsonl")
    assert records(file, JsonValues(), "id") == [("1", b'{"id":1,"a":{"b":[1.5,null]}}')]


def test_values_of_parquet_that_json_has_no_type_for_are_texts():
    value = {"at": datetime(2026, 3, 5, tzinfo=UTC), "d": Decimal("1.10"), "b": b"\x00"}
    assert json.loads(JsonValues().encoder(0)(value)) == {"at": "2026-03-05T00:00:00+00:00", "d": "1.10", "b": "AA=="}


def test_cells_of_a_csv_file_become_the_types_of_json_schema(tmp_path):
    file = rows(tmp_path, 'sensor,celsius,good,tags\n7,21.5,TRUE,"[1,2]"\nb,,,\n')
    values = [json.loads(record.value[5:]) for record in records(file, JsonSchemaValues(SCHEMA, "s"))]
    assert values == [
        {"sensor": "7", "celsius": 21.5, "good": True, "tags": [1, 2]},
        {"sensor": "b", "celsius": None},
    ]


def test_cells_of_a_csv_file_become_a_protobuf_message(tmp_path):
    file = rows(tmp_path, 'sensor,celsius,good,tags,at,raw\n7,21.5,true,"[1,2]",2026-03-05T12:00:00Z,AA==\nb,,,,,\n')
    first, second = (reading(record.value) for record in records(file, ProtobufValues(PROTO, "p")))
    assert (first.sensor, first.celsius, first.good, list(first.tags)) == ("7", 21.5, True, [1, 2])
    assert (first.at.ToJsonString(), first.raw) == ("2026-03-05T12:00:00Z", b"\x00")
    assert (second.sensor, second.celsius, second.HasField("at")) == ("b", 0, False)


@pytest.mark.parametrize(
    ("values", "wanted"),
    [(JsonSchemaValues(SCHEMA, "s"), "number"), (ProtobufValues(PROTO, "p"), "a message Reading")],
)
def test_a_row_that_does_not_fit_is_named(tmp_path, values, wanted):
    with pytest.raises(BadRowError, match=wanted) as bad:
        records(rows(tmp_path, "sensor,celsius\na,1\nb,warm\n"), values)
    assert bad.value.where == "readings.csv, line 3"


def test_a_json_row_is_checked_by_its_schema():
    with pytest.raises(CoercionError) as bad:
        JsonSchemaValues(SCHEMA, "s").coercer(text=False)({"sensor": "a", "tags": [1, "x"]})
    assert bad.value.path == "tags.1"


@pytest.mark.parametrize("values", [JsonSchemaValues(SCHEMA, "s"), ProtobufValues(PROTO, "p")])
def test_unknown_columns_are_refused_before_anything_is_sent(tmp_path, values):
    with pytest.raises(ConfigError, match=r"sensr is not a field of the schema.*did you mean sensor"):
        check_columns(rows(tmp_path, "sensr\na\n"), values, None)


def test_a_key_that_a_csv_file_lacks_is_refused_without_a_schema(tmp_path):
    with pytest.raises(ConfigError, match="key idd is not a field of the file"):
        check_columns(rows(tmp_path, "id\n1\n"), JsonValues(), "idd")


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("json-schema", "{", "not JSON Schema"),
        ("json-schema", '{"type": 5}', "not JSON Schema"),
        ("json-schema", '{"type": "string"}', "no properties"),
        ("protobuf", "message", "not a Protobuf schema"),
        ("protobuf", 'syntax = "proto3";', "without a message"),
        ("json", "{}", "Plain JSON has no schema"),
    ],
)
def test_a_schema_that_does_not_serve_is_refused(tmp_path, name, text, fault):
    (tmp_path / "schema").write_text(text)
    with pytest.raises(ConfigError, match=fault):
        read_format(name, tmp_path / "schema")
