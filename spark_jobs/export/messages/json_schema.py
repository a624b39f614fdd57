"""JSON Schemas of messages, and Connect's schemas of JsonConverter's envelope.

JSON Schema, draft 7, says about values what Confluent's JsonSchemaConverter does (`connect.index`, null as `oneOf`);
records are closed, so that the registry takes a new optional property as compatible: the rules are those of
https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/serdes-json.html. A property that
goes stays known, as an optional one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_jobs.export.messages.schema import Field, Record
from spark_jobs.export.messages.types import Form, Scalar

_NUMBER = {"type": "number"}
_TEXT = {"type": "string"}
_TYPES: dict[Form, dict[str, Any]] = {
    Form.INT: {"type": "integer", "connect.type": "int32"},
    Form.LONG: {"type": "integer", "connect.type": "int64"},
    Form.DECIMAL: _NUMBER,
    Form.FLOAT: {"oneOf": [_NUMBER, {"type": "string", "enum": ["NaN", "inf", "-inf"]}]},
    Form.DOUBLE: {"oneOf": [_NUMBER, {"type": "string", "enum": ["NaN", "inf", "-inf"]}]},
    Form.BOOLEAN: {"type": "boolean"},
    Form.BYTES: {"type": "string", "contentEncoding": "base64"},
    Form.UUID: {"type": "string", "format": "uuid"},
    Form.JSON: {},
    Form.DATE: {"type": "string", "format": "date"},
}
_CONNECT: dict[Form, dict[str, Any]] = {
    Form.INT: {"type": "int32"},
    Form.LONG: {"type": "int64"},
    Form.FLOAT: {"type": "float"},
    Form.DOUBLE: {"type": "double"},
    Form.BOOLEAN: {"type": "boolean"},
    Form.BYTES: {"type": "bytes"},
}


def json_schema(record: Record, latest: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The schema of a record; `latest`: the one that it may have to follow, as parsed JSON."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_object(record, latest)}


def connect_schema(record: Record, name: str | None = None) -> dict[str, Any]:
    """The schema of a record as JsonConverter writes it: what Connect has no exact type for is a string."""
    fields = [_connect_field(field) for field in record.fields]
    return {"type": "struct", "fields": fields, "optional": False, "name": name or record.full_name}


def _object(record: Record, latest: Mapping[str, Any] | None) -> dict[str, Any]:
    before = dict((latest or {}).get("properties", {}))
    required_before = (latest or {}).get("required", [])
    properties, required = {}, []
    for index, field in enumerate(record.fields):
        old = _without_null(before.get(field.name))
        inner = _object(field.type, old) if isinstance(field.type, Record) else _scalar(field.type)
        optional = field.nullable or (latest is not None and field.name not in required_before)
        properties[field.name] = _property(inner, index, field.doc, optional=optional)
        if not optional:
            required.append(field.name)
    gone = {name: schema for name, schema in before.items() if name not in properties}
    found: dict[str, Any] = {"title": record.full_name, "type": "object", "properties": properties | gone}
    return found | ({"required": required} if required else {}) | {"additionalProperties": False}


def _property(schema: dict[str, Any], index: int, doc: str, *, optional: bool) -> dict[str, Any]:
    beside: dict[str, Any] = {"connect.index": index} | ({"description": doc} if doc else {})
    if not optional or not schema:
        return {**schema, **beside}
    branches = schema["oneOf"] if set(schema) == {"oneOf"} else [schema]
    return {"oneOf": [{"type": "null"}, *branches], **beside}


def _without_null(schema: Any) -> Mapping[str, Any] | None:
    """What an optional record was."""
    if isinstance(schema, dict) and "oneOf" in schema:
        return next((each for each in schema["oneOf"] if each.get("type") == "object"), None)
    return schema if isinstance(schema, dict) else None


def _scalar(scalar: Scalar) -> dict[str, Any]:
    return dict(_TYPES.get(scalar.form, _TEXT))


def _connect_field(field: Field) -> dict[str, Any]:
    if isinstance(field.type, Record):
        found = connect_schema(field.type)
    elif field.type.form is Form.DECIMAL:
        found = {
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "version": 1,
            "parameters": {"scale": str(field.type.scale), "connect.decimal.precision": str(field.type.precision)},
        }
    else:
        found = dict(_CONNECT.get(field.type.form, {"type": "string"}))
    return {**found, "optional": field.nullable, "field": field.name} | ({"doc": field.doc} if field.doc else {})
