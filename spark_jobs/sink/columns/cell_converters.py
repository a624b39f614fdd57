"""Converters of values for all kinds of columns but times: what each takes, its canonical text, and what does not fit.

A number keeps its digits where the column has room for them; strings become bytes by base64, as the decoders (and
Kafka Connect's) write bytes. Sources: "Numeric", "Logical", "String & binary" and "Semi-structured data types" of
Snowflake's SQL reference; which strings count as numbers or booleans, and half up: DataValidationUtil of
snowflake-ingest-java, which the official connector calls. Not for DATE, TIME and TIMESTAMP (`cell_times`).
"""

from __future__ import annotations

import binascii
import math
import re
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Protocol

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.snowflake.columns import DEFAULT_TEXT_LENGTH, MAX_PRECISION, MAX_TEXT_LENGTH, ColumnType, Kind
from spark_jobs.sink.decode.base import json_text
from spark_jobs.sink.decode.base.capacity import text_bounds, text_bytes
from spark_jobs.sink.decode.base.contract import MalformedError
from spark_jobs.sink.decode.base.scalars import EXACT, boolean_text

_SHOWN = 40
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_STRING = msgspec.json.Decoder(str)


class UnfitError(Exception):
    """A value does not fit its column. `detail` is for a person; `wider`: the type that would take it, None: none."""

    def __init__(self, detail: str, wider: ColumnType | None = None) -> None:
        super().__init__(detail)
        self.detail, self.wider = detail, wider


class Converter(Protocol):
    """Converts the values of one column. `text` defines the result; `texts` is quick and may leave values to it."""

    def text(self, json: str, /) -> str:
        """The canonical text of one value, given as JSON text, no `null`. Raises UnfitError."""
        ...

    def texts(self, raw: pa.StringArray, /) -> pa.StringArray:
        """The canonical texts of n values (null where there is none); null also where `text` has to decide."""
        ...


def shown(json: str) -> str:
    """A value as messages show it: its beginning."""
    return json if len(json) <= _SHOWN else json[:_SHOWN] + "..."


def no_value_of(json: str, type_: ColumnType) -> UnfitError:
    """The error of a value that has nothing to do with the type."""
    return UnfitError(f"{shown(json)} is no {type_}")


def is_string(json: str) -> bool:
    """Whether the JSON text is that of a string."""
    return json.startswith('"')


def string_value(json: str) -> str:
    """The characters of a JSON string. Half a surrogate pair is a replacement character, as in the decoders."""
    try:
        return _STRING.decode(json)
    except msgspec.DecodeError:
        return str(json_text.parse(json))


def number_text(json: str) -> str | None:
    """The digits of a JSON number or of a JSON string that holds a number; None where it is neither."""
    text = string_value(json).strip() if is_string(json) else json
    return text if _NUMBER.fullmatch(text) else None


def decimal_value(json: str, type_: ColumnType) -> Decimal | None:
    """The number that a JSON number or string holds; None where it is neither. Raises UnfitError: beyond Decimal."""
    text = number_text(json)
    try:
        return None if text is None else Decimal(text)
    except InvalidOperation:
        raise UnfitError(f"the exponent of {shown(json)} is beyond all bounds of {type_}") from None


def matches(raw: pa.StringArray, pattern: str) -> pa.BooleanArray:
    """Which texts are what the regular expression (RE2) describes, from end to end; false where there is none."""
    return pc.fill_null(pc.match_substring_regex(raw, f"^(?:{pattern})$"), fill_value=False)


def kept(raw: pa.StringArray, keep: pa.BooleanArray) -> pa.StringArray:
    """The texts where `keep` says so, null elsewhere."""
    return raw if pc.all(keep).as_py() else pc.if_else(keep, raw, pa.scalar(None, pa.string()))


def spread(texts: pa.StringArray, rows: pa.BooleanArray) -> pa.StringArray:
    """`texts`, one for each of the marked rows, at these rows; null elsewhere."""
    if len(texts) == len(rows):
        return texts
    return pc.replace_with_mask(pa.nulls(len(rows), pa.string()), rows, texts)


