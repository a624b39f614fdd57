"""Protobuf messages to JSON text, compiled from their descriptors once.

Rules: io.confluent.connect.protobuf.ProtobufData (schema-registry 7) and the connector's RecordService. Different on
purpose: uint64 beyond 63 bits stays what it is (negative there), decimals are not rounded to their own precision, and
times outside their range are printed where they can be. Not for: bytes (`converter`), schemas (`protobuf_schema` of
`firn.registry`).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto
from google.protobuf.message import Message

from firn.connector.config import ProtobufOptions
from spark_jobs.sink.decode.base import scalars
from spark_jobs.sink.decode.base.contract import MalformedError
from spark_jobs.sink.decode.base.rows import Budget
from spark_jobs.sink.decode.base.scalars import quoted
from spark_jobs.sink.decode.connect import schema as connect
from spark_jobs.sink.decode.connect.values import writer
from spark_jobs.sink.values.bad_records import INVALID_UTF8, SCHEMA_MISMATCH

Text: TypeAlias = Callable[[Any], str]

DECIMAL, DATE, TIME_OF_DAY = "confluent.type.Decimal", "google.type.Date", "google.type.TimeOfDay"
TIMESTAMP = "google.protobuf.Timestamp"
"""Messages that are values of Connect's logical types."""

_EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_NANOS_PER_MILLI = 1_000_000
WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}


def struct_fields(message: Descriptor, options: ProtobufOptions) -> list[tuple[str, FieldDescriptor | OneofDescriptor]]:
    """Names and content of a struct's fields: those of unions before the others, as officially."""
    proto = DescriptorProto()
    message.CopyToProto(proto)
    optional = {each.name for each in proto.field if each.proto3_optional}
    unions = [each for each in message.oneofs if not any(field.name in optional for field in each.fields)]
    in_unions = {field.name for union in unions for field in union.fields}
    others: list[tuple[str, FieldDescriptor | OneofDescriptor]] = [
        (each.name, each) for each in message.fields if each.name not in in_unions
    ]
    if options.flatten_unions:
        return [(field.name, field) for union in unions for field in union.fields] + others
    indexed = options.index_in_union_names
    return [(f"{each.name}_{each.index}" if indexed else each.name, each) for each in unions] + others


class MessageTexts:
    """The texts of messages of one schema. `text_of` gives the function for one kind of message."""

    def __init__(self, options: ProtobufOptions, time_zone: str, budget: Budget) -> None:
        self._options, self._budget = options, budget
        self._structs: dict[str, _Struct] = {}
        self._logical: dict[str, Text] = {
            DECIMAL: _decimal,
            DATE: _date,
            TIME_OF_DAY: lambda message: _time_of_day(message, time_zone),
            TIMESTAMP: _timestamp,
        }

    def text_of(self, message: Descriptor) -> Text:
        """The JSON text of a message as a record's value; MalformedError where it is not what its type promises."""
        if self._options.raw_wrappers and message.full_name in WRAPPERS:
            text = self._value(message.fields_by_name["value"])
            return lambda wrapper: text(wrapper.value)
        if message.full_name not in self._structs:
            # Known before its fields are, so that a field may lead back to it.
            self._structs[message.full_name] = struct = _Struct(self._budget)
            struct.fields = self._fields(message)
        return self._structs[message.full_name].text

    def _fields(self, message: Descriptor) -> list[tuple[str, Text]]:
        return [
            (name, self._field(each) if isinstance(each, FieldDescriptor) else self._union(each))
            for name, each in struct_fields(message, self._options)
        ]

    def field_texts(self, message: Descriptor) -> list[tuple[str, FieldDescriptor | OneofDescriptor, Text]]:
        """Name, content and text of each field of a message as a record's value; none where it is no struct."""
        if self._options.raw_wrappers and message.full_name in WRAPPERS:
            return []
        contents = [each for _, each in struct_fields(message, self._options)]
        return [(name, each, text) for each, (name, text) in zip(contents, self._fields(message), strict=True)]

    def value_text(self, field: FieldDescriptor) -> Text:
        """The text of one value of a field."""
        return self._value(field)

    def _union(self, union: OneofDescriptor) -> Text:
        struct, name = _Struct(self._budget), union.name
        struct.fields = [(field.name, self._field(field)) for field in union.fields]
        return lambda message: struct.text(message) if message.WhichOneof(name) else "null"

    def _field(self, field: FieldDescriptor) -> Text:
        """The text of one field of a message; null where it has presence and is absent."""
        name = field.name
        if field.message_type and field.message_type.GetOptions().map_entry:
            return self._map(name, field.message_type)
        text = self._value(field)
        if field.is_repeated:
            return lambda message: "[" + ",".join(map(text, getattr(message, name))) + "]"
        if field.has_presence:
            return lambda message: text(getattr(message, name)) if message.HasField(name) else "null"
        return lambda message: text(getattr(message, name))

    def _map(self, name: str, entry: Descriptor) -> Text:
        key_field, value_field = entry.fields_by_name["key"], entry.fields_by_name["value"]
        key, value = self._value(key_field), self._value(value_field)
        keyed = key_field.type == FieldDescriptor.TYPE_STRING

        def text(message: Message) -> str:
            entries = getattr(message, name).items()
            return scalars.map_text(((key(each), value(other)) for each, other in entries), keyed=keyed)

        return text

    def _value(self, field: FieldDescriptor) -> Text:
        if field.message_type:
            return self._logical.get(field.message_type.full_name) or self.text_of(field.message_type)
        if field.enum_type:
            return str if self._options.enums_as_numbers else _enum(field.enum_type, self._budget)
        match field.type:
            case FieldDescriptor.TYPE_BOOL:
                return scalars.boolean_text
            case FieldDescriptor.TYPE_FLOAT:
                return scalars.float_text
            case FieldDescriptor.TYPE_DOUBLE:
                return scalars.double_text
            case FieldDescriptor.TYPE_STRING:
                return _string
            case FieldDescriptor.TYPE_BYTES:
                return scalars.base64_text
        return str


