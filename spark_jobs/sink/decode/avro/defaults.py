"""What stands for a null of an Avro type: the type's `connect.default` as the decoders would print it, or null.

Source: AvroData.toConnectSchema and defaultValueFromAvro of Confluent's schema-registry, Struct.get of Kafka Connect.
A default that does not fit its type counts for nothing there and here. The `default` of a record's field does not
count either: AvroData drops it where the field may be null, so it serves the evolution of schemas alone.
Not for: reading values (`values`, `vector`), or a null at the top of a record, which is a tombstone.
"""

from __future__ import annotations

import struct
from typing import Any

from spark_jobs.sink.decode.avro.binary import decimal_text
from spark_jobs.sink.decode.avro.schema import (
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Record,
    Scalar,
    Union,
    entry_of,
    is_null,
    nullable,
)
from spark_jobs.sink.decode.base import scalars
from spark_jobs.sink.decode.base.contract import MalformedError
from spark_jobs.sink.decode.base.scalars import quoted

MAX_TEXT = 1 << 20  # defaults within defaults can double at every level
_BITS = {"int": 31, "long": 63}


class NullTexts:
    """The texts of nulls in values of one schema; all null unless `null_defaults`."""

    def __init__(self, time_zone: str, null_defaults: bool) -> None:
        self._zone, self._counts = time_zone, null_defaults
        self._texts: dict[Node, str] = {}
        self._open: set[Node] = set()

    def of(self, node: Node) -> str:
        """The JSON text of a null where a value would be of `node`."""
        if node.default is None or not self._counts:
            return "null"
        try:
            return self._known(node)
        except RecursionError:
            self._texts[node] = "null"
            return "null"

    def of_union(self, node: Union) -> str:
        """The JSON text of a null in a union: that of its one other type, null in a wide union."""
        only = nullable(node)
        return "null" if only is None else self.of(only)

    def _known(self, node: Node) -> str:
        if node not in self._texts:
            if node in self._open:
                raise RecursionError("a default that holds itself")
            self._open.add(node)
            try:
                self._texts[node] = self._checked(node)
            finally:
                self._open.remove(node)
        return self._texts[node]

    def _checked(self, node: Node) -> str:
        try:
            text = self._text(node, node.default)
            text.encode()  # half a surrogate pair, which JSON can say, is no text
        except (ValueError, OverflowError, MalformedError):
            return "null"
        return text if len(text) <= MAX_TEXT else "null"

    def _text(self, node: Node, value: Any) -> str:
        """The text of a parsed JSON value. Raises ValueError, OverflowError or MalformedError if it does not fit."""
        match node:
            case Union():
                return self._null(node, value)
            case Array() if entry_of(node) is None:
                return "[" + ",".join([self._text(node.items, each) for each in _of(list, value)]) + "]"
            case Map():
                entries = _of(dict, value).items()
                return "{" + ",".join([f"{quoted(key)}:{self._text(node.values, each)}" for key, each in entries]) + "}"
            case Record():
                found = _of(dict, value)
                fields = [f"{quoted(name)}:{self._text(child, found.get(name))}" for name, child in node.fields]
                return "{" + ",".join(fields) + "}"
            case Enum():
                return quoted(node.symbols[node.symbols.index(_of(str, value))])
            case Fixed():
                return _bytes_text(node, value, node.size)
            case Scalar():
                return self._scalar(node, value)
        raise ValueError  # an array that is a map: AvroData refuses its default

    def _null(self, node: Union, value: Any) -> str:
        """A null, which may have a default itself; AvroData loses or refuses any other default of a union."""
        if value is not None or not any(map(is_null, node.branches)):
            raise ValueError
        only = nullable(node)
        return self._known(only) if only is not None and only.default is not None else "null"

    def _scalar(self, node: Scalar, value: Any) -> str:
        match node.kind:
            case "null" if value is None:
                return "null"
            case "boolean":
                return scalars.boolean_text(_of(bool, value))
            case "int" | "long":
                return self._integer(node, _of(int, value))
            case "float":
                (single,) = struct.unpack("<f", struct.pack("<f", _number(value)))
                return scalars.float_text(single)
            case "double":
                return scalars.double_text(_number(value))
            case "string":
                return quoted(_of(str, value))
            case "bytes":
                return _bytes_text(node, value, None)
        raise ValueError

    def _integer(self, node: Scalar, value: int) -> str:
        limit = 1 << _BITS[node.kind]
        if not -limit <= value < limit:
            raise ValueError
        if node.logical == "date":
            return scalars.date_text(value)
        return scalars.time_text(value, self._zone) if node.logical == "time-millis" else str(value)


def _of(wanted: type, value: Any) -> Any:
    if type(value) is not wanted:
        raise ValueError
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError
    return float(value)


def _bytes_text(node: Scalar | Fixed, value: Any, size: int | None) -> str:
    """Bytes stand in Avro's JSON as a text of as many Latin-1 characters."""
    raw = _of(str, value).encode("latin-1")
    if size is not None and len(raw) != size:
        raise ValueError
    return decimal_text(raw, node.scale) if node.logical == "decimal" else scalars.base64_text(raw)
