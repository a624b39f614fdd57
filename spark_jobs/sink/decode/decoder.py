"""Decodes a batch of values in Confluent's framing, whatever schema ids they carry: one compiled decoder per id.

Not for: what the body of one kind of schema means (`avro`, `json_schema`, `protobuf`), nor what a null or a bad record
then becomes (the sink's configuration decides).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa

from firn.registry import RegisteredSchema, SchemaKind, UnknownSchemaError
from spark_jobs.sink.decode.frames import FRAME_BYTES, Frames
from spark_jobs.sink.decode.records import (
    INVALID_SCHEMA,
    TOO_SHORT,
    UNKNOWN_SCHEMA_ID,
    WRONG_MAGIC,
    BadRecord,
    Decoded,
    Decoder,
    InvalidSchemaError,
)


class FramedDecoder:
    """Decodes framed keys or values of one kind of schema. Not thread-safe; one per Spark worker.

    kind: the kind of schema that the converter reads; an id of another kind makes its records bad.
    schema_of: gives the writer schema of an id. UnknownSchemaError makes the records of that id bad; anything else,
        such as TransientError, passes and no record is judged.
    compile_schema: makes the decoder of one schema, which is given framed values of that schema only, none of them
        null. Raises InvalidSchemaError.
    """

    def __init__(
        self,
        kind: SchemaKind,
        schema_of: Callable[[int], RegisteredSchema],
        compile_schema: Callable[[RegisteredSchema], Decoder],
    ) -> None:
        self._kind, self._schema_of, self._compile_schema = kind, schema_of, compile_schema
        self._compiled: dict[int, Decoder] = {}
        self._refused: dict[int, str] = {}  # why; an id never changes its schema, so that is final too

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode one batch (n rows, null = tombstone, ids may mix)."""
        frames = Frames.of(values)
        bad: list[BadRecord] = _unframed(frames)
        rows = np.flatnonzero(frames.framed)
        pieces = [self._of_one_id(int(found), rows[frames.ids[rows] == found], frames, bad) for found in _ids(frames)]
        content = _in_order(pieces, frames)
        bad.sort(key=lambda each: each.row)
        decoded = frames.framed.copy()
        decoded[[each.row for each in bad]] = False
        return Decoded(content, pa.array(frames.ids, pa.int32(), mask=~decoded), tuple(bad))

    def _of_one_id(
        self, schema_id: int, rows: np.ndarray, frames: Frames, bad: list[BadRecord]
    ) -> tuple[np.ndarray, pa.StringArray]:
        """The texts of the rows that carry `schema_id`; what is bad among them is null and reported."""
        try:
            compiled = self._compile(schema_id)
        except UnknownSchemaError as error:
            detail = f"the registry does not know schema id {schema_id}: {error.what}"
            return _all_bad(rows, UNKNOWN_SCHEMA_ID, detail, bad)
        if compiled is None:
            return _all_bad(rows, INVALID_SCHEMA, self._refused[schema_id], bad)
        values = frames.values if len(rows) == len(frames.values) else frames.values.take(pa.array(rows))
        decoded = compiled.decode(values)
        bad.extend(replace(each, row=int(rows[each.row])) for each in decoded.bad)
        return rows, decoded.content

    def _compile(self, schema_id: int) -> Decoder | None:
        """The decoder of a schema; None where it is refused."""
        if schema_id not in self._compiled and schema_id not in self._refused:
            schema = self._schema_of(schema_id)
            if schema.kind != self._kind:
                self._refused[schema_id] = (
                    f"schema id {schema_id} is a {schema.kind} schema, the converter reads {self._kind}"
                )
                return None
            try:
                self._compiled[schema_id] = self._compile_schema(schema)
            except InvalidSchemaError as error:
                self._refused[schema_id] = f"the {self._kind} schema of id {schema_id} cannot be used: {error}"
        return self._compiled.get(schema_id)


def _ids(frames: Frames) -> np.ndarray:
    return np.unique(frames.ids[frames.framed])


def _unframed(frames: Frames) -> list[BadRecord]:
    wrong = [
        BadRecord(int(row), WRONG_MAGIC, f"the first byte is 0x{frames.magic[row]:02x}, Confluent's framing has 0x00")
        for row in np.flatnonzero(frames.wrong_magic)
    ]
    short = [
        BadRecord(int(row), TOO_SHORT, f"{frames.lengths[row]} bytes where the frame alone takes {FRAME_BYTES}")
        for row in np.flatnonzero(frames.too_short)
    ]
    return wrong + short


def _all_bad(rows: np.ndarray, reason: str, detail: str, bad: list[BadRecord]) -> tuple[np.ndarray, pa.StringArray]:
    bad.extend(BadRecord(int(row), reason, detail) for row in rows)
    return rows, pa.nulls(len(rows), pa.string())


def _in_order(pieces: list[tuple[np.ndarray, pa.StringArray]], frames: Frames) -> pa.StringArray:
    """The texts of all rows, back in the order of the batch, null where there is none."""
    if len(pieces) == 1 and len(pieces[0][0]) == len(frames.values):
        return pieces[0][1]
    absent = np.flatnonzero(~frames.framed)
    order = np.concatenate([rows for rows, _ in pieces] + [absent])
    texts = [texts for _, texts in pieces] + [pa.nulls(len(absent), pa.string())]
    return pa.concat_arrays(texts).take(pa.array(np.argsort(order)))
