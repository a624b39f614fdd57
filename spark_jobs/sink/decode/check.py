"""Which schemas the vector decoder may take, and what it is asked to read for them.

Its library (pyruhvro) must give exactly what the reference gives: so no type that it lacks (bytes, fixed, decimal), no
union wider than [null, X], no record inside itself, nothing that takes no bytes (it would count through 2**60 of them).
It reads a stand-in of the schema: the same bytes under plain names, without logical types. Each int is a long, so that
an int out of range shows instead of being cut to 32 bits. Each enum is a long, the number of its symbol: the library
would write a symbol out as often as it is named. Not for: rendering.
"""

from __future__ import annotations

import json
from typing import Any

from spark_jobs.sink.decode.schema import Array, Enum, Map, Node, Record, Scalar, Union, is_null
from spark_jobs.sink.decode.shapes import Shapes, entry_of, nullable

MAX_NODES = 2_000
MAX_DEPTH = 32  # its library parses no schema that is much deeper
_KINDS = {"boolean": "boolean", "int": "long", "long": "long", "float": "float", "double": "double", "string": "string"}


class _UnsupportedError(Exception):
    """A part of the schema is beyond the vector decoder."""


def vector_schema(node: Node) -> str | None:
    """The schema (JSON) to read values of `node` with, followed by an 8-byte tail; None where only the reference can.

    The value is the field `body`, the tail the field `tail`, a double.
    """
    if Shapes().depth(node) > MAX_DEPTH:
        return None
    try:
        body = _StandIn().of(node, ())
    except _UnsupportedError:
        return None
    fields = [{"name": "body", "type": body}, {"name": "tail", "type": "double"}]
    return json.dumps({"type": "record", "name": "value", "fields": fields})


class _StandIn:
    def __init__(self) -> None:
        self._count = 0

    def of(self, node: Node, above: tuple[Record, ...]) -> Any:
        # A type used in many places is written out in each of them: bounded, because it can double at every level.
        self._count += 1
        if self._count > MAX_NODES:
            raise _UnsupportedError
        match node:
            case Scalar() if node.kind in _KINDS and node.logical != "decimal":
                return _KINDS[node.kind]
            case Enum():
                return "long"
            case Array() if entry_of(node) is None:
                return {"type": "array", "items": self.of(node.items, above)}
            case Map():
                return {"type": "map", "values": self.of(node.values, above)}
            case Union():
                return self._union(node, above)
            case Record() if node not in above and node.fields:
                name = f"r{self._count}"
                fields = [
                    {"name": f"f{at}", "type": self.of(child, (*above, node))}
                    for at, (_, child) in enumerate(node.fields)
                ]
                return {"type": "record", "name": name, "fields": fields}
        raise _UnsupportedError

    def _union(self, node: Union, above: tuple[Record, ...]) -> Any:
        only = nullable(node)
        if only is None or len(node.branches) != 2:
            raise _UnsupportedError
        inner = self.of(only, above)
        return ["null", inner] if is_null(node.branches[0]) else [inner, "null"]
