"""Confluent-framed Avro as Confluent's AvroConverter reads it: the fast decoder runs, the reference judges.

Not for Avro object containers, which carry their schema themselves. docs/decisions/0002-two-decoders.md tells why two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.capacity import check_size, string_array
from spark_jobs.sink.decode.decoder import FramedDecoder
from spark_jobs.sink.decode.frames import FRAME_BYTES
from spark_jobs.sink.decode.records import Decoded, InvalidSchemaError, MalformedError
from spark_jobs.sink.decode.reference import ReferenceDecoder
from spark_jobs.sink.decode.scalars import CLASSIC_ZONE
from spark_jobs.sink.decode.schema import parse_schema
from spark_jobs.sink.decode.vector import VectorDecoder
from spark_jobs.sink.values.bad_records import BadRecord


def avro_decoder(
    schema_of: Callable[[int], RegisteredSchema],
    time_zone: str = CLASSIC_ZONE,
    *,
    null_defaults: bool = True,
    flatten_singletons: bool = True,
) -> FramedDecoder:
    """The decoder of framed Avro.

    time_zone: what a time of day ends with (`scalars.CLASSIC_ZONE` or `STREAMING_ZONE`).
    null_defaults: whether a null within a record is its type's default, see `defaults`.
    flatten_singletons: whether a union of one type is that type, and no object with one member.
    """

    def bodies(schema: RegisteredSchema) -> AvroBodies:
        return AvroBodies(schema.text, time_zone, null_defaults, flatten_singletons)

    return FramedDecoder("AVRO", schema_of, bodies)


class AvroBodies:
    """Decodes framed values of one schema (JSON, references resolved). Raises InvalidSchemaError."""

    def __init__(self, schema: str, time_zone: str, null_defaults: bool, flatten_singletons: bool = True) -> None:
        try:
            node = parse_schema(schema)
            self._reference = ReferenceDecoder(
                node, time_zone, null_defaults=null_defaults, flatten_singletons=flatten_singletons
            )
            self._vector = VectorDecoder.of(node, time_zone, null_defaults=null_defaults)
        except RecursionError as error:  # each of the three has its own depth
            raise InvalidSchemaError("nested too deeply") from error

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """JSON text per framed value; a null at the top is null, as a tombstone."""
        texts = self._vector.decode(values) if self._vector else pa.nulls(len(values), pa.string())
        bad: list[BadRecord] = []
        if texts.null_count:
            texts = self._by_reference(values, texts, bad)
        return Decoded(texts, pa.nulls(len(values), pa.int32()), tuple(bad))

    def _by_reference(self, values: pa.BinaryArray, texts: pa.StringArray, bad: list[BadRecord]) -> pa.StringArray:
        """Fill what is null in `texts` from the reference decoder; what it refuses stays null and is reported."""
        open_rows = np.flatnonzero(texts.is_null().to_numpy(zero_copy_only=False))
        judged = string_array(self._judged(open_rows, values.take(pa.array(open_rows)).to_pylist(), bad))
        check_size(texts, judged)
        return pc.replace_with_mask(texts, texts.is_null(), judged)

    def _judged(self, rows: np.ndarray, values: list[bytes], bad: list[BadRecord]) -> Iterator[str | None]:
        """The texts of `values`, one at a time: all of them may be more than the memory holds."""
        for row, value in zip(rows, values, strict=True):
            try:
                text = self._reference.decode(value, FRAME_BYTES)
            except MalformedError as error:
                text = None
                bad.append(BadRecord(int(row), error.reason, error.detail))
            yield text
