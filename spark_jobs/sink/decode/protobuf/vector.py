"""Whole batches of Protobuf messages of one type to JSON text: ptars (Rust) reads columns, Arrow prints them.

It only ever answers what the row decoder would: where a batch is in any doubt, it is halved until few rows beside the
doubtful ones are left, and these come back as null. protobuf's own parser reads every batch first, as one message that
repeats the others, and so decides what is a message. ptars then reads a stand-in of the type: its singular fields of
scalar types, enums and timestamps, an enum as its number. All other fields are printed from the messages of protobuf's
parser, one by one.
Not for what a message becomes (`values`), nor for Confluent's framing (`converter`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import ptars
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from spark_jobs.sink.decode.base import contract
from spark_jobs.sink.decode.base.capacity import counted_by_arrow, one_array, string_array, text_bytes
from spark_jobs.sink.decode.base.contract import OutputTooLargeError
from spark_jobs.sink.decode.base.field_columns import FieldColumn, RecordFields
from spark_jobs.sink.decode.base.rows import Budget
from spark_jobs.sink.decode.base.scalars import double_text, float_text, quoted
from spark_jobs.sink.decode.base.texts import Parts, as_text, base64_strings, field_parts, join, python_double_texts
from spark_jobs.sink.decode.protobuf.values import TIMESTAMP, MessageTexts, Text

FEW = 256
"""So many rows cost the row decoder about as much as one more attempt."""
_MOST_GROWTH = 8
"""Bytes of text that one byte of a message becomes at most, names and defaults aside: a control character's is six."""
_LONGEST_DEFAULT = len("false,")
_MOST_SECONDS = 10**15
_ROWS, _STAMP = "rows", "Stamp"

_Column: TypeAlias = Callable[[pa.Array], FieldColumn]


@dataclass(frozen=True)
class _Member:
    """A field of the JSON object. column: makes the field's column out of that of the stand-in; None: `text` has to."""

    name: str
    before: str
    field: FieldDescriptor | OneofDescriptor
    text: Text
    column: _Column | None


class MessageVectors:
    """Messages of one type. Not thread-safe."""

    def __init__(self, message: Descriptor, members: list[_Member], budget: Budget) -> None:
        self._members, self._budget = members, budget
        self._parse = GetMessageClass(_repeated(message)).FromString
        self._columns = _reader([each.field for each in members if each.column])
        self._fields: RecordFields | None = None
        self._width = 2 + sum(len(each.before.encode()) + _LONGEST_DEFAULT for each in members)

    @classmethod
    def of(cls, message: Descriptor, texts: MessageTexts, budget: Budget) -> MessageVectors | None:
        """The messages of this type as values of records; None where there is nothing to gain."""

        def before(at: int, name: str) -> str:
            return ("," if at else "{") + quoted(name) + ":"

        proto = DescriptorProto()
        message.CopyToProto(proto)
        optional = {each.name for each in proto.field if each.proto3_optional}
        members = [
            _Member(name, before(at, name), field, text, _column_of(field, optional, texts, budget))
            for at, (name, field, text) in enumerate(texts.field_texts(message))
        ]
        gain = members and 2 * sum(each.column is not None for each in members) >= len(members)
        return cls(message, members, budget) if gain else None

    def texts(self, bodies: pa.BinaryArray) -> tuple[pa.StringArray, RecordFields | None]:
        """JSON text per message (n bodies in, n out, none null); null where rows have to look. And their fields.

        There are fields where all bodies were read at once. Raises OutputTooLargeError.
        """
        self._fields = None
        texts = one_array(self._pieces(bodies))
        return texts, self._fields

    def _pieces(self, bodies: pa.BinaryArray) -> Iterator[pa.StringArray]:
        todo = [bodies]
        while todo:
            part = todo.pop()
            texts = self._attempt(part)
            if texts is not None:
                yield texts
            elif len(part) <= FEW:
                yield pa.nulls(len(part), pa.string())
            else:
                half = len(part) // 2
                todo += [part.slice(half), part.slice(0, half)]

    def _attempt(self, bodies: pa.BinaryArray) -> pa.StringArray | None:
        """The texts of all bodies at once; None where their halves, or rows, have to look."""
        if len(bodies) * self._width + _MOST_GROWTH * bodies.nbytes > contract.MAX_TEXT:
            return None
        try:
            with counted_by_arrow():
                return self._all(bodies)
        except BaseException as fault:
            # A panic of Rust is no Exception; what a person or the interpreter raises passes on.
            if isinstance(fault, KeyboardInterrupt | SystemExit | GeneratorExit):
                raise
        return None

    def _all(self, bodies: pa.BinaryArray) -> pa.StringArray | None:
        parsed: Any = self._parse(_as_one(bodies))
        if not parsed.IsInitialized():
            return None
        batch, messages = self._columns(bodies), None
        parts: Parts = []
        columns: dict[str, FieldColumn | pa.StringArray] = {}
        for member in self._members:
            if member.column is not None:
                column = member.column(batch.column(f"f{member.field.number}"))  # type: ignore[union-attr]
                columns[member.name] = column
                parts += [member.before, *field_parts(column)]
                continue
            messages = list(parsed.rows) if messages is None else messages
            columns[member.name] = texts = string_array(self._one_by_one(member.text, messages))
            parts += [member.before, texts]
        texts = join([*parts, "}"])
        self._fields = RecordFields(texts, columns)
        return texts if text_bytes(texts) <= contract.MAX_TEXT else None

    def _one_by_one(self, text: Text, messages: list[Any]) -> Iterator[str]:
        for message in messages:
            self._budget.reset()
            yield text(message)


