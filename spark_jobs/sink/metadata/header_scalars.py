"""Numbers, dates and times in header values, as Connect's Values tells them from plain strings.

Source: org.apache.kafka.connect.data.Values of Kafka 4.1 (parseAsNumber, parseAsTemporal) under a JVM in UTC; dates are
lenient as Java's SimpleDateFormat is: 2025-13-01 is the first of January 2026.
Not for: arrays, maps and quoting, which `headers` reads.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from spark_jobs.sink.decode.scalars import (
    CLASSIC_ZONE,
    MAX_NUMBER_DIGITS,
    MILLIS_PER_DAY,
    date_text,
    double_text,
    float_text,
    quoted,
    time_text,
)

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
