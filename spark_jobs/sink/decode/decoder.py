"""Decodes a batch of Kafka values: groups by schema id, lets the fast decoder run and the reference judge.

Not for: what a tombstone or a bad record then becomes (the sink's configuration decides).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.registry import ForeignSchemaError, UnknownSchemaError
from spark_jobs.sink.decode.frames import FRAME_BYTES, Frames
from spark_jobs.sink.decode.records import (
    INVALID_SCHEMA,
    TOO_SHORT,
    UNKNOWN_SCHEMA_ID,
    WRONG_MAGIC,
    BadRecord,
    Decoded,
    MalformedError,
)
from spark_jobs.sink.decode.reference import ReferenceDecoder
from spark_jobs.sink.decode.scalars import CLASSIC_ZONE
from spark_jobs.sink.decode.schema import InvalidSchemaError, parse_schema
from spark_jobs.sink.decode.vector import VectorDecoder

TOMBSTONE = "{}"


@dataclass(frozen=True)
class _Compiled:
    reference: ReferenceDecoder
    vector: VectorDecoder | None


class AvroValueDecoder:
    """Decodes the values of a topic, whatever schema ids they carry. Not thread-safe; one per Spark worker.

    schema_of: gives the writer schema (JSON, references resolved) of an id. UnknownSchemaError and ForeignSchemaError
        make the records of that id bad; anything else, such as TransientError, passes and no record is judged.
    time_zone: what a time of day ends with (`scalars.CLASSIC_ZONE` or `STREAMING_ZONE`).
    """

    def __init__(self, schema_of: Callable[[int], str], *, time_zone: str = CLASSIC_ZONE) -> None:
        self._schema_of, self._time_zone = schema_of, time_zone
        self._compiled: dict[int, _Compiled] = {}

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode the values of one batch (n rows, null = tombstone, ids may mix)."""
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
        except ForeignSchemaError as error:
            return _all_bad(rows, INVALID_SCHEMA, error.what, bad)
        except InvalidSchemaError as error:
            return _all_bad(rows, INVALID_SCHEMA, f"schema id {schema_id} is not an Avro schema: {error}", bad)
        values = frames.values if len(rows) == len(frames.values) else frames.values.take(pa.array(rows))
        texts = compiled.vector.decode(values) if compiled.vector else pa.nulls(len(rows), pa.string())
        if texts.null_count:
            texts = _by_reference(compiled.reference, values, texts, rows, bad)
        return rows, texts

    def _compile(self, schema_id: int) -> _Compiled:
        found = self._compiled.get(schema_id)
        if found is None:
            node = parse_schema(self._schema_of(schema_id))
            found = _Compiled(ReferenceDecoder(node, self._time_zone), VectorDecoder.of(node, self._time_zone))
            self._compiled[schema_id] = found
        return found


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


def _by_reference(
    reference: ReferenceDecoder, values: pa.BinaryArray, texts: pa.StringArray, rows: np.ndarray, bad: list[BadRecord]
) -> pa.StringArray:
    """Fill what is null in `texts` from the reference decoder; what it refuses stays null and is reported."""
    open_rows = np.flatnonzero(texts.is_null().to_numpy(zero_copy_only=False))
    found: list[str | None] = []
    for at, value in zip(open_rows, values.take(pa.array(open_rows)).to_pylist(), strict=True):
        try:
            found.append(reference.decode(value, FRAME_BYTES))
        except MalformedError as error:
            found.append(None)
            bad.append(BadRecord(int(rows[at]), error.reason, error.detail))
    return pc.replace_with_mask(texts, texts.is_null(), pa.array(found, pa.string()))


def _in_order(pieces: list[tuple[np.ndarray, pa.StringArray]], frames: Frames) -> pa.StringArray:
    """The texts of all rows, back in the order of the batch; tombstones among them."""
    if len(pieces) == 1 and len(pieces[0][0]) == len(frames.values):
        return pieces[0][1]
    absent = np.flatnonzero(~frames.framed)
    others = pc.if_else(pa.array(frames.tombstones[absent]), TOMBSTONE, pa.scalar(None, pa.string()))
    order = np.concatenate([rows for rows, _ in pieces] + [absent])
    return pa.concat_arrays([texts for _, texts in pieces] + [others]).take(pa.array(np.argsort(order)))
