"""JSON text of single values, as Confluent's AvroConverter and the connector's RecordService print them.

The forms are those of the official connector 2.5.0 (method SNOWPIPE), parsed-JSON equal; decimals digit for digit.
Where Java's calendar would change to Julian dates or drop the era, the proleptic ISO date stands.
Not for: reading bytes.
"""

from __future__ import annotations

import math
from binascii import b2a_base64
from collections.abc import Iterable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from json.encoder import encode_basestring

import numpy as np

MILLIS_PER_DAY = 86_400_000
# What a time of day ends with, in UTC: method SNOWPIPE and headers, and method SNOWPIPE_STREAMING.
CLASSIC_ZONE, STREAMING_ZONE = "+0000", "Z"
# Snowflake's NUMBER holds 38 digits; a longer decimal becomes a string so that no digit is lost.
MAX_NUMBER_DIGITS = 38
MAX_PLAIN_SCALE = 38
# Digits are converted between bases in quadratic time: so many bytes, about 39,000 digits, take milliseconds.
MAX_DECIMAL_BYTES = 16_384
EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)

quoted = encode_basestring


def boolean_text(value: bool) -> str:
    """JSON's own word."""
    return "true" if value else "false"


def base64_text(raw: bytes) -> str:
    """Bytes as a JSON string of base64 (RFC 4648, with padding)."""
    return f'"{b2a_base64(raw, newline=False).decode()}"'


def map_text(entries: Iterable[tuple[str, str]], *, keyed: bool) -> str:
    """An object of texts, or an array of pairs where keys are no strings."""
    if keyed:
        return "{" + ",".join([f"{key}:{value}" for key, value in entries]) + "}"
    return "[" + ",".join([f"[{key},{value}]" for key, value in entries]) + "]"


def double_text(value: float) -> str:
    """The shortest text that reads back as the same double; NaN and infinities as strings."""
    return repr(value) if math.isfinite(value) else not_finite_text(value)


def float_text(value: float) -> str:
    """The shortest text that reads back as the same 32-bit float; NaN and infinities as strings."""
    return str(np.float32(value)) if math.isfinite(value) else not_finite_text(value)


def not_finite_text(value: float) -> str:
    """The strings that stand for what JSON cannot say."""
    if math.isnan(value):
        return '"NaN"'
    return '"Infinity"' if value > 0 else '"-Infinity"'


def decimal_of(raw: bytes, scale: int) -> Decimal:
    """The decimal of an unscaled big-endian number. Raises ValueError: no bytes, or too many to convert."""
    if not raw:
        raise ValueError("a decimal of no bytes")
    if len(raw) > MAX_DECIMAL_BYTES:
        raise ValueError(f"a decimal of {len(raw)} bytes, more than {MAX_DECIMAL_BYTES}")
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, EXACT)


def decimal_text(value: Decimal) -> str:
    """All digits of a decimal: a number up to 38 digits, above that a string as Java prints it.

    The exponent tells the scale; one above 38 is the caller's to refuse, it would be written out in zeros.
    """
    exponent = int(value.as_tuple().exponent)
    if not value:
        value = value.copy_abs()  # Java has no negative zero
    elif value.adjusted() - exponent >= MAX_NUMBER_DIGITS:
        return f'"{value}"'
    return format(value, "f") if -exponent <= MAX_PLAIN_SCALE else str(value)


def date_text(days: int) -> str:
    """Days since 1970-01-01 as an ISO timestamp at midnight; any 32-bit number of days has one."""
    # Civil date from days, in eras of 400 years that begin on 1 March.
    era, day_of_era = divmod(days + 719_468, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year = year_of_era + era * 400 + (month <= 2)
    sign = "-" if year < 0 else ""
    return f'"{sign}{abs(year):04d}-{month:02d}-{day:02d}T00:00:00.000Z"'


def time_text(millis: int, zone: str) -> str:
    """Milliseconds of a day as HH:mm:ss.SSS and `zone`; a number outside the day stays a number, so nothing is lost."""
    if not 0 <= millis < MILLIS_PER_DAY:
        return str(millis)
    seconds, millis = divmod(millis, 1000)
    minutes, seconds = divmod(seconds, 60)
    return f'"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}.{millis:03d}{zone}"'