# A double has 17 digits: so short a text is cast as well as the shortest one.
_PLAIN = r"-?[0-9][0-9.]{0,23}"
_IS_PLAIN = re.compile(_PLAIN)
_NOT_FINITE = {
    **dict.fromkeys(("nan", "+nan", "-nan"), "NaN"),
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), "inf"),
    **dict.fromkeys(("-inf", "-infinity"), "-inf"),
}
_WORDS = {
    **dict.fromkeys(("true", "t", "yes", "y", "on", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "off", "0"), False),
}
_BITS = {Decimal(0): False, Decimal(1): True}


class NumberConverter:
    """NUMBER: plain digits, at most as many behind the point as the column has, rounded half up.

    A column of whole numbers takes no fraction: that is no rounding of a value but the loss of what it says.
    """

    def __init__(self, type_: ColumnType) -> None:
        self._type, self._whole = type_, type_.size - type_.scale
        self._unit = Decimal(1).scaleb(-type_.scale)
        self._quick = _digits(self._whole, type_.scale)

    def text(self, json: str) -> str:
        """A number or a string that holds one."""
        number = decimal_value(json, self._type)
        if number is None:
            raise no_value_of(json, self._type)
        if number.adjusted() < self._whole and int(number.as_tuple().exponent) < -self._type.scale:
            if not self._type.scale and number != number.to_integral_value(context=EXACT):
                raise UnfitError(f"{shown(json)} has a fraction, and {self._type} holds whole numbers")
            number = number.quantize(self._unit, ROUND_HALF_UP, EXACT)
        if not number:
            return format(number.copy_abs(), "f")
        if number.adjusted() >= self._whole:
            raise self._too_long(json, number)
        return format(number, "f")

    def texts(self, raw: pa.StringArray) -> pa.StringArray:
        """Numbers that fit as they stand."""
        return kept(raw, matches(raw, self._quick))

    def _too_long(self, json: str, number: Decimal) -> UnfitError:
        wider = ColumnType(Kind.NUMBER, MAX_PRECISION, self._type.scale)
        fits = number.adjusted() < MAX_PRECISION - self._type.scale
        return UnfitError(f"{shown(json)} has more digits than {self._type} holds", wider if fits else None)


def _digits(whole: int, scale: int) -> str:
    """The numbers of at most `whole` digits in front of the point and `scale` behind it, without a negative zero."""
    number = f"(?:-?[1-9][0-9]{{0,{whole - 1}}}|0)" if whole else "0"
    if not scale:
        return number
    return rf"{number}(?:\.[0-9]{{1,{scale}}})?|-0\.[0-9]{{0,{scale - 1}}}[1-9]"


class FloatConverter:
    """FLOAT: the number's own text where it is plain and short, else the shortest one; `NaN`, `inf`, `-inf`."""

    def __init__(self, type_: ColumnType) -> None:
        self._type = type_

    def text(self, json: str) -> str:
        """A number, or a string that holds one or says that there is none."""
        if _IS_PLAIN.fullmatch(json):
            return json
        digits = number_text(json)
        if digits is None:
            word = _NOT_FINITE.get(string_value(json).strip().lower()) if is_string(json) else None
            if word is None:
                raise no_value_of(json, self._type)
            return word
        double = float(digits)
        if math.isinf(double):
            raise UnfitError(f"{shown(json)} is too large for a {self._type}")
        return repr(double)

    def texts(self, raw: pa.StringArray) -> pa.StringArray:
        """Plain, short numbers."""
        return kept(raw, matches(raw, _PLAIN))


class BooleanConverter:
    """BOOLEAN: `true` or `false`."""

    def __init__(self, type_: ColumnType) -> None:
        self._type = type_

    def text(self, json: str) -> str:
        """A boolean, the numbers 1 and 0, or one of Snowflake's words for them."""
        if json in ("true", "false"):
            return json
        if is_string(json):
            found = _WORDS.get(string_value(json).strip().lower())
        else:
            number = decimal_value(json, self._type)
            found = None if number is None else _BITS.get(number)
        if found is None:
            raise no_value_of(json, self._type)
        return boolean_text(found)

    def texts(self, raw: pa.StringArray) -> pa.StringArray:
        """Booleans."""
        return kept(raw, pc.is_in(raw, pa.array(["true", "false"])))


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
