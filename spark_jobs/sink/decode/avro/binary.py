"""Avro's binary encoding: numbers, spans and blocks, their limits, and the types that hold no others.

Source: Avro 1.12, "Binary Encoding". Everything is bounded by the bytes that are there, except what takes none:
MAX_EMPTY_ITEMS items and MAX_FREE_FIELDS fields of those in one value. A few bytes may still name a lot of text, as the
symbols of an enum: MAX_TEXT of it in one value. Not for arrays, maps, unions and records (`values`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

from spark_jobs.sink.decode.avro.schema import Enum, Fixed, Scalar
from spark_jobs.sink.decode.base import contract, scalars
from spark_jobs.sink.decode.base.contract import MalformedError
from spark_jobs.sink.decode.base.json_text import number_text
from spark_jobs.sink.values.bad_records import MALFORMED_AVRO, TOO_LARGE

MAX_EMPTY_ITEMS = 100_000
MAX_FREE_FIELDS = 1_000_000
MAX_TEXT = contract.MAX_TEXT
_MASK = (1 << 64) - 1

# Reads one value of `data` at a position, appends its JSON to the parts, returns the position behind it.
Reader: TypeAlias = Callable[[bytes, int, list[str]], int]


class Limits:
    """What was used up within one value."""

    depth = 0
    empty_items = 0
    free_fields = 0
    text = 0

    def reset(self) -> None:
        """Begin a new value."""
        self.depth = self.empty_items = self.free_fields = self.text = 0


def too_large(detail: str) -> MalformedError:
    """The error of a value that becomes more than one row may take."""
    return MalformedError(TOO_LARGE, detail)


def malformed(detail: str) -> MalformedError:
    """The error of bytes that no writer of this schema wrote."""
    return MalformedError(MALFORMED_AVRO, detail)


def read_long(data: bytes, pos: int) -> tuple[int, int]:
    """A zig-zag number of at most ten bytes and the position behind it; IndexError where the bytes end."""
    byte = data[pos]
    pos += 1
    value, shift = byte & 0x7F, 7
    while byte & 0x80:
        if shift > 63:
            raise malformed("a number takes more than ten bytes")
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    value &= _MASK
    return (value >> 1) ^ -(value & 1), pos


def read_span(data: bytes, pos: int) -> tuple[int, int]:
    """Start and end of a length-prefixed run of bytes."""
    length, pos = read_long(data, pos)
    if not 0 <= length <= len(data) - pos:
        raise malformed(f"a length of {length} where {len(data) - pos} bytes are left")
    return pos, pos + length


def read_int(data: bytes, pos: int) -> tuple[int, int]:
    """A number that fits 32 bits and the position behind it."""
    value, pos = read_long(data, pos)
    if not -(1 << 31) <= value < 1 << 31:
        raise malformed(f"{value} is not an int")
    return value, pos


def read_blocks(data: bytes, pos: int, item: Callable[[int], int], limits: Limits, empty: bool) -> int:
    """Calls `item`, which takes and returns a position, for each item of an array or map; the position behind them.

    empty: whether an item may take no bytes at all.
    """
    while True:
        count, pos = read_long(data, pos)
        if count == 0:
            return pos
        if count < 0:
            count = -count
            _, pos = read_long(data, pos)
        if empty:
            limits.empty_items += count
        if limits.empty_items > MAX_EMPTY_ITEMS or (not empty and count > len(data) - pos):
            raise malformed(f"a block of {count} items where {len(data) - pos} bytes are left")
        for _ in range(count):
            pos = item(pos)


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
