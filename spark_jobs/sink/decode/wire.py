"""The bytes of Avro's binary encoding: numbers, spans, blocks, and the limits that keep them finite.

Source: Avro 1.12, "Binary Encoding". Everything is bounded by the bytes that are there, except what takes none:
MAX_EMPTY_ITEMS items and MAX_FREE_FIELDS fields of those in one value. A few bytes may still name a lot of text, as the
symbols of an enum: MAX_TEXT of it in one value. Not for: what the bytes mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from spark_jobs.sink.decode import records
from spark_jobs.sink.decode.records import MalformedError
from spark_jobs.sink.values.bad_records import MALFORMED_AVRO, TOO_LARGE

MAX_EMPTY_ITEMS = 100_000
MAX_FREE_FIELDS = 1_000_000
MAX_TEXT = records.MAX_TEXT
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
