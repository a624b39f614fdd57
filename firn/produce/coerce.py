"""Values of a file as values of an Avro type: text as a person writes it, JSON, or what Parquet holds.

Not for reading files (`rows`). Built once per schema into plain functions. Rules: an empty CSV cell is null where the
type allows null, and otherwise text; time without a zone is UTC; epoch numbers are in the unit of the logical type;
bytes are base64; nested values in a CSV cell are JSON.
Types: https://avro.apache.org/docs/1.12.0/specification/#schema-declaration
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from firn.errors import ConfigError
from firn.produce.scalars import LOGICAL, PRIMITIVES, CoercionError, expected

Coercer = Callable[[Any], Any]
"""Gives the value fastavro writes for this type, or raises CoercionError."""

_EXACT: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "int": (int,),
    "long": (int,),
    "float": (float,),
    "double": (float,),
    "string": (str,),
    "enum": (str,),
    "bytes": (bytes,),
    "fixed": (bytes,),
    "record": (dict,),
    "map": (dict,),
    "array": (list,),
}


def record_coercer(schema: Any, *, text: bool) -> Coercer:
    """The coercer of a top-level record (fastavro's parsed form, where every name is full).

    `text` says that every value of the source is text (CSV). Raises ConfigError for any other kind of schema.
    """
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ConfigError(
            "The schema is not a record: a file's columns have no fields to go to.",
            where=str(schema.get("name", schema.get("type"))) if isinstance(schema, dict) else str(schema),
            next_step="Name a schema whose outermost type is a record.",
        )
    return _Builder(text).build(schema)


class _Builder:
    """Turns a schema into functions; knows the named types met so far, so that recursive types end."""

    def __init__(self, text: bool) -> None:
        self._text = text
        self._named: dict[str, Coercer] = {}

    def build(self, schema: Any) -> Coercer:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return PRIMITIVES.get(schema) or self._by_name(schema)
        kind = schema["type"]
        logical = LOGICAL.get((kind, schema.get("logicalType"))) if isinstance(kind, str) else None
        if logical:
            return logical(schema)
        if kind in ("record", "error", "enum", "fixed"):
            return self._declare(schema)
        if kind == "array":
            return _array(self.build(schema["items"]))
        if kind == "map":
            return _map(self.build(schema["values"]))
        return self.build(kind)

    def _by_name(self, name: str) -> Coercer:
        # Looked up when called: a recursive type is complete only later.
        return lambda value: self._named[name](value)

    def _declare(self, schema: dict[str, Any]) -> Coercer:
        if schema["type"] == "enum":
            coercer = _enum(schema)
        elif schema["type"] == "fixed":
            coercer = _fixed(schema)
        else:
            fields = {field["name"]: self.build(field["type"]) for field in schema["fields"]}
            coercer = _record(schema, fields)
        self._named[schema["name"]] = coercer
        return coercer

    def _union(self, branches: list[Any]) -> Coercer:
        nullable = "null" in branches
        others = [(branch, self.build(branch)) for branch in branches if branch != "null"]
        text = self._text

        def coerce(value: Any) -> Any:
            if value is None or (text and value == ""):
                if nullable:
                    return None
                if value is None:
                    raise expected(" or ".join(map(_kind, branches)), value)
            if len(others) == 1:
                return others[0][1](value)
            return _first_fit(value, others, text)

        return coerce


def _first_fit(value: Any, branches: list[tuple[Any, Coercer]], text: bool) -> Any:
    """The first branch that takes the value; where values have types of their own, one of the same type goes first."""
    ranked = branches if text else sorted(branches, key=lambda b: type(value) not in _EXACT.get(_kind(b[0]), ()))
    for branch, coercer in ranked:
        try:
            coerced = coercer(value)
        except CoercionError:
            continue
        return (_branch_name(branch), coerced)
    raise expected(" or ".join(_kind(branch) for branch, _ in branches), value)


def _branch_name(branch: Any) -> str:
    """How fastavro calls a branch of a union in its (name, value) notation."""
    return str(branch.get("name", branch["type"])) if isinstance(branch, dict) else str(branch)


def _kind(branch: Any) -> str:
    return branch["type"] if isinstance(branch, dict) else str(branch)


def _json(value: Any, kind: str) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        raise expected(f"{kind} as JSON", value) from None


def _array(item: Coercer) -> Coercer:
    def coerce(value: Any) -> list[Any]:
        values = _json(value, "array")
        if not isinstance(values, list | tuple):
            raise expected("array", value)
        return [_inside(str(index), item, element) for index, element in enumerate(values)]

    return coerce


def _map(values: Coercer) -> Coercer:
    def coerce(value: Any) -> dict[str, Any]:
        entries = _json(value, "map")
        if isinstance(entries, list):  # Parquet gives pairs
            entries = dict(entries)
        if not isinstance(entries, Mapping):
            raise expected("map", value)
        return {str(key): _inside(str(key), values, element) for key, element in entries.items()}

    return coerce


def _enum(schema: dict[str, Any]) -> Coercer:
    symbols = frozenset(schema["symbols"])

    def coerce(value: Any) -> str:
        if isinstance(value, str) and value in symbols:
            return value
        raise expected(f"one of {', '.join(schema['symbols'])}", value)

    return coerce


def _fixed(schema: dict[str, Any]) -> Coercer:
    def coerce(value: Any) -> bytes:
        content: bytes = PRIMITIVES["bytes"](value)
        if len(content) != schema["size"]:
            raise expected(f"{schema['size']} bytes in base64", value)
        return content

    return coerce


def _record(schema: dict[str, Any], fields: dict[str, Coercer]) -> Coercer:
    absent = {field["name"]: _absent_value(field) for field in schema["fields"]}

    def coerce(value: Any) -> dict[str, Any]:
        row = _json(value, "record")
        if not isinstance(row, Mapping):
            raise expected(f"record {schema['name']}", value)
        if not row.keys() <= fields.keys():
            raise _unknown_field(next(name for name in row if name not in fields), list(fields))
        result = {}
        for name, coercer in fields.items():
            if name in row:
                result[name] = _inside(name, coercer, row[name])
            elif absent[name] is _REQUIRED:
                raise CoercionError(name, "a value: the field is absent and has no default", "")
            else:
                result[name] = absent[name]
        return result

    return coerce


_REQUIRED = object()


def _absent_value(field: dict[str, Any]) -> Any:
    """What stands for an absent field: its default, null where that is allowed, or `_REQUIRED`."""
    branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
    if "default" not in field:
        return None if "null" in branches else _REQUIRED
    default = field["default"]
    # Avro writes the default of bytes as text whose code points are the bytes.
    return default.encode("latin-1") if _kind(branches[0]) in ("bytes", "fixed") else default


def required_fields(schema: dict[str, Any]) -> list[str]:
    """Fields of a record that a row must hold: no default, not nullable."""
    return [field["name"] for field in schema["fields"] if _absent_value(field) is _REQUIRED]


def nearest(name: str, known: list[str]) -> str:
    """`, did you mean x?` or nothing."""
    near = difflib.get_close_matches(name.lower(), {k.lower(): k for k in known}, n=1)
    by_lower = {k.lower(): k for k in known}
    return f"; did you mean {by_lower[near[0]]}?" if near else f"; the fields are {', '.join(known)}"


def _unknown_field(name: str, known: list[str]) -> CoercionError:
    return CoercionError(name, f"a field of the schema{nearest(name, known)}", "")


def _inside(name: str, coercer: Coercer, value: Any) -> Any:
    try:
        return coercer(value)
    except CoercionError as error:
        raise error.inside(name) from None
