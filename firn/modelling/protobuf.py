"""A Protobuf message as a neutral description of what a sink writes for it, with the converter's default parameters.

Rules: io.confluent.connect.protobuf.ProtobufData (schema-registry 7), as the sink follows them: a oneof is an object
with a member for each of its fields, wrappers are plain values, enums are names. Not for compiling .proto texts
(`firn.registry.protobuf_schema`).
"""

from __future__ import annotations

from collections.abc import Mapping

from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor, OneofDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto

from firn.errors import ConfigError
from firn.modelling.description import VARIANT, Array, Described, Field, Kind, Map, Record, Scalar, Type

_SCALARS = {
    FieldDescriptor.TYPE_BOOL: Scalar(Kind.BOOLEAN),
    FieldDescriptor.TYPE_FLOAT: Scalar(Kind.FLOAT),
    FieldDescriptor.TYPE_DOUBLE: Scalar(Kind.FLOAT),
    FieldDescriptor.TYPE_STRING: Scalar(Kind.TEXT),
    FieldDescriptor.TYPE_BYTES: Scalar(Kind.BINARY),
}
# Each confluent.type.Decimal tells its own scale: no NUMBER is sure to hold it.
_MESSAGES = {
    "google.protobuf.Timestamp": Scalar(Kind.TIMESTAMP_MILLIS),
    "google.type.Date": Scalar(Kind.DATE),
    "google.type.TimeOfDay": Scalar(Kind.TIME),
    "confluent.type.Decimal": Scalar(Kind.TEXT),
}
_WRAPPED = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
_WRAPPERS = {f"google.protobuf.{name}Value" for name in _WRAPPED}


def describe_protobuf(file: FileDescriptor, message: str | None, comments: Mapping[str, str]) -> Described:
    """What a sink writes for values of a message of this file: the one of this name, or the first.

    comments: on messages, fields and oneofs, by full name (`firn.registry.protobuf_schema.comments`).

    Raises ConfigError where the file has no message of this name.
    """
    messages = file.message_types_by_name
    found = next(iter(messages.values()), None) if message is None else messages.get(message)
    if found is None:
        raise ConfigError(
            f"The schema has no message {message or 'at all'}.",
            where=f"messages of the schema: {', '.join(messages) or 'none'}",
            next_step="Name one of them with --message.",
        )
    return Described(_Reader(comments).message(found))


class _Reader:
    """Walks one message, each kind of message once. A message inside itself has no description: a VARIANT."""

    def __init__(self, comments: Mapping[str, str]) -> None:
        self._comments = comments
        self._known: dict[str, Type | None] = {}

    def message(self, message: Descriptor) -> Type:
        """A message that is no value of its own."""
        if message.full_name not in self._known:
            self._known[message.full_name] = None
            found = tuple(
                self._field(each) if isinstance(each, FieldDescriptor) else self._union(name, each)
                for name, each in _members(message)
            )
            doc = self._comments.get(message.full_name, "")
            self._known[message.full_name] = Record(found, doc) if found else VARIANT
        return self._known[message.full_name] or VARIANT

    def _union(self, name: str, union: OneofDescriptor) -> Field:
        members = tuple(self._member(each, self._single(each), nullable=True) for each in union.fields)
        return Field(name, Record(members), nullable=True, doc=self._comments.get(union.full_name, ""))

    def _field(self, field: FieldDescriptor) -> Field:
        entry = field.message_type
        if entry and entry.GetOptions().map_entry:
            key, values = entry.fields_by_name["key"], self._single(entry.fields_by_name["value"])
            text = key.type == FieldDescriptor.TYPE_STRING
            return self._member(field, Map(values, pairs=not text, keys=self._single(key)), nullable=False)
        if field.is_repeated:
            return self._member(field, Array(self._single(field)), nullable=False)
        return self._member(field, self._single(field), nullable=field.has_presence and not field.is_required)

    def _member(self, field: FieldDescriptor, type: Type, *, nullable: bool) -> Field:
        """A field with its comment, or else that of its message."""
        doc = self._comments.get(field.full_name) or (type.doc if isinstance(type, Record) else "")
        return Field(field.name, type, nullable, doc)

    def _single(self, field: FieldDescriptor) -> Type:
        message = field.message_type
        if message and message.full_name in _WRAPPERS:
            return self._single(message.fields_by_name["value"])
        if message:
            return _MESSAGES.get(message.full_name) or self.message(message)
        if field.enum_type:
            return Scalar(Kind.TEXT, symbols=tuple(each.name for each in field.enum_type.values))
        return _SCALARS.get(field.type, Scalar(Kind.INTEGER))


def _members(message: Descriptor) -> list[tuple[str, FieldDescriptor | OneofDescriptor]]:
    """The members of the object that a message becomes: its oneofs, with their index in the name, then the others."""
    proto = DescriptorProto()
    message.CopyToProto(proto)
    optional = {each.name for each in proto.field if each.proto3_optional}
    unions = [each for each in message.oneofs if not any(field.name in optional for field in each.fields)]
    inside = {field.name for union in unions for field in union.fields}
    others: list[tuple[str, FieldDescriptor | OneofDescriptor]] = [
        (each.name, each) for each in message.fields if each.name not in inside
    ]
    return [(f"{each.name}_{each.index}", each) for each in unions] + others
