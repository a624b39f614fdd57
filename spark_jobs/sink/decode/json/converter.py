"""JSON as three converters read it: plain, in Connect's envelope, or framed with a JSON Schema in the registry.

Not for what a record means in any of them (`plain`, `envelope`, `values`).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from firn.connector.config import ConverterConfig
from firn.connector.formats import Format
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.base import json_text
from spark_jobs.sink.decode.base.capacity import MAX_BYTES
from spark_jobs.sink.decode.base.column_types import ValueTypes
from spark_jobs.sink.decode.base.contract import Converter, ConverterContext, Decoded, Decoder, Writer
from spark_jobs.sink.decode.base.rows import Budget, RowDecoder
from spark_jobs.sink.decode.framing.decoder import FramedDecoder
from spark_jobs.sink.decode.framing.frames import FRAME_BYTES
from spark_jobs.sink.decode.json.envelope import json_envelope_decoder
from spark_jobs.sink.decode.json.plain import JsonDecoder
from spark_jobs.sink.decode.json.schema import compiled
from spark_jobs.sink.decode.json.types import value_types
from spark_jobs.sink.decode.json.values import Leaf, Slot, Struct
from spark_jobs.sink.decode.json.vector import Field, ObjectVectors, plain_type
from spark_jobs.sink.values.bad_records import SCHEMA_MISMATCH


def converter(config: ConverterConfig, context: ConverterContext) -> Converter:
    """The converter of JSON, JSON_ENVELOPE or JSON_SCHEMA."""
    match config.format:
        case Format.JSON:
            return Converter(JsonDecoder(null_is_tombstone=config.json_null_is_tombstone).decode)
        case Format.JSON_ENVELOPE:
            return Converter(json_envelope_decoder(context.time_zone, config.null_defaults).decode)
    return _schema_converter(context, config.null_defaults)


def _schema_converter(context: ConverterContext, null_defaults: bool) -> Converter:
    def bodies(schema: RegisteredSchema) -> Decoder:
        return schema_bodies(schema, context.time_zone, null_defaults)

    def types_of(writer: Writer) -> ValueTypes:
        schema = context.schema_of(writer.schema_id)
        return value_types(compiled(schema, context.time_zone, null_defaults, Budget()).type)

    return Converter(FramedDecoder("JSON", context.schema_of, bodies).decode, types_of)


def schema_bodies(schema: RegisteredSchema, time_zone: str, null_defaults: bool) -> Decoder:
    """The decoder of framed values of one JSON Schema. Raises InvalidSchemaError.

    null_defaults: whether a null where null is allowed is the schema's default; elsewhere it always is.
    """
    budget = Budget()
    slot = compiled(schema, time_zone, null_defaults, budget)

    def convert(value: bytes) -> str | None:
        budget.reset()
        found = json_text.parse(json_text.utf8(value[FRAME_BYTES:]))
        if found is None and slot.optional and slot.default is None:
            return None
        return slot.text(found)

    rows = RowDecoder(convert, SCHEMA_MISMATCH)
    vectors = ObjectVectors.of(_fields(slot.type, budget)) if isinstance(slot.type, Struct) else None
    return rows if vectors is None else _Objects(vectors, rows)


class _Objects:
    """Framed values that are objects: what the vectors are sure of, and row by row the others."""

    def __init__(self, vectors: ObjectVectors, rows: RowDecoder) -> None:
        self._vectors, self._rows = vectors, rows

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode one batch (n rows in, n out, none null)."""
        return self._rows.complete(values, self._vectors.texts(pc.binary_slice(values, FRAME_BYTES, MAX_BYTES)))


def _fields(struct: Struct, budget: Budget) -> list[Field]:
    """The fields of objects, as `vector` takes them."""

    def field(name: str, slot: Slot) -> Field:
        def text(value: object) -> str:
            budget.reset()
            return slot.text(value)

        plain = plain_type(slot.type.schema) if isinstance(slot.type, Leaf) and slot.default is None else None
        return Field(name, text, plain, required=not slot.optional and slot.default is None)

    return [field(name, slot) for name, slot in struct.slots.items()]
