"""The fast decoder: a batch of bodies of one schema through pyruhvro (Rust) and Arrow.

It only ever answers what the reference would: a row in any doubt comes back as null, for the reference to judge. A
batch that is refused as a whole is halved until few rows beside the doubtful ones are left.
pyruhvro does not notice bytes behind the value, so every body gets a tail of this process's own and the schema a last
field that must read it back. The tail's bytes differ from each other: no shifted copy of it can pass for the whole.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyruhvro

from spark_jobs.sink.decode.capacity import one_array, text_bytes
from spark_jobs.sink.decode.check import vector_schema
from spark_jobs.sink.decode.frames import FRAME_BYTES
from spark_jobs.sink.decode.records import MAX_TEXT, OutputTooLargeError
from spark_jobs.sink.decode.render import Renderer
from spark_jobs.sink.decode.schema import Node

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
    """Decodes bodies of one schema, all at once."""

    def __init__(self, schema: str, renderer: Renderer) -> None:
        self._schema, self._renderer = schema, renderer
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
        texts = self._renderer.texts(body)
        if body.null_count:  # a null at the top is no text, and rare: the reference says so
            texts = pc.if_else(body.is_valid(), texts, pa.scalar(None, pa.string()))
        texts.validate(full=True)  # pyruhvro takes strings for UTF-8 unseen
        sure = pc.equal(tail.view(pa.int64()), _TAIL_BITS)
        if text_bytes(texts) > MAX_TEXT:  # one text may be longer than the reference allows
            sure = pc.and_(sure, pc.less_equal(pc.fill_null(pc.binary_length(texts), 0), MAX_TEXT))
        if self._has_blocks:
            sure = pc.and_not(sure, pc.match_substring(bodies, _LEAST_COUNT))
        return texts if pc.all(sure).as_py() else pc.if_else(sure, texts, pa.scalar(None, pa.string()))
