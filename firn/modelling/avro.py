"""An Avro schema as a neutral description of what a sink writes for it.

Types: the Avro 1.12 specification; their JSON: Confluent's AvroData and the official connector, as the sink follows
them (docs/compatibility.md). Logical types that AvroData leaves plain (microseconds, local times) have a kind here,
because SQL can convert them. Not for decoding.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from firn.modelling.description import VARIANT, Array, Described, Field, Kind, Map, Record, Scalar, Type
from firn.registry.avro_schema import full_name

_PRIMITIVES = {
    "boolean": Scalar(Kind.BOOLEAN),
    "int": Scalar(Kind.INTEGER),
    "long": Scalar(Kind.INTEGER),
    "float": Scalar(Kind.FLOAT),
    "double": Scalar(Kind.FLOAT),
    "bytes": Scalar(Kind.BINARY),
    "string": Scalar(Kind.TEXT),
    "null": VARIANT,
}
_LOGICAL = {
    ("int", "date"): Scalar(Kind.DATE),
    ("int", "time-millis"): Scalar(Kind.TIME),
    ("long", "time-micros"): Scalar(Kind.TIME_MICROS, native=False),
    ("long", "timestamp-millis"): Scalar(Kind.TIMESTAMP_MILLIS),
    ("long", "timestamp-micros"): Scalar(Kind.TIMESTAMP_MICROS, native=False),
    ("long", "timestamp-nanos"): Scalar(Kind.TIMESTAMP_NANOS, native=False),
    ("long", "local-timestamp-millis"): Scalar(Kind.TIMESTAMP_MILLIS, native=False),
    ("long", "local-timestamp-micros"): Scalar(Kind.TIMESTAMP_MICROS, native=False),
    ("long", "local-timestamp-nanos"): Scalar(Kind.TIMESTAMP_NANOS, native=False),
}
_CONNECT = {
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
    "org.apache.kafka.connect.data.Decimal": "decimal",
}
_MAP_ENTRY = "io.confluent.connect.avro.MapEntry"
_MAX_DIGITS = 38


def describe_avro(text: str) -> Described:
    """What a sink writes for values of this schema (JSON, references resolved). The schema must be valid Avro."""
    return Described(*_Reader().described(json.loads(text), ""))


class _Reader:
    """Walks one schema, each named type once. A type inside itself has no description: a VARIANT.

    _named: the definitions so far, by full name; _known: what they are, None while one is being read.
    """

    def __init__(self) -> None:
        self._named: dict[str, Mapping[str, Any]] = {}
        self._known: dict[str, Type | None] = {}

    def described(self, node: Any, namespace: str) -> tuple[Type, bool]:
        """The type, and whether it may be null."""
        if isinstance(node, list):
            return self._union(node, namespace)
        if isinstance(node, str):
            return self._reference(node, namespace)
        kind = node["type"]
        if not isinstance(kind, str):
            return self.described(kind, namespace)
        if kind in _PRIMITIVES:
            return _scalar(kind, node), kind == "null"
        if kind == "array":
            return self._array(node, namespace), False
        if kind == "map":
            values, nullable = self.described(node["values"], namespace)
            return Map(values, nullable), False
        if kind in ("record", "error", "enum", "fixed"):
            return self._defined(node, namespace), False
        return self._reference(kind, namespace)

    def _reference(self, name: str, namespace: str) -> tuple[Type, bool]:
        if name in _PRIMITIVES:
            return _PRIMITIVES[name], name == "null"
        return self._known[self._full(name, namespace)] or VARIANT, False

    def _full(self, name: str, namespace: str) -> str:
        known = full_name(name, namespace)
        return known if known in self._named else name

    def _defined(self, node: Mapping[str, Any], namespace: str) -> Type:
        name = full_name(node["name"], node.get("namespace", namespace) or "")
        self._named[name], self._known[name] = node, None
        if node["type"] == "enum":
            type: Type = Scalar(Kind.TEXT, symbols=tuple(node["symbols"]))
        elif node["type"] == "fixed":
            type = _scalar("fixed", node)
        else:
            inside = name.rpartition(".")[0]
            fields = tuple(self._field(each, inside) for each in node["fields"])
            type = Record(fields, _text(node.get("doc")))
        self._known[name] = type
        return type

    def _field(self, node: Mapping[str, Any], namespace: str) -> Field:
        type, nullable = self.described(node["type"], namespace)
        doc = _text(node.get("doc")) or (type.doc if isinstance(type, Record) else "")
        return Field(node["name"], type, nullable, doc)

    def _array(self, node: Mapping[str, Any], namespace: str) -> Type:
        items, nullable = self.described(node["items"], namespace)
        of = node["items"]
        entry = _entry(self._named.get(self._full(of, namespace)) if isinstance(of, str) else of, items)
        if entry is None:
            return Array(items, nullable)
        text = isinstance(entry["key"].type, Scalar) and entry["key"].type.kind is Kind.TEXT
        return Map(entry["value"].type, entry["value"].nullable, pairs=not text, keys=entry["key"].type)

    def _union(self, branches: Sequence[Any], namespace: str) -> tuple[Type, bool]:
        """One type or null; of several types an object with a member for each, of which one is not null."""
        found = [self.described(branch, namespace)[0] for branch in branches]
        named = [(branch, type) for branch, type in zip(branches, found, strict=True) if not _is_null(branch)]
        nullable = len(named) < len(branches)
        if not named:
            return VARIANT, True
        if len(named) == 1:
            return named[0][1], nullable
        names = _branch_names([self._branch_name(branch, namespace) for branch, _ in named])
        members = (Field(name, type, nullable=True) for name, (_, type) in zip(names, named, strict=True))
        return Record(tuple(members)), nullable

    def _branch_name(self, branch: Any, namespace: str) -> str:
        """The full name of a named type, else the type's own word."""
        if isinstance(branch, str):
            return branch if branch in _PRIMITIVES else self._full(branch, namespace)
        if branch["type"] in ("record", "error", "enum", "fixed"):
            return full_name(branch["name"], branch.get("namespace", namespace) or "")
        return str(branch["type"])


