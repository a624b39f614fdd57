"""A writer schema as a graph of nodes, the one form that both decoders are compiled from.

Source: the Avro 1.12 specification, "Schema Declaration" and "Names"; logical types as Confluent's AvroData reads them.
Every type is looked at once however often it is used: used twice at every level it would be met 2**levels times.
Not for schema evolution (a record is decoded with the schema it was written with), a field's `default`, which serves
it, or validating what the registry already accepted beyond what decoding needs.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from firn.registry.schemas import InvalidSchemaError

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
MAX_SCALE = 10_000
MAX_NESTING = 100  # schemas within each other in the text: bounded before Python's stack is, whoever calls

# The logical types that change the JSON, by the Avro type they stand on, with Connect's own names for them.
_LOGICAL = {
    ("int", "date"): "date",
    ("int", "org.apache.kafka.connect.data.Date"): "date",
    ("int", "time-millis"): "time-millis",
    ("int", "org.apache.kafka.connect.data.Time"): "time-millis",
    ("bytes", "decimal"): "decimal",
    ("fixed", "decimal"): "decimal",
}

_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
_PRECISION = "connect.decimal.precision"  # a parameter that Connect itself does not look at
_INTEGER = re.compile(r"[+-]?[0-9]{1,6}", re.ASCII)
_MAP_ENTRY = "io.confluent.connect.avro.MapEntry"


@dataclass(eq=False)
class _Type:
    """default: the parsed JSON of `connect.default`, a type's own default in Kafka Connect; None for none."""

    default: Any = field(default=None, kw_only=True)


@dataclass(eq=False)
class Scalar(_Type):
    """A primitive type, or bytes with a decimal in it; `logical` is empty where it does not change the JSON.

    precision: digits of a decimal; 0 where the schema does not tell. is_timestamp: a long that counts milliseconds
    since 1970.
    """

    kind: str
    logical: str = ""
    scale: int = 0
    precision: int = 0
    is_timestamp: bool = False


@dataclass(eq=False)
class Fixed(_Type):
    """`size` bytes; a decimal where `logical` says so, of `precision` digits (0 where the schema does not tell)."""

    fullname: str
    size: int
    logical: str = ""
    scale: int = 0
    precision: int = 0


@dataclass(eq=False)
class Enum(_Type):
    """One of `symbols`, by position."""

    fullname: str
    symbols: tuple[str, ...]


@dataclass(eq=False)
class Array(_Type):
    """Blocks of `items`."""

    items: Node


@dataclass(eq=False)
class Map(_Type):
    """Blocks of string keys and `values`."""

    values: Node


@dataclass(eq=False)
class Union(_Type):
    """A branch number and the value of that branch."""

    branches: tuple[Node, ...]


@dataclass(eq=False)
class Record(_Type):
    """Named fields in order; may lead back to itself. `map_entry`: an array of it is a map in Kafka Connect."""

    fullname: str
    fields: list[tuple[str, Node]] = field(default_factory=list)
    map_entry: bool = False


Node: TypeAlias = Scalar | Fixed | Enum | Array | Map | Union | Record


def parse_schema(text: str) -> Node:
    """The graph of the Avro schema in `text` (JSON, references resolved). Raises InvalidSchemaError."""
    try:
        return _Parser().node(json.loads(text), "")
    except InvalidSchemaError:
        raise
    except ValueError as error:  # a number of too many digits is one too
        raise InvalidSchemaError(f"not JSON: {error}") from error
    except RecursionError as error:
        raise InvalidSchemaError("nested too deeply") from error


def is_null(node: Node) -> bool:
    """Whether `node` is the null type."""
    return isinstance(node, Scalar) and node.kind == "null"


