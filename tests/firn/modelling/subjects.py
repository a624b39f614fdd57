"""Subjects as unlike as they come, each with a record as its producer writes it and the JSON that the sink makes."""

from __future__ import annotations

import datetime
import decimal
import io
import json
from dataclasses import dataclass
from typing import Any

import fastavro
import pyarrow as pa

from firn.connector.config import ProtobufOptions
from firn.modelling.description import Described
from firn.modelling.generate import described
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.avro.schema import parse_schema
from spark_jobs.sink.decode.avro.values import ReferenceDecoder
from spark_jobs.sink.decode.base.scalars import CLASSIC_ZONE
from spark_jobs.sink.decode.framing.frames import FRAME_BYTES
from spark_jobs.sink.decode.json.converter import schema_bodies
from spark_jobs.sink.decode.protobuf.converter import _MessageDecoder


@dataclass(frozen=True)
class Subject:
    """A subject with one version, and the JSON text of a record of it."""

    name: str
    schema: RegisteredSchema
    content: str

    @property
    def described(self) -> Described:
        return described(self.name, [(1, self.schema)])


def avro(name: str, schema: dict[str, Any], value: dict[str, Any]) -> Subject:
    text, body = json.dumps(schema), io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(schema), value)
    content = ReferenceDecoder(parse_schema(text), CLASSIC_ZONE).decode(body.getvalue(), 0)
    assert content
    return Subject(name, RegisteredSchema("AVRO", text), content)


def json_schema(name: str, schema: dict[str, Any], value: dict[str, Any]) -> Subject:
    registered = RegisteredSchema("JSON", json.dumps(schema))
    framed = pa.array([b"\0" * FRAME_BYTES + json.dumps(value).encode()], pa.binary())
    decoded = schema_bodies(registered, CLASSIC_ZONE, True).decode(framed)
    assert not decoded.bad
    return Subject(name, registered, decoded.content[0].as_py())


def protobuf(name: str, text: str, body: bytes) -> Subject:
    registered = RegisteredSchema("PROTOBUF", text)
    framed = pa.array([b"\0" * FRAME_BYTES + b"\0" + body], pa.binary())
    decoded = _MessageDecoder(registered, ProtobufOptions(), CLASSIC_ZONE).decode(framed)
    assert not decoded.bad
    return Subject(name, registered, decoded.content[0].as_py())


FLAT = avro(
    "flat-readings-value",
    {
        "type": "record",
        "name": "Reading",
        "fields": [
            {"name": "sensorId", "type": "string", "doc": "Id of the sensor's board."},
            {"name": "celsius", "type": "double"},
            {"name": "valid", "type": "boolean", "doc": "Whether {{ it }} counts."},
            {"name": "count", "type": ["null", "int"], "default": None},
            {"name": "raw", "type": "bytes"},
            {"name": "order", "type": "long", "doc": "A word of SQL."},
            {"name": "topic", "type": "string", "doc": "A name that the record's own columns have."},
            {"name": "taken_at", "type": "long", "doc": "Milliseconds, without a logical type."},
        ],
    },
    {
        "sensorId": "s-1",
        "celsius": float("nan"),
        "valid": True,
        "count": None,
        "raw": b"\x00\xff",
        "order": 9007199254740993,
        "topic": "weather",
        "taken_at": 1_772_713_815_123,
    },
)

DEEP = json_schema(
    "shop.deep-baskets-value",
    {
        "type": "object",
        "required": ["basket", "customer", "lines"],
        "properties": {
            "basket": {"type": "integer", "description": "Number of the basket."},
            "customer": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": {"type": "string"},
                    "address": {
                        "type": "object",
                        "properties": {"city": {"type": "string"}, "zip-code": {"type": "string"}},
                    },
                },
            },
            "state": {"type": "string", "enum": ["OPEN", "PAID"]},
            "lines": {
                "type": "array",
                "description": "What is in it.",
                "items": {
                    "type": "object",
                    "required": ["sku", "discounts"],
                    "properties": {
                        "sku": {"type": "string"},
                        "amount": {"oneOf": [{"type": "null"}, {"type": "number"}]},
                        "discounts": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "required": ["code"],
                                "properties": {"code": {"type": "string"}},
                            },
                        },
                    },
                },
            },
            "labels": {"type": "object", "connect.type": "map", "additionalProperties": {"type": "string"}},
            "payment": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
            "anything": {},
        },
    },
    {
        "basket": 7,
        "customer": {"name": "Ada", "address": {"city": "Leeds", "zip-code": "LS1"}},
        "state": "PAID",
        "lines": [
            {"sku": "a", "amount": 1.5, "discounts": [{"code": "x"}, {"code": "y"}]},
            {"sku": "b", "discounts": []},
        ],
        "labels": {"gift": "yes"},
        "payment": "card",
        "anything": [1, {"two": 2}],
    },
)

UNIONS = avro(
    "unions-and-times-value",
    {
        "type": "record",
        "name": "Event",
        "namespace": "test",
        "fields": [
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 3}},
            {"name": "huge", "type": {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 0}},
            {"name": "day", "type": {"type": "int", "logicalType": "date"}},
            {"name": "at_time", "type": {"type": "int", "logicalType": "time-millis"}},
            {"name": "at_micro", "type": {"type": "long", "logicalType": "time-micros"}},
            {"name": "seen_ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "seen_us", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
            {
                "name": "detail",
                "type": [
                    "null",
                    "string",
                    {"type": "record", "name": "Move", "fields": [{"name": "metres", "type": "double"}]},
                    {"type": "array", "items": "long"},
                ],
            },
            {"name": "colour", "type": ["null", {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}]},
            {"name": "tags", "type": {"type": "map", "values": ["null", "int"]}},
            {"name": "parent", "type": ["null", "Event"]},
        ],
    },
    {
        "id": "6f1c4f0e-9d0b-4a57-8ef9-8f1a0c6f0001",
        "price": decimal.Decimal("12.345"),
        "huge": decimal.Decimal("9" * 50),
        "day": datetime.date(2026, 3, 5),
        "at_time": datetime.time(12, 30, 15, 123000),
        "at_micro": datetime.time(1, 2, 3, 4),
        "seen_ms": datetime.datetime(2026, 3, 5, 12, 30, 15, 123000, tzinfo=datetime.UTC),
        "seen_us": datetime.datetime(2026, 3, 5, 12, 30, 15, 123456, tzinfo=datetime.UTC),
        "detail": [4, 5],
        "colour": "BLUE",
        "tags": {"a": 1, "b": None},
        "parent": None,
    },
)

PROTO = """
syntax = "proto3";
package test;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Ride {
  enum Kind { UNKNOWN = 0; CAR = 1; }
  message Stop { string name = 1; repeated int32 platforms = 2; }
  string id = 1;
  Kind kind = 2;
  google.protobuf.Timestamp started = 3;
  google.protobuf.Int64Value fare = 4;
  repeated Stop stops = 5;
  map<int32, string> seats = 6;
  oneof paid_by { string card = 7; Stop counter = 8; }
  optional double rating = 9;
}
"""
MESSAGES = protobuf(
    "rides-value",
    PROTO,
    # id "r", kind CAR, started 1772713815 s, fare 12, one stop {name "x", platforms 3}, seats {1: "w"}, card "c"
    b"\x0a\x01r\x10\x01\x1a\x06\x08\xd7\x9b\xa6\xcd\x06\x22\x02\x08\x0c\x2a\x06\x0a\x01x\x12\x01\x03"
    b"\x32\x05\x08\x01\x12\x01w\x3a\x01c",
)
