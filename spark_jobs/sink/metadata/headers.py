"""One Kafka header value as Connect's SimpleHeaderConverter reads it and the Snowflake connector prints it.

A header value is text that is taken for what it looks like: `5` a number, `true` a boolean, `[1,2]` an array, an ISO
date a date, all else a string. Source: org.apache.kafka.connect.data.Values.parseString of Kafka 4.1, its oddities
included: `{}` is an empty array, what follows a closed array is dropped, `[1,null]` is a string.
Not for: batches; `header_columns` comes here with the values that are not plain.
On purpose different: a number that no double holds stays a string, since no reader of JSON takes it.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import numpy as np

from spark_jobs.sink.decode.base.scalars import (
    CLASSIC_ZONE,
    MAX_NUMBER_DIGITS,
    MILLIS_PER_DAY,
    date_text,
    double_text,
    float_text,
    quoted,
    time_text,
)
from spark_jobs.sink.decode.base.texts import java_text

NUMERIC = ("int8", "int16", "int32", "int64", "float32", "float64")
TEMPORAL = ("date", "time", "timestamp")

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,10})?")
_BEYOND_LONG = Decimal("1e19")
_FIELD = r"[ \t]*(-?\d+)"
_DATE = re.compile(rf"{_FIELD}-{_FIELD}-{_FIELD}")
_TIME = re.compile(rf"{_FIELD}:{_FIELD}:{_FIELD}\.{_FIELD}Z")
_TIMESTAMP = re.compile(rf"{_DATE.pattern}T{_TIME.pattern}")


@dataclass(frozen=True)
class Value:
    """A parsed value: Connect's type, what it is (temporal types: Unix milliseconds), its JSON text."""

    kind: str
    value: Any
    text: str


def parse_number(token: str) -> Value | None:
    """The number that `token` is, or None: an integer where whole, else the least float that can hold it."""
    if not _NUMBER.fullmatch(token):
        return None
    try:
        exact = Decimal(token)
    except InvalidOperation:
        return None
    return _whole(exact) or _fraction(exact, token)


def parse_temporal(token: str) -> Value | None:
    """The date, time of day or timestamp that `token` is (told apart by its length), or None."""
    token = token.replace("\\:", ":")
    if len(token) == 10 and (found := _DATE.match(token)):
        days = _days(*map(int, found.groups()))
        return Value("date", days * MILLIS_PER_DAY, date_text(days))
    if len(token) == 13 and (found := _TIME.match(token)):
        millis = _millis(*map(int, found.groups()))
        return Value("time", millis, time_text(millis % MILLIS_PER_DAY, CLASSIC_ZONE))
    if len(token) == 24 and (found := _TIMESTAMP.match(token)):
        fields = list(map(int, found.groups()))
        millis = _days(*fields[:3]) * MILLIS_PER_DAY + _millis(*fields[3:])
        return Value("timestamp", millis, str(millis))
    return None


def widened(value: Value, kind: str) -> str:
    """The text of a number among others whose common type is `kind`."""
    if kind == value.kind or kind not in ("float32", "float64"):
        return value.text
    return float_text(value.value) if kind == "float32" else double_text(float(value.value))


def _whole(exact: Decimal) -> Value | None:
    # copy_abs and comparisons take no decimal context: nothing is rounded, nothing overflows.
    if exact.copy_abs() > _BEYOND_LONG or exact != int(exact) or not -(2**63) <= exact < 2**63:
        return None
    number = int(exact)
    bits = next(bits for bits in (8, 16, 32, 64) if -(1 << bits - 1) <= number < 1 << bits - 1)
    return Value(f"int{bits}", number, str(number))


def _fraction(exact: Decimal, token: str) -> Value:
    scaled = exact.as_tuple().exponent != 0
    double = float(exact)
    with np.errstate(over="ignore"):
        single = float(np.float32(double))
    if scaled and math.isfinite(single):
        return Value("float32", single, float_text(single))
    if scaled and math.isfinite(double):
        return Value("float64", double, double_text(double))
    # Here no double can hold it. A whole number of up to 38 digits is a NUMBER; what is longer must be a string.
    is_number = not scaled and len(exact.as_tuple().digits) <= MAX_NUMBER_DIGITS
    return Value("decimal", exact, str(exact) if is_number else quoted(token))


def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date whose month and day may lie outside their ranges."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year + day - 1 - 719_468


def _millis(hours: int, minutes: int, seconds: int, millis: int) -> int:
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + millis


# Values that come again and again are short, and together they take little memory.
MAX_REMEMBERED, MAX_REMEMBERED_BYTES = 4096, 256

# A delimiter, or a run up to the next delimiter that no backslash precedes.
_TOKEN = re.compile(r'[:,{}\[\]"]|(?:\\.|[^:,{}\[\]"\\])*\\?', re.DOTALL)
_BLANKS = "".join(map(chr, range(0x21)))
_LITERALS = {"true": Value("boolean", value=True, text="true"), "false": Value("boolean", value=False, text="false")}


def header_text(value: bytes) -> str:
    """The JSON text of one header value; bytes that are not UTF-8 become replacement characters, as in Java."""
    return _remembered(value) if len(value) <= MAX_REMEMBERED_BYTES else _text_of(value)


def _text_of(value: bytes) -> str:
    text = java_text(value)
    if not text:
        return '""'
    try:
        parsed = _Parser(text).parse(embedded=False)
    except RecursionError:
        return quoted(text)
    return "null" if parsed is None else parsed.text


