"""Values for VARCHAR, BINARY, VARIANT, OBJECT and ARRAY columns, and for those that no value can be fitted to.

Sources: "String & binary data types" and "Semi-structured data types" of Snowflake's SQL reference. Strings become
bytes by base64, as the decoders (and Kafka Connect's) write bytes.
"""

from __future__ import annotations

import binascii

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.snowflake.columns import DEFAULT_TEXT_LENGTH, MAX_TEXT_LENGTH, ColumnType, Kind
from spark_jobs.sink.columns.cell_values import UnfitError, is_string, kept, no_value_of, shown, string_value
from spark_jobs.sink.decode.base import json_text
from spark_jobs.sink.decode.base.capacity import text_bounds, text_bytes
from spark_jobs.sink.decode.base.contract import MalformedError

MAX_BYTES = MAX_TEXT_LENGTH
"""Bytes of UTF-8 that a VARCHAR, VARIANT, OBJECT or ARRAY holds (128 MB)."""

_NONE = pa.scalar(None, pa.string())


class VarcharConverter:
    """VARCHAR: the characters of a string; the JSON text of everything else, without blanks."""

    def __init__(self, type_: ColumnType) -> None:
        self._type = type_

    def text(self, json: str) -> str:
        """Any value that is not too long."""
        if is_string(json):
            value = string_value(json)
        else:
            value = msgspec.json.format(json, indent=-1) if json[0] in "[{" else json
        if len(value) > self._type.size:
            raise self._too_long(json, value)
        _check_bytes(value, self._type)
        return value

    def texts(self, raw: pa.StringArray) -> pa.StringArray:
        """Strings without escapes, numbers and booleans, if all are short enough."""
        texts = _plain(raw)
        if text_bytes(raw) > self._type.size:
            texts = kept(texts, pc.less_equal(pc.fill_null(pc.utf8_length(texts), 0), self._type.size))
        return texts if text_bytes(raw) <= MAX_BYTES else pc.if_else(_short(texts), texts, _NONE)

    def _too_long(self, json: str, value: str) -> UnfitError:
        detail = f"{shown(json)} has {len(value)} characters, too many for {self._type}"
        fitting = [size for size in (DEFAULT_TEXT_LENGTH, MAX_TEXT_LENGTH) if size >= len(value)]
        if not fitting or _bytes(value) > MAX_BYTES:
            return UnfitError(detail)
        return UnfitError(detail, ColumnType(Kind.VARCHAR, fitting[0]))


class BinaryConverter:
    """BINARY: upper-case hex of the bytes that a string has in base64."""

    def __init__(self, type_: ColumnType) -> None:
        self._type = type_

    def text(self, json: str) -> str:
        """A string of base64 with its padding (RFC 4648)."""
        if not is_string(json):
            raise no_value_of(json, self._type)
        try:
            found = binascii.a2b_base64(string_value(json).encode("ascii"), strict_mode=True)
        except ValueError:
            raise UnfitError(f"{shown(json)} is no {self._type}: it is no base64") from None
        if len(found) > self._type.size:
            raise UnfitError(f"{shown(json)} has {len(found)} bytes, too many for {self._type}")
        return found.hex().upper()

    def texts(self, raw: pa.StringArray) -> pa.StringArray:
        """None: Arrow knows no base64."""
        return pa.nulls(len(raw), pa.string())


class VariantConverter:
    """VARIANT: the JSON text as it stands."""

    def __init__(self, type_: ColumnType) -> None:
        self._type = type_

    def text(self, json: str) -> str:
        """Any value that is not too long."""
        _check_bytes(json, self._type)
        return json

    def texts(self, raw: pa.StringArray) -> pa.StringArray:
        """Any value that is not too long."""
        return raw if text_bytes(raw) <= MAX_BYTES else pc.if_else(_short(raw), raw, _NONE)


class ObjectConverter(VariantConverter):
    """OBJECT: the JSON text of an object."""

    def text(self, json: str) -> str:
        """An object, or a string that holds one."""
        found = json if json[0] == "{" else _within_string(json, "{")
        if found is None:
            raise no_value_of(json, self._type)
        return super().text(found)

    def texts(self, raw: pa.StringArray) -> pa.StringArray:
        """Objects."""
        return super().texts(kept(raw, pc.starts_with(raw, "{")))


class ArrayConverter(VariantConverter):
    """ARRAY: the JSON text of an array."""

    def text(self, json: str) -> str:
        """An array, or a string that holds one; every other value becomes an array of its own."""
        found = json if json[0] == "[" else _within_string(json, "[")
        return super().text(f"[{json}]" if found is None else found)

    def texts(self, raw: pa.StringArray) -> pa.StringArray:
        """Arrays."""
        return super().texts(kept(raw, pc.starts_with(raw, "[")))


class NoConverter:
    """All other types (GEOGRAPHY, VECTOR, ...): no value fits."""

    def __init__(self, type_: ColumnType) -> None:
        self._type = type_

    def text(self, json: str) -> str:
        """Nothing."""
        raise UnfitError(f"{shown(json)} cannot be loaded: no field is converted to {self._type}")

    def texts(self, raw: pa.StringArray) -> pa.StringArray:
        """Nothing."""
        return pa.nulls(len(raw), pa.string())


def _plain(raw: pa.StringArray) -> pa.StringArray:
    """The texts of strings without escapes, numbers and booleans; null for all other values."""
    strings = pc.starts_with(raw, '"')
    if not pc.any(strings).as_py():
        return kept(raw, pc.invert(pc.match_substring_regex(raw, r"^[\[{]")))
    texts = _unquoted(raw)
    if not pc.all(strings).as_py():
        scalars = pc.invert(pc.match_substring_regex(raw, r"^[\[{]"))
        texts = pc.if_else(strings, texts, pc.if_else(scalars, raw, _NONE))
    if _has_escapes(raw):
        texts = pc.if_else(pc.and_(strings, pc.match_substring(raw, "\\")), _NONE, texts)
    return texts


def _unquoted(raw: pa.StringArray) -> pa.StringArray:
    """The texts without their first and last byte."""
    return pc.binary_slice(raw.view(pa.binary()), 1, -1).view(pa.string())


def _has_escapes(raw: pa.StringArray) -> bool:
    data = raw.buffers()[2]
    if data is None:
        return False
    bounds = text_bounds(raw)  # a slice shares its buffer with many other rows
    return bool((np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]] == ord("\\")).any())


def _within_string(json: str, opening: str) -> str | None:
    """The JSON that a string holds, if it begins as wanted; digits are kept."""
    text = string_value(json) if is_string(json) else ""
    if not text.lstrip().startswith(opening):
        return None
    try:
        return json_text.printed(json_text.exact(text))
    except (MalformedError, RecursionError):
        return None


def _short(texts: pa.StringArray) -> pa.BooleanArray:
    return pc.less_equal(pc.binary_length(texts), MAX_BYTES)


def _bytes(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode())


def _check_bytes(value: str, type_: ColumnType) -> None:
    if len(value) * 4 > MAX_BYTES and _bytes(value) > MAX_BYTES:
        raise UnfitError(f"{shown(value)} has {_bytes(value)} bytes, too many for {type_}: it holds {MAX_BYTES}")