class _Parser:
    """Names seen so far, by full name."""

    def __init__(self) -> None:
        self._named: dict[str, Node] = {}
        self._nesting = 0

    def node(self, raw: Any, namespace: str) -> Node:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise InvalidSchemaError(f"nested more than {MAX_NESTING} levels deep")
        found = self._node(raw, namespace)
        self._nesting -= 1
        return found

    def _node(self, raw: Any, namespace: str) -> Node:
        if isinstance(raw, list):
            return self._union(raw, namespace)
        if isinstance(raw, str):
            return self._reference(raw, namespace)
        if not isinstance(raw, dict) or "type" not in raw:
            raise InvalidSchemaError(f"a schema is a name, a list or an object with a type, not {str(raw)[:80]}")
        kind, default = raw["type"], raw.get("connect.default")
        if not isinstance(kind, str):
            return self.node(kind, namespace)
        if kind in PRIMITIVES:
            return Scalar(kind, *_logical_of(kind, raw), is_timestamp=_is_timestamp(kind, raw), default=default)
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(kind, raw, namespace)
        if kind == "array":
            return Array(self.node(_get(raw, "items"), namespace), default=default)
        if kind == "map":
            return Map(self.node(_get(raw, "values"), namespace), default=default)
        return self._reference(kind, namespace)

    def _union(self, raw: list[Any], namespace: str) -> Union:
        branches = tuple(self.node(branch, namespace) for branch in raw)
        if not branches or any(isinstance(branch, Union) for branch in branches):
            raise InvalidSchemaError("a union has at least one branch and none that is a union")
        return Union(branches)

    def _reference(self, name: str, namespace: str) -> Node:
        if name in PRIMITIVES:
            return Scalar(name)
        found = self._named.get(_full(name, namespace)) or self._named.get(name)
        if found is None:
            raise InvalidSchemaError(f"the type {name!r} is not defined before it is used")
        return found

    def _define(self, kind: str, raw: dict[str, Any], namespace: str) -> Node:
        fullname = _full(_name(_get(raw, "name")), _name(raw.get("namespace", namespace) or ""))
        default = raw.get("connect.default")
        if fullname in self._named:
            raise InvalidSchemaError(f"the type {fullname!r} is defined twice")
        if kind == "enum":
            self._named[fullname] = Enum(fullname, tuple(map(_name, _list(raw, "symbols"))), default=default)
        elif kind == "fixed":
            self._named[fullname] = Fixed(fullname, _size(raw), *_logical_of("fixed", raw), default=default)
        else:
            # Known before its fields are read, so that a field may lead back to it.
            is_entry = fullname == _MAP_ENTRY or raw.get("connect.internal.type") == "MapEntry"
            self._named[fullname] = record = Record(fullname, map_entry=is_entry, default=default)
            inner = fullname.rpartition(".")[0]
            for each in _list(raw, "fields"):
                record.fields.append((_name(_get(each, "name")), self.node(_get(each, "type"), inner)))
        return self._named[fullname]


