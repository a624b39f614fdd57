"""The vector decoder: a batch of bodies of one schema through pyruhvro (Rust) and Arrow, and which schemas it may take.

It only ever answers what the reference would: a row in any doubt comes back as null, for the reference to decide. A
batch that is refused as a whole is halved until few rows beside the doubtful ones are left.

Eligible are schemas without a type that the library lacks (bytes, fixed, decimal), without a union wider than
[null, X], without a record inside itself, and without what takes no bytes (it would count through 2**60 of them). It
reads a stand-in of the schema: the same bytes under plain names, without logical types. Each int is a long, so that an
int out of range shows instead of being cut to 32 bits. Each enum is a long, the number of its symbol: the library would
write a symbol out as often as it is named.

pyruhvro does not notice bytes behind the value, so every body gets a tail of this process's own and the schema a last
field that must read it back. The tail's bytes differ from each other: no shifted copy of it can pass for the whole.
Not for the text of the columns (`vector_text`).
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyruhvro

from spark_jobs.sink.decode.avro.schema import (
    Array,
    Enum,
    Map,
    Node,
    Record,
    Scalar,
    Union,
    ValueBounds,
    entry_of,
    is_null,
    nullable,
)
from spark_jobs.sink.decode.avro.vector_text import Renderer
from spark_jobs.sink.decode.base.capacity import one_array, text_bytes
from spark_jobs.sink.decode.base.contract import MAX_TEXT, OutputTooLargeError
from spark_jobs.sink.decode.base.field_columns import RecordFields
from spark_jobs.sink.decode.framing.frames import FRAME_BYTES

MAX_NODES = 2_000
MAX_DEPTH = 32  # its library parses no schema that is much deeper
_KINDS = {"boolean": "boolean", "int": "long", "long": "long", "float": "float", "double": "double", "string": "string"}


class _UnsupportedError(Exception):
    """A part of the schema is beyond the vector decoder."""


def vector_schema(node: Node) -> str | None:
    """The schema (JSON) to read values of `node` with, followed by an 8-byte tail; None where only the reference can.

    The value is the field `body`, the tail the field `tail`, a double.
    """
    if ValueBounds().depth(node) > MAX_DEPTH:
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


MAX_BYTES = 2**31 - 1
# So many rows cost the reference about as much as one more attempt, which has a fixed price per column.
FEW = 256


def _new_tail() -> bytes:
    exponent = 0x40  # the last byte of a double: finite, whatever the others are
    others = [byte for byte in range(256) if byte != exponent]
    return bytes([*random.SystemRandom().sample(others, 7), exponent])


_TAIL = _new_tail()
_TAIL_BITS = struct.unpack("<q", _TAIL)[0]
# A block count of -2**63 (nine bytes 0xff and one more) overflows to 0 in pyruhvro instead of being refused.
_LEAST_COUNT = b"\xff" * 9


class VectorDecoder:
    """Decodes bodies of one schema, all at once.

    fields: those of the records that were decoded last, if the values are records and all were read at once.
    """

    def __init__(self, schema: str, renderer: Renderer) -> None:
        self._schema, self._renderer = schema, renderer
        self.fields: RecordFields | None = None
        self._has_blocks = '"items"' in schema or '"values"' in schema

    @classmethod
    def of(cls, node: Node, time_zone: str, *, null_defaults: bool = True) -> VectorDecoder | None:
        """The decoder for values of `node`, or None where only the reference can read them.

        null_defaults: whether a null within the value is its type's default, see `defaults`.
        """
        schema = vector_schema(node)
        return cls(schema, Renderer(node, time_zone, null_defaults=null_defaults)) if schema else None

    def decode(self, values: pa.BinaryArray) -> pa.StringArray:
        """JSON text per framed value (n rows in, n out); null where the reference has to look.

        Raises OutputTooLargeError.
        """
        self.fields = None
        return one_array(self._pieces(values))

    def _pieces(self, values: pa.BinaryArray) -> Iterator[pa.StringArray]:
        todo = [values]
        while todo:
            part = todo.pop()
            texts = self._attempt(part)
            if texts is None:
                half = len(part) // 2
                todo += [part.slice(half), part.slice(0, half)]
            else:
                yield texts

    def _attempt(self, values: pa.BinaryArray) -> pa.StringArray | None:
        """The texts of all values at once; None where their halves must be tried. Raises OutputTooLargeError."""
        few = len(values) <= FEW
        try:
            return self._decode_all(values)
        except BaseException as fault:
            # pyo3's PanicException is no Exception; what a person or the interpreter raises passes on. A batch that
            # is too large does too: both halves would be held at the same time.
            if isinstance(fault, KeyboardInterrupt | SystemExit | GeneratorExit):
                raise
            if isinstance(fault, OutputTooLargeError) and not few:
                raise
        return pa.nulls(len(values), pa.string()) if few else None

    def _decode_all(self, values: pa.BinaryArray) -> pa.StringArray:
        bodies = pc.binary_slice(values, FRAME_BYTES, MAX_BYTES)
        rows = pc.binary_join_element_wise(bodies, _TAIL, b"").to_pylist()
        batch = pyruhvro.deserialize_array(rows, self._schema)
        body, tail = batch.columns
        self.fields = self._renderer.record(body)
        texts = self._renderer.texts(body) if self.fields is None else self.fields.content
        if body.null_count:  # a null at the top is no text, and rare: the reference says so
            texts = pc.if_else(body.is_valid(), texts, pa.scalar(None, pa.string()))
        texts.validate(full=True)  # pyruhvro takes strings for UTF-8 unseen
        sure = pc.equal(tail.view(pa.int64()), _TAIL_BITS)
        if text_bytes(texts) > MAX_TEXT:  # one text may be longer than the reference allows
            sure = pc.and_(sure, pc.less_equal(pc.fill_null(pc.binary_length(texts), 0), MAX_TEXT))
        if self._has_blocks:
            sure = pc.and_not(sure, pc.match_substring(bodies, _LEAST_COUNT))
        return texts if pc.all(sure).as_py() else pc.if_else(sure, texts, pa.scalar(None, pa.string()))