class _Struct:
    """An object with one member for each field, also for those that are absent."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._parts: list[tuple[str, Text]] = []
        self._width = 0

    @property
    def fields(self) -> list[tuple[str, Text]]:
        return self._parts

    @fields.setter
    def fields(self, fields: list[tuple[str, Text]]) -> None:
        self._parts = [(quoted(name) + ":", text) for name, text in fields]
        self._width = 2 + sum(len(before) + 1 for before, _ in self._parts)

    def text(self, message: Message) -> str:
        """The object."""
        self._budget.spend(self._width)
        return "{" + ",".join([before + text(message) for before, text in self._parts]) + "}"


def _string(value: str | bytes) -> str:
    if isinstance(value, bytes):  # proto2 does not look at strings when it reads them
        raise MalformedError(INVALID_UTF8, f"a string is not UTF-8: {value[:20]!r}")
    return quoted(value)


def _enum(enum: EnumDescriptor, budget: Budget) -> Text:
    """The name of a value; of several for one number the first, and for an unknown number what Java calls it."""
    names: dict[int, str] = {}
    for value in enum.values:
        names.setdefault(value.number, quoted(value.name))

    def text(number: int) -> str:
        found = names.get(number) or f'"UNKNOWN_ENUM_VALUE_{enum.name}_{number}"'
        budget.spend(len(found))
        return found

    return text


_decimal_text = writer(connect.Schema(connect.Type.BYTES, connect.DECIMAL), "", "")


def _decimal(message: Any) -> str:
    try:
        return _decimal_text(scalars.decimal_of(message.value, message.scale))
    except ValueError as error:
        raise MalformedError(SCHEMA_MISMATCH, f"a confluent.type.Decimal cannot be read: {error}") from None


def _date(message: Any) -> str:
    try:
        day = datetime.date(message.year, message.month, message.day)
    except (ValueError, OverflowError) as error:
        detail = f"a google.type.Date is no day: {message.year}-{message.month}-{message.day} ({error})"
        raise MalformedError(SCHEMA_MISMATCH, detail) from None
    return scalars.date_text(day.toordinal() - _EPOCH_DAY)


def _time_of_day(message: Any, time_zone: str) -> str:
    parts = (message.hours, message.minutes, message.seconds, message.nanos)
    if any(not 0 <= part < limit for part, limit in zip(parts, (24, 60, 60, 1_000_000_000), strict=True)):
        raise MalformedError(SCHEMA_MISMATCH, "a google.type.TimeOfDay is no time: {}:{}:{}, {} ns".format(*parts))
    seconds = (message.hours * 60 + message.minutes) * 60 + message.seconds
    return scalars.time_text(seconds * 1000 + message.nanos // _NANOS_PER_MILLI, time_zone)


def _timestamp(message: Any) -> str:
    return str(message.seconds * 1000 + message.nanos // _NANOS_PER_MILLI)
