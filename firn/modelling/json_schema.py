"""A JSON Schema as a neutral description of what a sink writes for it.

Rules: io.confluent.connect.json.JsonSchemaData (schema-registry 7), as the sink follows them: a sum of several types is
an object with a member for each, `title` names Connect's logical types, formats are not looked at. So a text with a
`format` stays text, because nothing has checked it (an override makes it a time). Not for validating.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from firn.modelling.description import VARIANT, Array, Described, Field, Kind, Map, Record, Scalar, Type
from firn.registry.json_references import opened
from firn.registry.schemas import RegisteredSchema

ONE_OF_FIELD = "io.confluent.connect.json.OneOf.field."
_SUMS = ("oneOf", "anyOf")
_TELLING = {
    "object": {"properties", "required", "additionalProperties", "minProperties", "maxProperties"},
    "array": {"items", "minItems", "maxItems", "uniqueItems"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "string": {"minLength", "maxLength", "pattern"},
}
_LOGICAL = {
    ("int32", "org.apache.kafka.connect.data.Date"): Scalar(Kind.DATE),
    ("int32", "org.apache.kafka.connect.data.Time"): Scalar(Kind.TIME),
    ("int64", "org.apache.kafka.connect.data.Timestamp"): Scalar(Kind.TIMESTAMP_MILLIS),
}
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_MAX_SCALE = 37
_MAX_DEPTH = 64


def describe_json_schema(schema: RegisteredSchema) -> Described:
    """What a sink writes for values of this schema. Raises ValueError for what is no JSON Schema."""
    contents, resolver = opened(schema, json.loads)
    return Described(*_Reader().described(contents, resolver))


class _Reader:
    """Walks one schema. A schema inside itself has no description: a VARIANT."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._known: dict[int, tuple[Type, bool]] = {}

    def described(self, node: Any, resolver: Any) -> tuple[Type, bool]:
        """The type, and whether it may be null."""
        if not isinstance(node, dict):
            return VARIANT, True
        if id(node) in self._open or len(self._open) > _MAX_DEPTH:
            return VARIANT, True
        if id(node) not in self._known:
            self._open.add(id(node))
            self._known[id(node)] = self._new(node, resolver)
            self._open.remove(id(node))
        return self._known[id(node)]

    def _new(self, node: Mapping[str, Any], resolver: Any) -> tuple[Type, bool]:
        if "$ref" in node:
            found = resolver.lookup(node["$ref"])
            return self.described(found.contents, found.resolver)
        kind = node.get("type")
        if isinstance(kind, list):
            return _sum([(each == "null", self._typed(each, node, resolver)) for each in kind])
        if kind in (None, "object") and "connect.type" not in node and (found := self._record(node, resolver)):
            return found, False
        branches = next((node[each] for each in _SUMS if each in node), None)
        if branches is not None:
            return _sum([self._branch(each, resolver) for each in sorted(branches, key=_is_simple)])
        if kind is None and "allOf" in node:
            return self.described(_telling(node["allOf"]), resolver)
        kind = kind or _told(node)
        return self._typed(kind, node, resolver), kind in (None, "null")

    def _branch(self, node: Any, resolver: Any) -> tuple[bool, Type]:
        return _is_null(node), self.described(node, resolver)[0]

    def _record(self, node: Mapping[str, Any], resolver: Any) -> Record | None:
        fields = tuple(_properties(self, node, resolver, set()))
        return Record(fields, _doc(node)) if fields else None

    def _typed(self, kind: Any, node: Mapping[str, Any], resolver: Any) -> Type:
        named = str(node.get("connect.type"))
        match kind:
            case "boolean":
                return Scalar(Kind.BOOLEAN)
            case "integer" | "number":
                return _number(kind, named, node)
            case "string":
                return _string(named, node)
            case "array":
                return self._array(node, resolver)
            case "object" if named == "map":
                return Map(*self.described(node.get("additionalProperties", True), resolver))
            case "object":
                return self._record(node, resolver) or VARIANT
        return VARIANT

    def _array(self, node: Mapping[str, Any], resolver: Any) -> Type:
        items = node.get("items", True)
        if isinstance(items, list) or "prefixItems" in node:
            return Array(VARIANT, nullable=True)  # each item has a type of its own
        if node.get("connect.type") == "map" and isinstance(items, dict):
            properties = items.get("properties", {})
            key, _ = self.described(properties.get("key", True), resolver)
            values, nullable = self.described(properties.get("value", True), resolver)
            text = isinstance(key, Scalar) and key.kind is Kind.TEXT
            return Map(values, nullable, pairs=not text, keys=key)
        return Array(*self.described(items, resolver))


