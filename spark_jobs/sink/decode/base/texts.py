"""Columns of JSON text, made and joined a whole batch at a time in Arrow.

Not for single values (`scalars`), nor for what a format's columns mean.
"""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.sink.decode.base import capacity
from spark_jobs.sink.decode.base.capacity import string_array
from spark_jobs.sink.decode.base.contract import OutputTooLargeError
from spark_jobs.sink.decode.base.field_columns import FieldColumn
from spark_jobs.sink.decode.base.scalars import quoted

Parts: TypeAlias = list[str | pa.StringArray]
_LONGEST_ESCAPE = 6
_LEAST_PLAIN, _FIRST_EXPONENT = 1e-4, 1e10
"""Between them doubles are printed without an exponent, by Arrow as by Python."""
# A surrogate in three bytes, or the first two of them where the third is missing. Python sees an error in each byte.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()


def join(parts: Parts) -> pa.StringArray:
    """One text per row: the parts one after the other; null where an array among them is null."""
    merged: Parts = []
    for part in parts:
        if merged and isinstance(part, str) and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    return merged[0] if len(merged) == 1 else pc.binary_join_element_wise(*merged, "")


def escaped(text: pa.StringArray) -> pa.StringArray:
    """The text as it stands between the quotes of a JSON string."""
    raw = _bytes_of(text)
    # One pass over the bytes tells that nothing is to be done, which is the rule.
    marked = np.count_nonzero((raw < 0x20) | (raw == 0x22) | (raw == 0x5C))
    if not marked:
        return text
    if len(raw) + _LONGEST_ESCAPE * marked > capacity.MAX_BYTES:
        raise OutputTooLargeError  # Arrow does not notice
    special = sorted({0x5C, 0x22} | {int(byte) for byte in np.unique(raw) if byte < 0x20}, reverse=True)
    for byte in special:
        text = pc.replace_substring(text, chr(byte), quoted(chr(byte))[1:-1])
    return text


def _bytes_of(text: pa.StringArray) -> npt.NDArray[np.uint8]:
    """The bytes of all rows; a slice shares its buffer with many other rows."""
    data = text.buffers()[2]
    if data is None:
        return np.zeros(0, np.uint8)
    bounds = capacity.text_bounds(text)
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]


def double_texts(values: pa.Array) -> pa.StringArray:
    """Shortest round-trip texts of doubles or floats; `.0` behind whole numbers; NaN and infinities as strings."""
    text = values.cast(pa.string())
    whole = pc.and_(pc.less(pc.abs(values), 1e10), pc.equal(pc.trunc(values), values))
    if pc.any(whole).as_py():
        text = pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
    finite = pc.is_finite(values)
    if pc.all(finite).as_py() is False:
        infinite = pc.if_else(pc.greater(values, 0), '"Infinity"', '"-Infinity"')
        text = pc.if_else(finite, text, pc.if_else(pc.is_nan(values), '"NaN"', infinite))
    return text


def python_double_texts(values: pa.Array, text: Callable[[float], str]) -> pa.StringArray:
    """The texts that `text` (`scalars.double_text` or `float_text`) has for doubles or floats; null stays null.

    Arrow prints another form of numbers that are very small or large, which are rare.
    """
    sizes = pc.abs(values)
    plain = pc.or_(pc.equal(sizes, 0), pc.and_(pc.greater_equal(sizes, _LEAST_PLAIN), pc.less(sizes, _FIRST_EXPONENT)))
    texts = values.cast(pa.string())
    whole = pc.and_(plain, pc.equal(pc.trunc(values), values))
    if pc.any(whole).as_py():
        texts = pc.if_else(whole, pc.binary_join_element_wise(texts, ".0", ""), texts)
    if pc.all(plain).as_py() is False:
        others = pc.invert(plain)
        texts = pc.replace_with_mask(texts, pc.fill_null(others, fill_value=False), _printed(values, others, text))
    return texts


def _printed(values: pa.Array, rows: pa.BooleanArray, text: Callable[[float], str]) -> pa.StringArray:
    return pa.array([text(value) for value in values.filter(rows).to_pylist()], pa.string())


def last_wins(row_of: np.ndarray, keys: pa.StringArray) -> np.ndarray | None:
    """Positions that stay when of equal keys within a row the last one stands; None where all stay."""
    codes = pc.dictionary_encode(keys)
    entry = row_of * (len(codes.dictionary) + 1) + codes.indices.to_numpy(zero_copy_only=False)
    _, last = np.unique(entry[::-1], return_index=True)
    if len(last) == len(entry):
        return None
    return np.sort(len(entry) - 1 - last)


def objects(offsets: np.ndarray, keys: pa.StringArray, values: pa.StringArray) -> pa.StringArray:
    """JSON objects out of flat keys and value texts; row i holds the entries from offsets[i] to offsets[i + 1]."""
    if len(keys):
        rows = np.arange(len(offsets) - 1)
        row_of = np.repeat(rows, np.diff(offsets))
        stay = last_wins(row_of, keys)
        if stay is not None:
            keys, values = keys.take(pa.array(stay)), values.take(pa.array(stay))
            offsets = np.searchsorted(row_of[stay], np.arange(len(offsets)))
    entries = join(['"', escaped(keys), '":', values])
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries)
    return join(["{", pc.binary_join(lists, ","), "}"])


def as_text(values: pa.Array) -> pa.StringArray:
    """Integers and booleans in JSON."""
    return values.cast(pa.string())


def field_parts(column: FieldColumn) -> Parts:
    """The JSON text per record, `null` where the field is, as parts to join."""
    parts: Parts = ['"', escaped(column.texts), '"'] if column.is_string else [column.texts]
    return parts if not column.values.null_count else [pc.fill_null(join(parts), "null")]


def json_of(column: FieldColumn | pa.StringArray) -> pa.StringArray:
    """The JSON text per record; `null` where the field is."""
    return join(field_parts(column)) if isinstance(column, FieldColumn) else column


def json_strings(text: pa.StringArray) -> pa.StringArray:
    """Each text as a JSON string; null stays null."""
    return join(['"', escaped(text), '"'])


def base64_strings(values: pa.BinaryArray) -> pa.StringArray:
    """Bytes as JSON strings of base64 (RFC 4648, with padding); null stays null."""
    text = string_array(None if value is None else b2a_base64(value, newline=False) for value in values.to_pylist())
    return join(['"', text, '"'])


def utf8_text(values: pa.BinaryArray) -> pa.StringArray:
    """Bytes as text; what is not UTF-8 gets replacement characters."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return string_array(None if value is None else java_text(value) for value in values.to_pylist())


def java_text(value: bytes) -> str:
    """The text that Java's decoder gives: replacement characters for what is not UTF-8, one for half a surrogate pair.

    Source: java.lang.String of JDK 17, decodeUTF8.
    """
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, value).decode("utf-8", "replace")