_remembered = lru_cache(MAX_REMEMBERED)(_text_of)


class _DataError(Exception):
    """The text is not the array or map it began as."""


class _Parser:
    """Values.ValueParser over Values.Parser; the names of the methods are theirs."""

    def __init__(self, original: str) -> None:
        self._original = original
        self._at = 0
        self._next: str | None = None

    def parse(self, *, embedded: bool) -> Value | None:
        """The value at the current position; None is null."""
        if not self._has_next():
            return None
        if embedded and self._can_consume('"'):
            return self._quoted_string()
        for literal in ("null", "true", "false"):
            if self._is_literal(literal, embedded=embedded):
                return _LITERALS.get(literal)
        start = self._mark()
        try:
            if self._can_consume("["):
                return self._array()
            if self._can_consume("{"):
                return self._map()
        except _DataError:
            self._rewind(start)
        token = self._take()
        trimmed = token.strip(_BLANKS)
        if not trimmed:
            return _string(token)
        return self._scalar(trimmed, embedded=embedded)

    def _is_literal(self, literal: str, *, embedded: bool) -> bool:
        start = self._mark()
        if self._can_consume(literal) and (embedded or not self._has_next()):
            return True
        self._rewind(start)
        return False

    def _scalar(self, token: str, *, embedded: bool) -> Value:
        digit_first = token[0].isdecimal()
        found = self._temporal(token) if digit_first else None
        if found is None and (digit_first or token[0] in "+-"):
            found = parse_number(token)
        if found is not None:
            return found
        if embedded:
            raise _DataError
        return _string(self._original)

    def _temporal(self, token: str) -> Value | None:
        """A time or timestamp is five tokens, because the colons part them; a date is one."""
        start = self._mark()
        for _ in range(4):
            if not self._has_next():
                self._rewind(start)
                return parse_temporal(token)
            self._take()
        found = parse_temporal(token + self._original[start : self._at])
        if found is None:
            self._rewind(start)
            found = parse_temporal(token)
        return found

    def _quoted_string(self) -> Value:
        content = ""
        while self._has_next() and not self._can_consume('"'):
            content += self._take()
        return parse_temporal(content) or _string(content)

    def _array(self) -> Value:
        found: list[Value | None] = []
        while self._has_next():
            if self._can_consume("]"):
                return Value("array", None, f"[{','.join(_aligned(found, _common(found)))}]")
            if self._can_consume(","):
                raise _DataError
            found.append(self.parse(embedded=True))
            after = self._mark()
            if self._can_consume("]"):
                self._rewind(after)
            elif not self._can_consume(","):
                raise _DataError
        raise _DataError

    def _map(self) -> Value:
        entries: dict[str, tuple[Value, Value | None]] = {}
        while self._has_next():
            if self._can_consume("}"):
                return Value("map", None, _map_text(list(entries.values())))
            if self._can_consume(","):
                raise _DataError
            key = self.parse(embedded=True)
            if key is None or not self._can_consume(":"):
                raise _DataError
            entries[key.text] = (key, self.parse(embedded=True))
            self._can_consume(",")
        raise _DataError

    def _mark(self) -> int:
        return self._at - len(self._next or "")

    def _rewind(self, position: int) -> None:
        self._at, self._next = position, None

    def _has_next(self) -> bool:
        return self._next is not None or self._at < len(self._original)

    def _take(self) -> str:
        token = self._next if self._next is not None else self._scan()
        self._next = None
        return token

    def _scan(self) -> str:
        found = _TOKEN.match(self._original, self._at)
        token = found.group() if found else ""
        self._at += len(token)
        return token

    def _can_consume(self, expected: str) -> bool:
        if self._next is None:
            if not self._has_next():
                return False
            self._next = self._scan()
        while not self._next.strip(_BLANKS) and self._at < len(self._original):
            self._next = self._scan()
        if self._next.strip(_BLANKS) != expected:
            return False
        self._next = None
        return True


def _string(text: str) -> Value:
    return Value("string", text, quoted(text))


def _common(values: list[Value | None]) -> str | None:
    """The type that holds all values; None where there is none. Nulls have no say."""
    kinds = {value.kind for value in values if value is not None}
    if len(kinds) == 1:
        return kinds.pop()
    return max(kinds, key=NUMERIC.index) if kinds and kinds <= set(NUMERIC) else None


def _aligned(values: list[Value | None], common: str | None) -> list[str]:
    """The texts of values beside each other; a null beside values of one type is an error to Connect."""
    if common is None:
        return [_loose(value) for value in values]
    if None in values:
        raise _DataError
    return [widened(value, common) for value in values if value is not None]


def _loose(value: Value | None) -> str:
    """A value whose type got lost among others: a date or time is then printed as a timestamp."""
    if value is None:
        return "null"
    return str(value.value) if value.kind in TEMPORAL else value.text


def _map_text(entries: list[tuple[Value, Value | None]]) -> str:
    """An object where all keys are strings, else an array of pairs."""
    keys = [key for key, _ in entries]
    kind = _common([*keys])
    values = [value for _, value in entries]
    texts = _aligned(values, _common(values) if kind else None)
    names = _aligned([*keys], kind)
    if kind == "string":
        return "{" + ",".join(f"{name}:{text}" for name, text in zip(names, texts, strict=True)) + "}"
    return "[" + ",".join(f"[{name},{text}]" for name, text in zip(names, texts, strict=True)) + "]"