def _properties(reader: _Reader, node: Mapping[str, Any], resolver: Any, seen: set[int]) -> Iterator[Field]:
    """The properties of an object and of all that it is `allOf`; of one name the last counts."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if "$ref" in node:
        found = resolver.lookup(node["$ref"])
        yield from _properties(reader, found.contents, found.resolver, seen)
        return
    found_fields: dict[str, Field] = {}
    for name, child in node.get("properties", {}).items():
        type, nullable = reader.described(child, resolver)
        optional = name not in node.get("required", [])
        doc = _doc(child) or (type.doc if isinstance(type, Record) else "")
        found_fields[name] = Field(name, type, nullable or optional, doc)
    for part in node.get("allOf", []):
        if isinstance(part, dict):
            found_fields |= {each.name: each for each in _properties(reader, part, resolver, seen)}
    yield from found_fields.values()


def _sum(branches: list[tuple[bool, Type]]) -> tuple[Type, bool]:
    """A type or null is that type; other sums are an object with a numbered member for each type."""
    others = [type for null, type in branches if not null]
    nullable = len(others) < len(branches)
    if nullable and len(others) == 1 and len(branches) == 2:
        return others[0], True
    return Record(tuple(Field(f"{ONE_OF_FIELD}{at}", each, nullable=True) for at, each in enumerate(others))), nullable


def _number(kind: str, named: str, node: Mapping[str, Any]) -> Scalar:
    if named == "bytes":
        return _decimal(node)
    connect = named if named.startswith(("int", "float")) else {"integer": "int64", "number": "float64"}[kind]
    if found := _LOGICAL.get((connect, str(node.get("title")))):
        return found
    return Scalar(Kind.INTEGER if connect.startswith("int") else Kind.FLOAT)


def _decimal(node: Mapping[str, Any]) -> Scalar:
    """The digits are those that the writer gave it; the schema tells their scale at most."""
    scale = str(node.get("connect.parameters", {}).get("scale", ""))
    if node.get("title") == _DECIMAL and scale.isdecimal() and int(scale) <= _MAX_SCALE:
        return Scalar(Kind.DECIMAL, 38, int(scale), native=False)
    return Scalar(Kind.TEXT)


def _string(named: str, node: Mapping[str, Any]) -> Scalar:
    if named == "bytes":
        return _decimal(node) if node.get("title") == _DECIMAL else Scalar(Kind.BINARY)
    values = node.get("enum", [node["const"]] if "const" in node else [])
    texts = all(isinstance(value, str) for value in values)
    return Scalar(Kind.TEXT, symbols=tuple(values) if texts else ())


def _doc(node: Any) -> str:
    text = node.get("description") if isinstance(node, dict) else None
    return " ".join(text.split()) if isinstance(text, str) else ""


def _is_null(node: Any) -> bool:
    return isinstance(node, dict) and node.get("type") == "null"


def _is_simple(node: Any) -> bool:
    """What stands behind the combined schemas of a sum: everit sorts those first, and members are numbered so."""
    combined = isinstance(node, dict) and (
        any(each in node for each in ("oneOf", "anyOf", "allOf"))
        or isinstance(node.get("type"), list)
        or ("type" in node and ("enum" in node or "const" in node))
    )
    return not combined


def _telling(parts: list[Any]) -> Any:
    """The part of an `allOf` that tells the type: a sum before all others."""
    told = [part for part in parts if isinstance(part, dict) and ("type" in part or "$ref" in part or _told(part))]
    sums = [part for part in parts if isinstance(part, dict) and any(each in part for each in _SUMS)]
    return next(iter(sums + told), True)


def _told(node: Mapping[str, Any]) -> str | None:
    return next((kind for kind, keywords in _TELLING.items() if keywords & node.keys()), None)
