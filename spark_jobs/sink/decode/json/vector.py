"""Whole batches of JSON objects of one schema to JSON text, by msgspec (C): the quick way beside the row by row one.

msgspec reads each object into a struct with a typed attribute for each field, and prints all structs at once. It only
ever answers what the row decoder would: an object in any doubt (a value of another type, a field that the schema does
not name, a number that msgspec prints in another form) comes back as null, for the row decoder to decide. Fields of
plain types (`plain_type`) are msgspec's alone; the text of every other field is cut out untouched, and the schema's own
function turns it into text.
Not for what a schema means (`schema`, `connect_json`), nor for values that are no objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.sink.decode.base import contract, json_text
from spark_jobs.sink.decode.base.capacity import text_bytes
from spark_jobs.sink.decode.base.contract import MalformedError
from spark_jobs.sink.decode.base.scalars import quoted
from spark_jobs.sink.decode.connect.schema import DATE, TIME, Schema, Type

Structs: TypeAlias = list[Any]

_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_INTEGERS = {
    kind: Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)] for kind, bits in _BITS.items()
}
_PLAIN: dict[Type, Any] = {**_INTEGERS, Type.FLOAT64: float, Type.BOOLEAN: bool, Type.STRING: str}
_LEAST_PLAIN, _FIRST_EXPONENT = 1e-4, 1e15
"""Between them doubles are printed without an exponent, by msgspec as by Python."""
_NULL = msgspec.Raw(b"null")
_MOST_GROWTH = 8
"""Bytes of text that one byte of a number or string becomes at most: `1e9` is 1000000000.0."""
_REFUSED = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
_ENCODER = msgspec.json.Encoder()


def plain_type(schema: Schema) -> Any | None:
    """The Python type of which msgspec reads and prints just the values of `schema`; None where there is none."""
    return None if schema.type is Type.INT32 and schema.name in (DATE, TIME) else _PLAIN.get(schema.type)


@dataclass(frozen=True)
class Field:
    """One field of the objects. text: its JSON text, from the parsed value; raises MalformedError.

    plain: the Python type of its values (`plain_type`); None where `text` has to look, as for a field with a default.
    required: whether it must be there and not be null.
    """

    name: str
    text: Callable[[Any], str]
    plain: Any | None
    required: bool


class ObjectVectors:
    """Objects with given fields, a batch at a time. Not thread-safe."""

    def __init__(self, record: type[msgspec.Struct], fields: Sequence[Field]) -> None:
        names = [(f"f{at}", field) for at, field in enumerate(fields)]
        self._doubles = [attrgetter(name) for name, field in names if field.plain is float]
        self._others = [(name, field.text) for name, field in names if field.plain is None]
        self._decode = msgspec.json.Decoder(record).decode
        # What is absent from an object, its text has nevertheless.
        self._width = sum(len(quoted(field.name).encode()) + len(":null,") for field in fields if not field.required)

    @classmethod
    def of(cls, fields: Sequence[Field]) -> ObjectVectors | None:
        """The objects with these fields, in their order; None where there is nothing to gain, or a name is no name."""
        if 2 * sum(field.plain is not None for field in fields) < len(fields) or not fields:
            return None
        try:
            return cls(_struct(fields), fields)
        except ValueError:  # a name that JSON has to escape
            return None

    def texts(self, values: pa.BinaryArray) -> pa.StringArray:
        """JSON text per object (n texts of JSON in, n out); null where there is none and where rows have to look."""
        if len(values) * self._width + _MOST_GROWTH * values.nbytes > contract.MAX_TEXT:
            return pa.nulls(len(values), pa.string())
        structs = self._structs(values)
        sure = self._sure(structs)
        rows = np.flatnonzero(sure)
        if not len(rows):
            return pa.nulls(len(values), pa.string())
        texts = _lines(structs if len(rows) == len(structs) else [structs[row] for row in rows])
        if text_bytes(texts) > contract.MAX_TEXT:  # one text may be longer than it may
            return pa.nulls(len(values), pa.string())
        if len(rows) == len(values):
            return texts
        positions = np.zeros(len(values), np.int64)
        positions[rows] = np.arange(len(rows))
        return texts.take(pa.array(positions, mask=~sure))

    def _structs(self, values: pa.BinaryArray) -> Structs:
        """A struct for each value, None where there is none."""
        texts = values.to_pylist()
        try:
            structs: Structs = list(map(self._decode, texts))
        except (*_REFUSED, TypeError):  # TypeError: there is none
            structs = list(self._one_by_one(texts))
        return self._settled(structs) if self._others else structs

    def _settled(self, structs: Structs) -> Structs:
        """The structs with the texts of fields that are not plain; None where there is none, or all are too long."""
        size = 0
        for row, struct in enumerate(structs):
            for name, text in self._others if struct is not None else ():
                found = _text(getattr(struct, name), text)
                size += 0 if found is None else len(found)
                if found is None or size > contract.MAX_TEXT:
                    structs[row] = None
                    break
                setattr(struct, name, msgspec.Raw(found))
            if size > contract.MAX_TEXT:
                return [None] * len(structs)
        return structs

    def _one_by_one(self, texts: Sequence[bytes | None]) -> Iterator[Any]:
        for text in texts:
            try:
                yield None if text is None else self._decode(text)
            except _REFUSED:
                yield None

    def _sure(self, structs: Structs) -> npt.NDArray[np.bool_]:
        """Which structs are there, and print their doubles as Python does."""
        sure = np.fromiter((struct is not None for struct in structs), np.bool_, len(structs))
        for double in self._doubles:
            found = [None if struct is None else double(struct) for struct in structs]
            sizes = pc.abs(pa.array(found, pa.float64()))
            plain = pc.or_(
                pc.equal(sizes, 0.0),
                pc.and_(pc.greater_equal(sizes, _LEAST_PLAIN), pc.less(sizes, _FIRST_EXPONENT)),
            )
            sure &= pc.fill_null(plain, fill_value=True).to_numpy(zero_copy_only=False)
        return sure


def _struct(fields: Sequence[Field]) -> type[msgspec.Struct]:
    """The struct of objects with these fields. Raises ValueError where a name cannot stand in JSON as it is."""
    members: list[Any] = []
    for at, field in enumerate(fields):
        if field.plain is None:
            members.append((f"f{at}", msgspec.Raw, _NULL))
        else:
            members.append((f"f{at}", field.plain) if field.required else (f"f{at}", field.plain | None, None))
    names = {f"f{at}": field.name for at, field in enumerate(fields)}
    return msgspec.defstruct("Record", members, rename=names, kw_only=True, forbid_unknown_fields=True, gc=False)


def _text(raw: msgspec.Raw, text: Callable[[Any], str]) -> bytes | None:
    """The text of a field that is not plain; None where it has none."""
    try:
        return text(json_text.parse(json_text.utf8(bytes(raw)))).encode()
    except (MalformedError, RecursionError, MemoryError):
        return None


def _lines(structs: Structs) -> pa.StringArray:
    """The JSON text of each struct."""
    lines = _ENCODER.encode_lines(structs)
    ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == ord("\n")) + 1  # a JSON text of msgspec holds no other
    offsets = np.concatenate([np.zeros(1, np.int64), ends]).astype(np.int32)
    array = pa.Array.from_buffers(
        pa.binary(), len(structs), [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(lines)]
    )
    return pc.binary_slice(array, 0, -1).view(pa.string())
