"""Readers of the types that hold no others: from bytes to the JSON text of one value.

Not for: arrays, maps, unions and records, which `reference` builds out of these.
"""

from __future__ import annotations

import struct

from spark_jobs.sink.decode import scalars
from spark_jobs.sink.decode.json_text import number_text
from spark_jobs.sink.decode.schema import Enum, Fixed, Scalar
from spark_jobs.sink.decode.wire import Reader, malformed, read_int, read_long, read_span

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def constant(text: str) -> Reader:
    """The reader of a type that takes no bytes and always has the same text."""

    def read(_data: bytes, pos: int, out: list[str]) -> int:
        out.append(text)
        return pos

    return read


def _boolean(data: bytes, pos: int, out: list[str]) -> int:
    byte = data[pos]
    if byte > 1:
        raise malformed(f"{byte} is not a boolean")
    out.append(scalars.boolean_text(bool(byte)))
    return pos + 1


def _int(data: bytes, pos: int, out: list[str]) -> int:
    value, pos = read_int(data, pos)
    out.append(str(value))
    return pos


def _long(data: bytes, pos: int, out: list[str]) -> int:
    value, pos = read_long(data, pos)
    out.append(str(value))
    return pos


def _float(data: bytes, pos: int, out: list[str]) -> int:
    out.append(scalars.float_text(_FLOAT.unpack_from(data, pos)[0]))
    return pos + 4


def _double(data: bytes, pos: int, out: list[str]) -> int:
    out.append(scalars.double_text(_DOUBLE.unpack_from(data, pos)[0]))
    return pos + 8


def _string(data: bytes, pos: int, out: list[str]) -> int:
    pos, end = read_span(data, pos)
    out.append(scalars.quoted(data[pos:end].decode()))
    return end


def _bytes(data: bytes, pos: int, out: list[str]) -> int:
    pos, end = read_span(data, pos)
    out.append(scalars.base64_text(data[pos:end]))
    return end


def _date(data: bytes, pos: int, out: list[str]) -> int:
    days, pos = read_int(data, pos)
    out.append(scalars.date_text(days))
    return pos


def decimal_text(raw: bytes, scale: int) -> str:
    """The text of a decimal in Avro's bytes. Raises MalformedError."""
    try:
        exact = scalars.decimal_of(raw, scale)
    except ValueError as error:
        raise malformed(str(error)) from None
    return scalars.decimal_text(exact) if scale >= -scalars.MAX_PLAIN_SCALE else number_text(str(exact))


_SCALARS: dict[tuple[str, str], Reader] = {
    ("null", ""): constant("null"),
    ("boolean", ""): _boolean,
    ("int", ""): _int,
    ("int", "date"): _date,
    ("long", ""): _long,
    ("float", ""): _float,
    ("double", ""): _double,
    ("string", ""): _string,
    ("bytes", ""): _bytes,
}


def scalar_reader(node: Scalar, time_zone: str) -> Reader:
    """The reader of a primitive type; `time_zone` is what a time of day ends with."""
    if node.logical == "time-millis":
        return _time(time_zone)
    if node.logical == "decimal":
        return _decimal_bytes(node.scale)
    return _SCALARS[node.kind, node.logical]


def _time(zone: str) -> Reader:
    def read(data: bytes, pos: int, out: list[str]) -> int:
        millis, pos = read_int(data, pos)
        out.append(scalars.time_text(millis, zone))
        return pos

    return read


def _decimal_bytes(scale: int) -> Reader:
    def read(data: bytes, pos: int, out: list[str]) -> int:
        pos, end = read_span(data, pos)
        out.append(decimal_text(data[pos:end], scale))
        return end

    return read


def fixed_reader(node: Fixed) -> Reader:
    """The reader of a fixed, which may hold a decimal."""
    size, scale, is_decimal = node.size, node.scale, node.logical == "decimal"

    def read(data: bytes, pos: int, out: list[str]) -> int:
        raw = data[pos : pos + size]
        if len(raw) < size:
            raise IndexError
        out.append(decimal_text(raw, scale) if is_decimal else scalars.base64_text(raw))
        return pos + size

    return read


def enum_reader(node: Enum) -> Reader:
    """The reader of an enum: the symbol as a string."""
    symbols = [scalars.quoted(symbol) for symbol in node.symbols]

    def read(data: bytes, pos: int, out: list[str]) -> int:
        number, pos = read_long(data, pos)
        if not 0 <= number < len(symbols):
            raise malformed(f"symbol {number} of an enum of {len(symbols)}")
        out.append(symbols[number])
        return pos

    return read
