"""Decodes a batch of values in Confluent's framing, whatever schema ids they carry: one compiled decoder per id.

Ids that the registry does not know are remembered for a while: junk in a topic must not become the registry's load,
with a request per batch and again with every retry. Not for what the body of one kind of schema means (the formats),
nor for what a null or a bad record then becomes (the sink's configuration decides).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from firn.registry.faults import UnknownSchemaError
from firn.registry.schemas import InvalidSchemaError, RegisteredSchema, SchemaKind
from spark_jobs.sink.decode.base.capacity import one_array
from spark_jobs.sink.decode.base.contract import Decoded, Decoder, Part, SchemaOf
from spark_jobs.sink.decode.base.field_columns import RecordFields
from spark_jobs.sink.decode.framing.frames import FRAME_BYTES, Frames
from spark_jobs.sink.values.bad_records import (
    INVALID_SCHEMA,
    NOT_LOOKED_UP,
    TOO_SHORT,
    UNKNOWN_SCHEMA_ID,
    WRONG_MAGIC,
    BadRecord,
)

REMEMBERED_SECONDS = 30.0
"""A schema that is registered late is found after that time."""
MAX_IN_BATCH = 100
"""So many unknown ids of one batch are looked up; more of them are no mistake of a producer's schema."""


class UnknownIds:
    """Why the registry knows no schema of an id. clock: seconds that only rise. Not thread-safe."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[int, tuple[float, str]] = {}
        self._in_batch = 0

    def begin_batch(self) -> None:
        """Forget what is too old, and begin to count."""
        now = self._clock()
        self._until = {each: found for each, found in self._until.items() if found[0] > now}
        self._in_batch = 0

    def add(self, schema_id: int, what: str) -> str:
        """Remember what the registry said of the id; the same is said of the records."""
        self._until[schema_id] = (self._clock() + REMEMBERED_SECONDS, what)
        self._in_batch += 1
        return what

    def remembered(self, schema_id: int) -> str | None:
        """What to say of the records of an id that is known to be unknown; None where nothing is known of it."""
        if schema_id not in self._until:
            return None
        self._in_batch += 1
        return self._until[schema_id][1]

    @property
    def enough(self) -> bool:
        """Whether this batch has so many unknown ids that no further one is worth a request."""
        return self._in_batch >= MAX_IN_BATCH


class FramedDecoder:
    """Decodes framed keys or values of one kind of schema. Not thread-safe; one per Spark worker.

    kind: the kind of schema that the converter reads; an id of another kind makes its records bad.
    schema_of: gives the writer schema of an id. UnknownSchemaError makes the records of that id bad; anything else,
        such as TransientError, passes and no record is judged. Unknown ids are asked for again after a while. Behind
        a number of them in one batch (`unknown_ids`) the records of further ids are NOT_LOOKED_UP: nobody knows yet
        whether they are bad, and they never stand in front of the unknown ones.
    compile_schema: makes the decoder of one schema, which is given framed values of that schema only, none of them
        null. Raises InvalidSchemaError.
    clock: seconds that only rise.
    """

    def __init__(
        self,
        kind: SchemaKind,
        schema_of: SchemaOf,
        compile_schema: Callable[[RegisteredSchema], Decoder],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kind, self._schema_of, self._compile_schema = kind, schema_of, compile_schema
        self._compiled: dict[int, Decoder] = {}
        self._refused: dict[int, str] = {}  # why; an id never changes its schema, so that is final too
        self._unknown = UnknownIds(clock)

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode one batch (n rows, null = tombstone, ids may mix)."""
        frames = Frames.of(values)
        batch = _Batch(frames, _unframed(frames))
        rows = np.flatnonzero(frames.framed)
        self._unknown.begin_batch()
        groups = {int(found): rows[frames.ids[rows] == found] for found in _ids(frames)}
        texts = one_array(self._of_one_id(schema_id, group, batch) for schema_id, group in groups.items())
        content = _in_order(list(groups.values()), texts, frames)
        bad = sorted(batch.bad, key=lambda each: each.row)
        decoded = frames.framed.copy()
        decoded[[each.row for each in bad]] = False
        schema_ids = pa.array(frames.ids, pa.int32(), mask=~decoded)
        fields = batch.fields if len(groups) == 1 else None
        return Decoded(content, schema_ids, tuple(bad), parts=batch.all_parts, fields=fields)

    def _of_one_id(self, schema_id: int, rows: np.ndarray, batch: _Batch) -> pa.StringArray:
        """The texts of the rows that carry `schema_id`; what is bad among them is null and reported."""
        compiled = self._compile(schema_id)
        if isinstance(compiled, _Unusable):
            batch.bad.extend(BadRecord(int(row), compiled.reason, compiled.detail) for row in rows)
            return pa.nulls(len(rows), pa.string())
        values = batch.frames.values
        decoded = compiled.decode(values if len(rows) == len(values) else values.take(pa.array(rows)))
        batch.bad.extend(replace(each, row=int(rows[each.row])) for each in decoded.bad)
        batch.fields = decoded.fields
        if decoded.parts is not None:
            batch.parts.update(zip(rows.tolist(), decoded.parts, strict=True))
        return decoded.content

    def _compile(self, schema_id: int) -> Decoder | _Unusable:
        """The decoder of a schema, or why there is none."""
        if schema_id not in self._compiled and schema_id not in self._refused:
            if detail := self._unknown.remembered(schema_id):
                return _Unusable(UNKNOWN_SCHEMA_ID, detail)
            if self._unknown.enough:
                return _Unusable(NOT_LOOKED_UP, f"schema id {schema_id} stands behind {MAX_IN_BATCH} unknown ones")
            try:
                self._compile_new(schema_id, self._schema_of(schema_id))
            except UnknownSchemaError as error:
                return _Unusable(UNKNOWN_SCHEMA_ID, self._unknown.add(schema_id, error.what))
        if schema_id in self._refused:
            return _Unusable(INVALID_SCHEMA, self._refused[schema_id])
        return self._compiled[schema_id]

    def _compile_new(self, schema_id: int, schema: RegisteredSchema) -> None:
        if schema.kind != self._kind:
            self._refused[schema_id] = (
                f"schema id {schema_id} is a {schema.kind} schema, the converter reads {self._kind}"
            )
            return
        try:
            self._compiled[schema_id] = self._compile_schema(schema)
        except InvalidSchemaError as error:
            self._refused[schema_id] = f"the {self._kind} schema of id {schema_id} cannot be used: {error}"


