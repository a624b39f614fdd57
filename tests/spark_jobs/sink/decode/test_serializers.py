"""What confluent-kafka's own serializers write through a real registry becomes the row that was meant."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message_factory import GetMessageClass
from google.type.phone_number_pb2 import PhoneNumber

from firn.connector.config import ConverterConfig
from firn.connector.formats import Format
from firn.registry.login import login_from_secret, registry_client
from firn.registry.protobuf_schema import root_file
from firn.registry.schemas import RegisteredSchema, registered_schema
from firn.secrets import RegistrySecret, read_secret
from spark_jobs.sink.decode.converters import converter_for

pytestmark = pytest.mark.stack
RUN = uuid4().hex[:8]
DRAFT = {"$schema": "http://json-schema.org/draft-07/schema#"}


@pytest.fixture(scope="module")
def client(stack: Any) -> SchemaRegistryClient:
    settings = stack.settings
    return registry_client(login_from_secret(read_secret(settings, settings.registry_secret_id, RegistrySecret)))


def row(client: SchemaRegistryClient, format: Format, value: bytes) -> Any:
    decoder = converter_for(ConverterConfig(format), lambda schema_id: registered_schema(client, schema_id))
    decoded = decoder.decode(pa.array([value], pa.binary()))
    assert decoded.bad == ()
    assert decoded.schema_ids.to_pylist() == [int.from_bytes(value[1:5], "big")]
    return json.loads(decoded.content[0].as_py())


def context(name: str) -> SerializationContext:
    return SerializationContext(f"{name}-{RUN}", MessageField.VALUE)


def test_json_with_a_schema_of_another_subject(client: SchemaRegistryClient) -> None:
    address = DRAFT | {"type": "object", "properties": {"city": {"type": "string"}}}
    client.register_schema(f"address-{RUN}", Schema(json.dumps(address), "JSON"))
    order = DRAFT | {
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "note": {"type": "string"}, "address": {"$ref": "address.json"}},
        "required": ["id"],
    }
    reference = SchemaReference("address.json", f"address-{RUN}", 1)
    serialize = JSONSerializer(Schema(json.dumps(order), "JSON", [reference]), client)
    value = serialize({"id": 1, "address": {"city": "Bern"}, "more": 0.5}, context("json"))
    assert row(client, Format.JSON_SCHEMA, value) == {"id": 1, "note": None, "address": {"city": "Bern"}, "more": 0.5}


def test_protobuf_with_imports_and_a_nested_message(client: SchemaRegistryClient) -> None:
    text = """syntax = "proto3"; package test;
        import "google/protobuf/timestamp.proto"; import "google/type/date.proto";
        message First { int32 a = 1; }
        message Order {
            message Line { google.protobuf.Timestamp at = 1; google.type.Date day = 2; string sku = 3; }
        }"""
    line = root_file(RegisteredSchema("PROTOBUF", text)).message_types_by_name["Order"].nested_types[0]
    line_class = GetMessageClass(line)
    serialize = ProtobufSerializer(line_class, client)
    value = serialize(line_class(at={"seconds": 5}, day={"year": 2025, "month": 1, "day": 2}), context("protobuf"))
    assert row(client, Format.PROTOBUF, value) == {"at": 5000, "day": "2025-01-02T00:00:00.000Z", "sku": ""}


def test_protobuf_of_a_generated_class_with_unions(client: SchemaRegistryClient) -> None:
    value = ProtobufSerializer(PhoneNumber, client)(PhoneNumber(e164_number="+41", extension="7"), context("phone"))
    assert row(client, Format.PROTOBUF, value) == {
        "kind_0": {"e164_number": "+41", "short_code": None},
        "extension": "7",
    }


def test_protobuf_registered_as_text(client: SchemaRegistryClient) -> None:
    text = 'syntax = "proto3"; import "confluent/type/decimal.proto"; message M { confluent.type.Decimal d = 1; }'
    schema_id = client.register_schema(f"text-{RUN}-value", Schema(text, "PROTOBUF"))
    value = b"\0" + schema_id.to_bytes(4, "big") + b"\0" + b"\x0a\x05\x0a\x01\x05\x18\x02"
    assert row(client, Format.PROTOBUF, value) == {"d": 0.05}
