"""Confluent-framed Protobuf as Confluent's ProtobufConverter reads it: which message of the schema, and the message.

Behind the schema id stand the message indexes: their number, then the position among the messages of the file or of the
message before, all as zig-zag varints; a single 0 is the first message of the file. Fields that the schema does not
know are dropped, as officially: without a schema they have neither name nor type.
Source: Confluent Schema Registry, "Wire format". Not for: what a message becomes (`values`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from firn.connector.config import ConverterConfig, ProtobufOptions
from firn.registry.protobuf_schema import root_file
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.base.capacity import MAX_BYTES
from spark_jobs.sink.decode.base.column_types import ValueTypes
from spark_jobs.sink.decode.base.contract import (
    Converter,
    ConverterContext,
    Decoded,
    Decoder,
    MalformedError,
    Part,
    Writer,
)
from spark_jobs.sink.decode.base.field_columns import RecordFields
from spark_jobs.sink.decode.base.rows import Budget, RowDecoder
from spark_jobs.sink.decode.framing.decoder import FramedDecoder
from spark_jobs.sink.decode.framing.frames import FRAME_BYTES
from spark_jobs.sink.decode.protobuf.types import value_types
from spark_jobs.sink.decode.protobuf.values import MessageTexts
from spark_jobs.sink.decode.protobuf.vector import MessageVectors
from spark_jobs.sink.values.bad_records import INVALID_UTF8, MALFORMED_PROTOBUF, SCHEMA_MISMATCH

FIRST_MESSAGE: Part = (0,)
_FIRST_MESSAGE = b"\0"
MAX_INDEXES = 100
"""Levels of messages within messages; protoc allows fewer."""


def converter(config: ConverterConfig, context: ConverterContext) -> Converter:
    """The converter of PROTOBUF. The part of a schema that a value is of is the way to its message."""

    def bodies(schema: RegisteredSchema) -> Decoder:
        return _MessageDecoder(schema, config.protobuf, context.time_zone)

    def types_of(writer: Writer) -> ValueTypes:
        file = root_file(context.schema_of(writer.schema_id))
        return value_types(message_at(file, writer.part or FIRST_MESSAGE), config.protobuf)

    return Converter(FramedDecoder("PROTOBUF", context.schema_of, bodies).decode, types_of)


class _MessageDecoder:
    """Decodes framed values of one schema. Raises InvalidSchemaError."""

    def __init__(self, schema: RegisteredSchema, options: ProtobufOptions, time_zone: str) -> None:
        self._file, self._budget = root_file(schema), Budget()
        self._texts = MessageTexts(options, time_zone, self._budget)
        self._compiled: dict[Part, Callable[[bytes], str]] = {}
        self._vectors: list[MessageVectors | None] | None = None  # not made before a value needs them
        self._rows, self._parts = RowDecoder(self._convert, MALFORMED_PROTOBUF), list[Part]()

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode one batch (n rows in, n out, none null), and tell the message of each."""
        self._parts = []
        found = self._by_vectors(values)
        if found is None:
            decoded = self._rows.decode(values)
            return replace(decoded, parts=self._parts)
        content, fields = found  # of the first message, and so is the part () of each
        return replace(self._rows.complete(values, content), fields=fields)

    def _by_vectors(self, values: pa.BinaryArray) -> tuple[pa.StringArray, RecordFields | None] | None:
        """The texts of framed values as far as vectors know them; None where not all are the file's first message."""
        if not pc.all(pc.equal(pc.binary_slice(values, FRAME_BYTES, FRAME_BYTES + 1), _FIRST_MESSAGE)).as_py():
            return None
        if self._vectors is None and self._file.message_types_by_name:
            message = message_at(self._file, FIRST_MESSAGE)
            self._vectors = [MessageVectors.of(message, self._texts, self._budget)]
        vectors = next(iter(self._vectors or []), None)
        return None if vectors is None else vectors.texts(pc.binary_slice(values, FRAME_BYTES + 1, MAX_BYTES))

    def _convert(self, value: bytes) -> str:
        """The JSON text of one framed value. Raises MalformedError."""
        self._parts.append(FIRST_MESSAGE)
        self._budget.reset()
        indexes, start = read_indexes(value, FRAME_BYTES)
        text = self._compiled.get(indexes)
        if text is None:
            text = self._compiled[indexes] = self._text_of(message_at(self._file, indexes))
        self._parts[-1] = indexes
        return text(value[start:])

    def _text_of(self, descriptor: Descriptor) -> Callable[[bytes], str]:
        parse, text, name = (
            GetMessageClass(descriptor).FromString,
            self._texts.text_of(descriptor),
            descriptor.full_name,
        )

        def convert(body: bytes) -> str:
            try:
                message: Any = parse(body)
                if not message.IsInitialized():
                    missing = ", ".join(message.FindInitializationErrors())
                    raise MalformedError(MALFORMED_PROTOBUF, f"a message {name} lacks required fields: {missing}")
                return text(message)
            except DecodeError as error:
                raise MalformedError(MALFORMED_PROTOBUF, f"the bytes are no message {name}: {error}") from None
            except UnicodeDecodeError as error:  # keys of maps
                raise MalformedError(INVALID_UTF8, f"a string in {name} is not UTF-8: {error.reason}") from None

        return convert


def message_at(file: FileDescriptor, indexes: Part) -> Descriptor:
    """The message that `indexes` lead to. Raises MalformedError."""
    messages = list(file.message_types_by_name.values())
    for index in indexes:
        if not 0 <= index < len(messages):
            way = "/".join(map(str, indexes))
            raise MalformedError(SCHEMA_MISMATCH, f"the schema has no message at index {way}")
        found = messages[index]
        # The entries of maps are messages to protoc alone.
        messages = [each for each in found.nested_types if not each.GetOptions().map_entry]
    return found


def read_indexes(value: bytes, pos: int) -> tuple[Part, int]:
    """The message indexes that begin at `pos`, and the position behind them. Raises MalformedError."""
    count, pos = _read_varint(value, pos)
    if count == 0:
        return FIRST_MESSAGE, pos
    if not 0 < count <= MAX_INDEXES:
        raise MalformedError(MALFORMED_PROTOBUF, f"{count} message indexes")
    indexes = []
    for _ in range(count):
        index, pos = _read_varint(value, pos)
        indexes.append(index)
    return tuple(indexes), pos


def _read_varint(data: bytes, pos: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if pos >= len(data) or shift > 28:
            raise MalformedError(MALFORMED_PROTOBUF, "the message indexes end early or are no numbers")
        byte = data[pos]
        number |= (byte & 0x7F) << shift
        pos, shift = pos + 1, shift + 7
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), pos
