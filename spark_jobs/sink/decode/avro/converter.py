"""Confluent-framed Avro as Confluent's AvroConverter reads it: the vector decoder runs, the reference decides.

Not for Avro object containers (`container`). docs/decisions/0002-two-decoders.md tells why two decoders.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.connector.config import ConverterConfig
from firn.connector.formats import Format
from firn.registry.schemas import InvalidSchemaError, RegisteredSchema
from spark_jobs.sink.decode.avro.container import avro_file_decoder
from spark_jobs.sink.decode.avro.schema import parse_schema
from spark_jobs.sink.decode.avro.types import value_types
from spark_jobs.sink.decode.avro.values import ReferenceDecoder
from spark_jobs.sink.decode.avro.vector import VectorDecoder
from spark_jobs.sink.decode.base.capacity import check_size, string_array
from spark_jobs.sink.decode.base.column_types import ValueTypes
from spark_jobs.sink.decode.base.contract import Converter, ConverterContext, Decoded, MalformedError, SchemaOf, Writer
from spark_jobs.sink.decode.base.scalars import CLASSIC_ZONE
from spark_jobs.sink.decode.framing.decoder import FramedDecoder
from spark_jobs.sink.decode.framing.frames import FRAME_BYTES
from spark_jobs.sink.values.bad_records import BadRecord


def converter(config: ConverterConfig, context: ConverterContext) -> Converter:
    """The converter of AVRO, or of AVRO_FILE: object containers, which carry their schema themselves."""
    if config.format is Format.AVRO_FILE:
        return Converter(avro_file_decoder(context.time_zone, as_key=context.as_key).decode)
    flatten_singletons = config.flatten_singletons
    decoder = avro_decoder(
        context.schema_of, context.time_zone, null_defaults=config.null_defaults, flatten_singletons=flatten_singletons
    )

    def types_of(writer: Writer) -> ValueTypes:
        node = parse_schema(context.schema_of(writer.schema_id).text)
        return value_types(node, flatten_singletons=flatten_singletons)

    return Converter(decoder.decode, types_of)


def avro_decoder(
    schema_of: SchemaOf,
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
        fields = self._vector.fields if self._vector else None
        bad: list[BadRecord] = []
        if texts.null_count:
            texts = self._by_reference(values, texts, bad)
        return Decoded(texts, pa.nulls(len(values), pa.int32()), tuple(bad), fields=fields)

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