def _full(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def _get(raw: Any, key: str) -> Any:
    if not isinstance(raw, dict) or key not in raw:
        raise InvalidSchemaError(f"{key!r} is missing in {str(raw)[:80]}")
    return raw[key]


def _list(raw: dict[str, Any], key: str) -> list[Any]:
    found = _get(raw, key)
    if not isinstance(found, list):
        raise InvalidSchemaError(f"{key!r} is a list, not {str(found)[:80]}")
    return found


def _name(raw: Any) -> str:
    """A name or symbol; half a surrogate pair, which JSON can say, is no text."""
    if not isinstance(raw, str) or (not raw.isascii() and raw.encode("utf-8", "ignore").decode() != raw):
        raise InvalidSchemaError(f"a name is a text, not {str(raw)[:80]!r}")
    return raw


def _size(raw: dict[str, Any]) -> int:
    size = _get(raw, "size")
    if not isinstance(size, int) or size < 0:
        raise InvalidSchemaError(f"a fixed has a size of 0 or more, not {size!r}")
    return size


def _logical_of(kind: str, raw: dict[str, Any]) -> tuple[str, int, int]:
    """The logical type that matters for the JSON, scale and precision; one that is not valid is ignored, as Avro
    demands.
    """
    logical = _LOGICAL.get((kind, str(raw.get("logicalType", "")).lower()))
    parameters = raw.get("connect.parameters")
    parameters = parameters if isinstance(parameters, dict) else {}
    if logical is None and kind in ("bytes", "fixed") and raw.get("connect.name") == _DECIMAL:
        return _decimal(parameters.get("scale"), parameters.get(_PRECISION))
    logical = logical or _LOGICAL.get((kind, str(raw.get("connect.name", ""))), "")
    return _decimal(raw.get("scale", 0), raw.get("precision")) if logical == "decimal" else (logical, 0, 0)


def _is_timestamp(kind: str, raw: dict[str, Any]) -> bool:
    """Whether it is Connect's Timestamp; those of Avro's other units are plain longs to AvroData."""
    logical = str(raw.get("logicalType", "")).lower()
    return kind == "long" and (logical == "timestamp-millis" or raw.get("connect.name") == _TIMESTAMP)


def _decimal(scale: Any, precision: Any) -> tuple[str, int, int]:
    """A decimal of a scale as AvroData takes it: a number cut to an int, or the text of one in Connect's parameters."""
    scale, precision = _number(scale), _number(precision)
    if scale is None or not abs(scale) <= MAX_SCALE:
        return "", 0, 0
    return "decimal", int(scale), int(precision) if precision and 0 < precision <= MAX_SCALE else 0


def _number(raw: Any) -> int | float | None:
    if isinstance(raw, str) and _INTEGER.fullmatch(raw):
        return int(raw)
    return None if isinstance(raw, bool) or not isinstance(raw, int | float) else raw


class ValueBounds:
    """Knows the nodes of one graph. Ask for the whole first: what a record holds is then known where it is used."""

    def __init__(self) -> None:
        self._empty: dict[Record, bool] = {}
        self._depths: dict[Record, float] = {}

    def takes_none(self, node: Node) -> bool:
        """Whether a value takes no bytes at all; otherwise it takes at least one."""
        if isinstance(node, Record):
            if node not in self._empty:
                self._empty[node] = True
                self._empty[node] = all(self.takes_none(child) for _, child in node.fields)
            return self._empty[node]
        return is_null(node) or (isinstance(node, Fixed) and node.size == 0)

    def depth(self, node: Node) -> float:
        """Levels of records, arrays and maps that a value can have; infinite for a record within itself."""
        match node:
            case Record():
                if node not in self._depths:
                    self._depths[node] = math.inf
                    self._depths[node] = 1 + max([self.depth(child) for _, child in node.fields], default=0)
                return self._depths[node]
            case Array():
                return 1 + self.depth(node.items)
            case Map():
                return 1 + self.depth(node.values)
            case Union():
                return max([self.depth(branch) for branch in node.branches])
        return 0


def entry_of(node: Array) -> Record | None:
    """The record of key and value, where Connect wrote a map as an array because its keys are no plain strings."""
    entry = node.items
    if isinstance(entry, Record) and entry.map_entry and sorted(name for name, _ in entry.fields) == ["key", "value"]:
        return entry
    return None


def is_text(node: Node) -> bool:
    """Whether Connect's type of `node` is STRING, null allowed or not."""
    only = nullable(node) if isinstance(node, Union) and len(node.branches) == 2 else node
    return isinstance(only, Enum) or (isinstance(only, Scalar) and only.kind == "string")


def nullable(node: Union) -> Node | None:
    """The one branch of a union that is not null; None where there is not exactly one."""
    branches = [branch for branch in node.branches if not is_null(branch)]
    return branches[0] if len(branches) == 1 else None


def branch_names(branches: Iterable[Node]) -> list[str]:
    """Connect's field names for the branches of a wide union: the type, or a named type's name without namespace.

    Source: AvroData.unionMemberFieldName with enhanced.avro.schema.support off, its default. Two named types that
    differ in namespace only are an error there; here they keep their full names.
    """
    full = [getattr(node, "fullname", "") or _type_name(node) for node in branches]
    short = [name.rpartition(".")[2] for name in full]
    counts = Counter(short)
    return [name if counts[name] == 1 else whole for name, whole in zip(short, full, strict=True)]


def _type_name(node: Node) -> str:
    return node.kind if isinstance(node, Scalar) else type(node).__name__.lower()