@dataclass
class _Batch:
    """What is found out of a batch while its schema ids are decoded one after the other; parts by row.

    fields: of the schema id that was decoded last.
    """

    frames: Frames
    bad: list[BadRecord]
    parts: dict[int, Part] = field(default_factory=dict)
    fields: RecordFields | None = None

    @property
    def all_parts(self) -> list[Part] | None:
        """The part of each row; None where all are ()."""
        return [self.parts.get(row, ()) for row in range(len(self.frames.values))] if self.parts else None


@dataclass(frozen=True)
class _Unusable:
    """Why the records of a schema id are bad."""

    reason: str
    detail: str


def _ids(frames: Frames) -> np.ndarray:
    """Each id once, in the order they come: what is not looked up stands behind what is truly unknown."""
    ids, first = np.unique(frames.ids[frames.framed], return_index=True)
    return ids[np.argsort(first)]


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


def _in_order(groups: list[np.ndarray], texts: pa.StringArray, frames: Frames) -> pa.StringArray:
    """The texts, which come group by group, for all rows in the order of the batch; null where there is none."""
    if len(texts) == len(frames.values) and len(groups) == 1:
        return texts
    positions = np.zeros(len(frames.values), np.int64)
    positions[np.concatenate([*groups, np.zeros(0, np.int64)])] = np.arange(len(texts))
    return texts.take(pa.array(positions, mask=~frames.framed))
