"""Schemas and values in the JSON of Connect's JsonConverter, to Connect's data model.

Source: org.apache.kafka.connect.json.JsonConverter and JsonSchema of Kafka 4.1. Stricter than those with values that
are not what their schema says, which they cut to size or turn into 0 unseen. Not for: the envelope (`envelope`).
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any, NoReturn, TypeAlias

from spark_jobs.sink.decode.base.contract import MalformedError
from spark_jobs.sink.decode.base.scalars import decimal_of
from spark_jobs.sink.decode.connect.schema import DATE, DECIMAL, MAX_SCALE, TIME, Schema, Type
from spark_jobs.sink.values.bad_records import INVALID_SCHEMA, SCHEMA_MISMATCH

Read: TypeAlias = Callable[[Any], Any]

_TYPES = {each.value: each for each in Type if each not in (Type.FLOAT32, Type.FLOAT64)}
_TYPES |= {"float": Type.FLOAT32, "double": Type.FLOAT64}
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_GREATEST = {Type.FLOAT32: 3.4028235677973366e38, Type.FLOAT64: math.inf}  # from here on a number is infinite
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def connect_schema(node: Any, path: str = "schema") -> Schema:
    """The schema that a JSON object describes. Raises MalformedError (`invalid_schema`) with the path to the fault."""
    if not isinstance(node, dict) or not isinstance(node.get("type"), str):
        _invalid(path, "has no type")
    found = _TYPES.get(node["type"])
    if found is None:
        _invalid(path, f"has the unknown type {node['type'][:80]!r}")
    name = node.get("name")
    schema = Schema(
        type=found,
        name=name if isinstance(name, str) else None,
        optional=node.get("optional") is True,
        parameters=_parameters(node.get("parameters"), path),
        fields=_fields(node.get("fields"), path) if found is Type.STRUCT else (),
        key=connect_schema(node.get("keys"), f"{path}.keys") if found is Type.MAP else None,
        value=_value_schema(node, found, path),
    )
    if "default" not in node:
        return schema
    try:
        return replace(schema, default=reader(schema, f"{path}.default")(node["default"]))
    except MalformedError as error:
        raise MalformedError(INVALID_SCHEMA, error.detail) from None


def reader(schema: Schema | None, path: str) -> Read:
    """The function that takes a parsed JSON value (numbers: int, float or Decimal) to a value of `schema`.

    It raises MalformedError (`schema_mismatch`) with the path to what does not fit. A null stays one, though the schema
    has a default: `connect` writes that, and counts its text.
    """
    if schema is None:
        return lambda value: value
    read = _present(schema, path)

    def read_or_null(value: Any) -> Any:
        if value is not None:
            return read(value)
        if schema.default is None and not schema.optional:
            _mismatch(path, "is null, and its schema requires a value")
        return None

    return read_or_null


def has_decimals(schema: Schema) -> bool:
    """Whether values hold decimals, which may be numbers of any length."""
    children = [child for _, child in schema.fields] + [child for child in (schema.key, schema.value) if child]
    return schema.name == DECIMAL or any(map(has_decimals, children))


def _parameters(node: Any, path: str) -> dict[str, str]:
    found = node if isinstance(node, dict) else {}
    if not all(isinstance(value, str) for value in found.values()):
        _invalid(path, "has parameters that are no strings")
    return found


def _fields(node: Any, path: str) -> tuple[tuple[str, Schema], ...]:
    if not isinstance(node, list):
        _invalid(path, "is a struct without a list of fields")
    found: dict[str, Schema] = {}
    for at, each in enumerate(node):
        name = each.get("field") if isinstance(each, dict) else None
        if not isinstance(name, str) or not name or name in found:
            _invalid(f"{path}.fields[{at}]", "has no name of its own (field)")
        found[name] = connect_schema(each, f"{path}.{name}")
    return tuple(found.items())


def _value_schema(node: dict[str, Any], found: Type, path: str) -> Schema | None:
    child = {Type.ARRAY: "items", Type.MAP: "values"}.get(found)
    return connect_schema(node.get(child), f"{path}.{child}") if child else None


def _present(schema: Schema, path: str) -> Read:
    match schema.type:
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return _integer(schema, path)
        case Type.FLOAT32 | Type.FLOAT64:
            return _float(schema.type, path)
        case Type.BYTES:
            return _decimal(schema, path) if schema.name == DECIMAL else _bytes(path)
        case Type.ARRAY:
            return _array(schema, path)
        case Type.MAP:
            return _map(schema, path)
        case Type.STRUCT:
            return _struct(schema, path)
    return _of_class(bool if schema.type is Type.BOOLEAN else str, schema.type, path)


def _of_class(wanted: type, name: str, path: str) -> Read:
    def read(value: Any) -> Any:
        if type(value) is not wanted:
            _not_a(path, name, value)
        return value

    return read


def _integer(schema: Schema, path: str) -> Read:
    limit = 1 << _BITS[schema.type] - 1
    exactly = schema.name in (DATE, TIME)

    def read(value: Any) -> Any:
        if type(value) is not int:
            # A float may have lost digits. The range comes first: of a number with a long exponent no int is made.
            if exactly or type(value) is not Decimal or not -limit <= value < limit or value != int(value):
                _not_a(path, schema.type, value)
            value = int(value)
        if not -limit <= value < limit:
            _not_a(path, schema.type, value)
        return value

    return read


def _float(kind: Type, path: str) -> Read:
    greatest = _GREATEST[kind]

    def read(value: Any) -> float:
        if type(value) is float and abs(value) < greatest:
            return value
        if isinstance(value, str) and value in _NOT_FINITE:
            return _NOT_FINITE[value]
        if type(value) not in (int, float, Decimal):
            _not_a(path, kind, value)
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if abs(number) >= greatest:
            _not_a(path, kind, value)
        return number

    return read


def _bytes(path: str) -> Read:
    def read(value: Any) -> bytes:
        try:
            return binascii.a2b_base64(value.encode("ascii"), strict_mode=True)
        except (AttributeError, ValueError):
            _not_a(path, "bytes (base64)", value)

    return read


def _decimal(schema: Schema, path: str) -> Read:
    read_bytes, scale = _bytes(path), schema.parameters.get("scale", "")

    def read(value: Any) -> Decimal:
        if type(value) in (int, Decimal):
            return Decimal(value)
        unscaled = read_bytes(value)
        if not unscaled:
            _not_a(path, "decimal", value)
        try:
            return decimal_of(unscaled, _scale(scale, path))
        except ValueError as error:
            _mismatch(path, f"is {error}")

    return read


def _scale(text: str, path: str) -> int:
    if not text.removeprefix("-").isdecimal() or len(text) > 8 or abs(int(text)) > MAX_SCALE:
        _invalid(path, f"is a Decimal of scale {text[:20]!r}")
    return int(text)


def _array(schema: Schema, path: str) -> Read:
    item = reader(schema.value, f"{path}[]")

    def read(value: Any) -> list[Any]:
        if type(value) is not list:
            _not_a(path, "array", value)
        return list(map(item, value))

    return read


def _map(schema: Schema, path: str) -> Read:
    key, item = reader(schema.key, f"{path} (key)"), reader(schema.value, f"{path}{{}}")

    def read_object(value: Any) -> Any:
        if type(value) is not dict:
            _not_a(path, "object of a map", value)
        return {name: item(each) for name, each in value.items()}

    def read_pairs(value: Any) -> Any:
        if type(value) is not list or not all(type(each) is list and len(each) == 2 for each in value):
            _not_a(path, "array of [key, value] of a map", value)
        return [(key(name), item(each)) for name, each in value]

    return read_object if schema.key is not None and schema.key.type is Type.STRING else read_pairs


def _struct(schema: Schema, path: str) -> Read:
    fields = [(name, reader(child, f"{path}.{name}")) for name, child in schema.fields]

    def read(value: Any) -> Any:
        if type(value) is not dict:
            _not_a(path, "struct", value)
        return {name: item(value.get(name)) for name, item in fields}

    return read


def _invalid(path: str, what: str) -> NoReturn:
    raise MalformedError(INVALID_SCHEMA, f"{path} {what}")


def _mismatch(path: str, what: str) -> NoReturn:
    raise MalformedError(SCHEMA_MISMATCH, f"{path} {what}")


def _not_a(path: str, wanted: str, value: Any) -> NoReturn:
    found = {dict: "an object", list: "an array", bool: "a boolean"}.get(type(value)) or str(value)[:40]
    _mismatch(path, f"is no {wanted}: {found}")