def _branch_names(full: list[str]) -> list[str]:
    """Connect's names of a union's members: without namespace, unless two would be the same."""
    short = [name.rpartition(".")[2] for name in full]
    counts = Counter(short)
    return [name if counts[name] == 1 else whole for name, whole in zip(short, full, strict=True)]


def _entry(node: Any, items: Type) -> dict[str, Field] | None:
    """The members of a map's entry, where Connect wrote a map as an array because its keys are no plain strings."""
    if not isinstance(node, dict) or not isinstance(items, Record):
        return None
    full = full_name(str(node.get("name", "")), str(node.get("namespace") or ""))
    fields = {each.name: each for each in items.fields}
    marked = full == _MAP_ENTRY or node.get("connect.internal.type") == "MapEntry"
    return fields if marked and sorted(fields) == ["key", "value"] else None


def _scalar(kind: str, node: Mapping[str, Any]) -> Scalar:
    logical = str(node.get("logicalType") or _CONNECT.get(str(node.get("connect.name")), "")).lower()
    if kind in ("bytes", "fixed") and logical == "decimal":
        return _decimal(node)
    return _LOGICAL.get((kind, logical)) or _PRIMITIVES.get(kind) or _PRIMITIVES["bytes"]


def _decimal(node: Mapping[str, Any]) -> Scalar:
    """A NUMBER where it has room for all digits; text otherwise, as which the sink writes longer ones."""
    parameters = node.get("connect.parameters") or {}
    scale = int(node.get("scale", parameters.get("scale", 0)))
    precision = int(node.get("precision", parameters.get("connect.decimal.precision", _MAX_DIGITS)))
    if precision > _MAX_DIGITS or not 0 <= scale <= min(precision, 37):
        return Scalar(Kind.TEXT)
    return Scalar(Kind.DECIMAL, precision, scale)


def _is_null(branch: Any) -> bool:
    return branch == "null" or (isinstance(branch, dict) and branch.get("type") == "null")


def _text(doc: object) -> str:
    return " ".join(doc.split()) if isinstance(doc, str) else ""
