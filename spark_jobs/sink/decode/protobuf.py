"""Confluent-framed Protobuf as Confluent's ProtobufConverter reads it: a message's place in its file, and the message.

Behind the schema id stands the way to the message: how many steps, then each step's position among the messages of the
file or of the message before, all as zig-zag varints; a single 0 is the first message of the file. Fields that the
schema does not know are dropped, as officially: without a schema they have neither name nor type.
Source: Confluent Schema Registry, "Wire format". Not for: what a message becomes (`protobuf_types`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import Descriptor, FileDescriptor
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from firn.connector.config import ProtobufOptions
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.budget import Budget
from spark_jobs.sink.decode.frames import FRAME_BYTES
from spark_jobs.sink.decode.protobuf_schema import root_file
from spark_jobs.sink.decode.protobuf_types import MessageTexts
from spark_jobs.sink.decode.records import MalformedError
from spark_jobs.sink.decode.rows import RowDecoder
from spark_jobs.sink.values.bad_records import INVALID_UTF8, MALFORMED_PROTOBUF, SCHEMA_MISMATCH

MAX_STEPS = 100
"""Levels of messages within messages; protoc allows fewer."""


def protobuf_bodies(schema: RegisteredSchema, options: ProtobufOptions, time_zone: str) -> RowDecoder:
    """The decoder of framed values of one Protobuf schema. Raises InvalidSchemaError."""
    return RowDecoder(_Messages(root_file(schema), options, time_zone).convert, MALFORMED_PROTOBUF)


class _Messages:
    def __init__(self, file: FileDescriptor, options: ProtobufOptions, time_zone: str) -> None:
        self._file, self._budget = file, Budget()
        self._texts = MessageTexts(options, time_zone, self._budget)
        self._compiled: dict[tuple[int, ...], Callable[[bytes], str]] = {}

    def convert(self, value: bytes) -> str:
        """The JSON text of one framed value. Raises MalformedError."""
        self._budget.reset()
        steps, start = read_steps(value, FRAME_BYTES)
        text = self._compiled.get(steps)
        if text is None:
            text = self._compiled[steps] = self._text_of(message_at(self._file, steps))
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


def messages_of(values: pa.BinaryArray) -> list[tuple[int, ...]]:
    """The way to the message of each of n framed values, all of which were decoded; that to the first for null."""
    return [(0,) if value is None else read_steps(value, FRAME_BYTES)[0] for value in values.to_pylist()]


def read_steps(value: bytes, pos: int) -> tuple[tuple[int, ...], int]:
    """The way to the message that begins at `pos`, and the position behind it. Raises MalformedError."""
    count, pos = _read_varint(value, pos)
    if count == 0:
        return (0,), pos
    if not 0 < count <= MAX_STEPS:
        raise MalformedError(MALFORMED_PROTOBUF, f"{count} message indexes")
    steps = []
    for _ in range(count):
        step, pos = _read_varint(value, pos)
        steps.append(step)
    return tuple(steps), pos


def message_at(file: FileDescriptor, steps: Sequence[int]) -> Descriptor:
    """The message that `steps` lead to. Raises MalformedError."""
    messages = list(file.message_types_by_name.values())
    for step in steps:
        if not 0 <= step < len(messages):
            way = "/".join(map(str, steps))
            raise MalformedError(SCHEMA_MISMATCH, f"the schema has no message at index {way}")
        found = messages[step]
        # The entries of maps are messages to protoc alone.
        messages = [each for each in found.nested_types if not each.GetOptions().map_entry]
    return found


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
