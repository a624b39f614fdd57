"""Avro schemas of messages, and how they evolve: so that a reader of the newest one reads all that is in the topic.

A column that is NOT NULL from the beginning is a required field. A column that comes later may be null, with null as
its default, also where Snowflake says NOT NULL: the messages before it have no value. A column that goes leaves the
schema. A type that changes follows Avro's promotions (int to long); anything else the registry refuses, and its reasons
are the error. Source: https://avro.apache.org/docs/1.12.0/specification/#schema-resolution.
"""

from __future__ import annotations

from typing import Any

from spark_jobs.export.messages.schema import Field, Record, avro_names
from spark_jobs.export.messages.types import Form, Scalar

_LOGICAL: dict[Form, dict[str, Any]] = {
    Form.UUID: {"type": "string", "logicalType": "uuid"},
    Form.DATE: {"type": "int", "logicalType": "date"},
    Form.TIME_MILLIS: {"type": "int", "logicalType": "time-millis"},
    **{
        form: {"type": "long", "logicalType": form.value}
        for form in Form
        if form is Form.TIME_MICROS or "timestamp" in form.value
    },
}


def avro_schema(record: Record) -> dict[str, Any]:
    """The schema of a record as parsed JSON; records inside it are defined where they are first used."""
    return _record(record, set())


def evolved(schema: dict[str, Any], latest: Any) -> dict[str, Any]:
    """`schema` so that it may follow `latest`: fields that are new there may be null. Both as parsed JSON."""
    before = {name: _by_name(each) for name, each in _records(latest).items()}
    for name, record in _records(schema).items():
        known = before.get(name)
        for field in record["fields"] if known is not None else ():
            old = known.get(field["name"]) if known else None
            if not _nullable(field["type"]) and (old is None or _nullable(old["type"])):
                field["type"], field["default"] = ["null", field["type"]], None
    return schema


def _record(record: Record, defined: set[str]) -> dict[str, Any]:
    defined.add(record.full_name)
    names = avro_names(field.name for field in record.fields)
    fields = [_field(field, name, defined) for field, name in zip(record.fields, names, strict=True)]
    return {"type": "record", "name": record.name, "namespace": record.namespace, "fields": fields}


def _field(field: Field, name: str, defined: set[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "type": _type(field.type, defined)}
    if field.nullable:
        found |= {"type": ["null", found["type"]], "default": None}
    if field.doc:
        found["doc"] = field.doc
    if name != field.name:
        found["column"] = field.name
    return found


def _type(type_: Scalar | Record, defined: set[str]) -> Any:
    if isinstance(type_, Record):
        return type_.full_name if type_.full_name in defined else _record(type_, defined)
    if type_.form is Form.DECIMAL:
        return {"type": "bytes", "logicalType": "decimal", "precision": type_.precision, "scale": type_.scale}
    if type_.form is Form.JSON:
        return "string"
    return _LOGICAL.get(type_.form, type_.form.value)


def _records(schema: Any) -> dict[str, dict[str, Any]]:
    """All records of a schema by their full names."""
    found: dict[str, dict[str, Any]] = {}
    if isinstance(schema, list):
        for branch in schema:
            found |= _records(branch)
    elif isinstance(schema, dict) and schema.get("type") == "record":
        found[f"{schema.get('namespace', '')}.{schema['name']}"] = schema
        for field in schema["fields"]:
            found |= _records(field["type"])
    return found


def _by_name(record: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {field["name"]: field for field in record["fields"]}


def _nullable(type_: Any) -> bool:
    return isinstance(type_, list) and "null" in type_