def _column_of(
    field: FieldDescriptor | OneofDescriptor, optional: set[str], texts: MessageTexts, budget: Budget
) -> _Column | None:
    """What makes the column of a field; None where only its messages can be printed. optional: names of such fields."""
    if not isinstance(field, FieldDescriptor) or field.is_repeated:
        return None
    if field.containing_oneof and field.name not in optional:
        return None  # one field of a union takes the place of another
    if field.message_type:
        return _stamps if field.message_type.full_name == TIMESTAMP else None
    if field.enum_type:
        return None if field.enum_type.is_closed else _enum_column(texts.value_text(field), budget)
    found: _Column = _COLUMNS.get(field.type, _numbers)
    return found


def _numbers(values: pa.Array) -> FieldColumn:
    return FieldColumn(values, as_text)


def _enum_column(text: Text, budget: Budget) -> _Column:
    """The texts of an enum's numbers, each made once: names, or the numbers themselves."""

    def column(values: pa.Array) -> FieldColumn:
        encoded = values.dictionary_encode()
        budget.reset()
        found = [text(number) for number in encoded.dictionary.to_pylist()]
        if not all(each.startswith('"') for each in found):
            return _numbers(values)
        names = pa.array([each[1:-1] for each in found], pa.string())
        if (pc.sum(pc.binary_length(names).take(encoded.indices)).as_py() or 0) > contract.MAX_TEXT:
            raise OutputTooLargeError
        return FieldColumn(names.take(encoded.indices))

    return column


def _stamps(values: pa.StructArray) -> FieldColumn:
    """Milliseconds of google.protobuf.Timestamp. Raises ValueError where Arrow's integers do not hold them."""
    seconds, nanos = values.field("f1"), values.field("f2")
    least, most = pc.min_max(seconds).values()
    if least.is_valid and not (-_MOST_SECONDS < least.as_py() <= most.as_py() < _MOST_SECONDS):
        raise ValueError("a timestamp beyond what vectors count")
    if pc.any(pc.less(nanos, 0)).as_py():
        raise ValueError("a timestamp that Arrow would round towards zero")
    millis = pc.add(pc.multiply(seconds, 1000), pc.divide(nanos, 1_000_000).cast(pa.int64()))
    if values.null_count:
        millis = pc.if_else(values.is_valid(), millis, pa.scalar(None, pa.int64()))
    return FieldColumn(millis, as_text)


_COLUMNS: dict[int, _Column] = {
    FieldDescriptor.TYPE_STRING: FieldColumn,
    FieldDescriptor.TYPE_BYTES: lambda values: FieldColumn(values, base64_strings),
    FieldDescriptor.TYPE_FLOAT: lambda values: FieldColumn(values, lambda v: python_double_texts(v, float_text)),
    FieldDescriptor.TYPE_DOUBLE: lambda values: FieldColumn(values, lambda v: python_double_texts(v, double_text)),
}


def _repeated(message: Descriptor) -> Descriptor:
    """A message that repeats `message` as its field `rows`."""
    pool = message.file.pool
    name = f"firn_rows_{message.full_name.replace('.', '_')}_{id(pool)}"
    file = FileDescriptorProto(name=f"{name}.proto", package=name, syntax="proto3", dependency=[message.file.name])
    file.message_type.add(name="Rows").field.add(
        name=_ROWS,
        number=1,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=f".{message.full_name}",
        label=FieldDescriptorProto.LABEL_REPEATED,
    )
    pool.Add(file)
    return pool.FindMessageTypeByName(f"{name}.Rows")


def _reader(fields: list[Any]) -> Callable[[pa.BinaryArray], pa.RecordBatch]:
    """What reads these fields of messages, as columns f<number>."""
    file = FileDescriptorProto(name="stand_in.proto", package="stand_in", syntax="proto3")
    stamp = file.message_type.add(name=_STAMP)
    stamp.field.add(name="f1", number=1, type=FieldDescriptorProto.TYPE_INT64, label=1)
    stamp.field.add(name="f2", number=2, type=FieldDescriptorProto.TYPE_INT32, label=1)
    row = file.message_type.add(name="Row")
    for field in fields:
        kind = FieldDescriptorProto.TYPE_INT32 if field.enum_type else field.type
        proto = row.field.add(name=f"f{field.number}", number=field.number, type=kind, label=1)
        if field.message_type:
            proto.type_name = f".stand_in.{_STAMP}"
        elif field.has_presence:
            row.oneof_decl.add(name=f"_f{field.number}")
            proto.proto3_optional, proto.oneof_index = True, len(row.oneof_decl) - 1
    pool = DescriptorPool()
    pool.Add(file)
    found = pool.FindFileByName(file.name)
    read: Callable[[pa.BinaryArray], pa.RecordBatch] = (
        ptars.HandlerPool([found]).get_for_message(found.message_types_by_name["Row"]).array_to_record_batch
    )
    return read


def _as_one(bodies: pa.BinaryArray) -> bytes:
    """The bodies as rows of the message that repeats them: tag and length in front of each."""
    lengths = pc.binary_length(bodies).to_numpy()
    sizes, which = np.unique(lengths, return_inverse=True)
    fronts = pa.array([b"\x0a" + _varint(size) for size in sizes.tolist()], pa.binary())
    joined = pc.binary_join_element_wise(fronts.take(pa.array(which)), bodies, b"")
    bounds = np.frombuffer(joined.buffers()[1], np.int32)
    return joined.buffers()[2].to_pybytes()[bounds[0] : bounds[len(joined)]]  # type: ignore[no-any-return]


def _varint(number: int) -> bytes:
    """Base 128, least significant group first."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
