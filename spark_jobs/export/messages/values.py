"""Values of a payload as values of messages: exactly, or not at all.

A payload holds what `firn.exports.values` writes: numbers as JSON numbers or texts, times as ISO texts, BINARY as
hexadecimal digits, VARIANT as JSON. Each type has three converters: for Avro's encoder (decimals as two's complement,
times as counts of their unit), for JSON, and for texts of keys. They also take what a row function may give: int,
Decimal, float, bytes, and Python's dates and times.
"""

from __future__ import annotations

import base64
import math
import re
import struct
import uuid
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
import orjson

from spark_jobs.export.messages import times
from spark_jobs.export.messages.types import Form, Scalar

Convert = Callable[[Any], Any]
"""Takes a value that is not null; raises ValueError with what is wrong with it, in words."""

_LONGEST_QUOTE = 60
_LONGS = 1 << 63
_BLANKS = re.compile(rb'("(?:[^"\\]|\\.)*")|\s+')
_UNITS = {
    Form.TIME_MILLIS: 1_000_000,
    Form.TIME_MICROS: 1_000,
    Form.TIMESTAMP_MILLIS: 1_000_000,
    Form.TIMESTAMP_MICROS: 1_000,
    Form.TIMESTAMP_NANOS: 1,
    Form.LOCAL_TIMESTAMP_MILLIS: 1_000_000,
    Form.LOCAL_TIMESTAMP_MICROS: 1_000,
    Form.LOCAL_TIMESTAMP_NANOS: 1,
}
_FINER = {
    Form.TIME_MILLIS: "time-micros or string",
    Form.TIME_MICROS: "string",
    Form.TIMESTAMP_MILLIS: "timestamp-micros, timestamp-nanos or string",
    Form.TIMESTAMP_MICROS: "timestamp-nanos or string",
    Form.LOCAL_TIMESTAMP_MILLIS: "local-timestamp-micros, local-timestamp-nanos or string",
    Form.LOCAL_TIMESTAMP_MICROS: "local-timestamp-nanos or string",
}


def compact(text: bytes) -> bytes:
    """JSON without blanks between its parts: Snowflake indents what a VARIANT holds. Digits stay as they are."""
    return _BLANKS.sub(lambda found: found[1] or b"", text)


def unscaled(value: Any, scalar: Scalar) -> int:
    """The whole number that a decimal is behind its scale. Raises ValueError where digits would be lost."""
    number = _unscaled_text(value, scalar.scale) if type(value) is str else None
    if number is None:
        number = _unscaled_number(value, scalar.scale)
    if number is None or abs(number) >= 10**scalar.precision:
        raise _not(f"decimal({scalar.precision},{scalar.scale})", value)
    return number


def two_complement(number: int) -> bytes:
    """As Java's BigInteger.toByteArray: the fewest bytes that hold the sign too."""
    return number.to_bytes((number + (number < 0)).bit_length() // 8 + 1, "big", signed=True)


def avro_converter(scalar: Scalar) -> Convert | None:
    """For fastavro, whose own handling of logical types is passed by; None where values are taken as they are."""
    match scalar.form:
        case Form.DECIMAL:
            return lambda value: two_complement(unscaled(value, scalar))
        case Form.DATE:
            return _days
        case form if form in _UNITS:
            return _counted(form)
        case _:
            return _plain(scalar.form)


def json_converter(scalar: Scalar) -> Convert:
    """For orjson: numbers with all their digits, times as ISO texts, bytes in base64, JSON as it is."""
    match scalar.form:
        case Form.DECIMAL:
            return lambda value: orjson.Fragment(decimal_text(unscaled(value, scalar), scalar.scale))
        case Form.FLOAT | Form.DOUBLE:
            return _json_float(_plain(scalar.form))
        case Form.BYTES:
            return lambda value: base64.b64encode(_bytes(value)).decode()
        case Form.JSON:
            return lambda value: orjson.Fragment(_json_text(value))
        case form if form is Form.DATE or form in _UNITS:
            return _iso
        case form:
            return _plain(form)


def connect_converter(scalar: Scalar) -> Convert:
    """For JsonConverter's envelope: as in JSON, but decimals as Connect's bytes, and JSON as its text."""
    match scalar.form:
        case Form.DECIMAL:
            return lambda value: base64.b64encode(two_complement(unscaled(value, scalar))).decode()
        case Form.FLOAT | Form.DOUBLE:
            return _finite(_plain(scalar.form))
        case Form.JSON:
            return _json_text_string
        case _:
            return json_converter(scalar)


def text_converter(scalar: Scalar) -> Convert:
    """For keys that are texts: as in JSON, without quotes."""
    as_json = json_converter(scalar)

    def convert(value: Any) -> str:
        converted = as_json(value)
        return converted if isinstance(converted, str) else orjson.dumps(converted).decode()

    return convert


def python_value(scalar: Scalar, value: Any) -> Any:
    """What a row function gets: int, Decimal, float, bool, bytes, parsed JSON; times stay ISO texts."""
    match scalar.form:
        case Form.DECIMAL:
            return Decimal(str(value))
        case Form.JSON:
            return orjson.loads(_json_text(value))
        case form if form is Form.DATE or form in _UNITS:
            return value
        case form:
            return _plain(form)(value)


def decimal_text(number: int, scale: int) -> str:
    """A scaled number with all digits of its scale."""
    if not scale:
        return str(number)
    digits = str(abs(number)).rjust(scale + 1, "0")
    return f"{'-' if number < 0 else ''}{digits[:-scale]}.{digits[-scale:]}"


def _plain(form: Form) -> Convert:
    return _PLAIN[form]


def _unscaled_text(text: str, scale: int) -> int | None:
    whole, _, fraction = text.partition(".")
    if len(fraction) > scale:
        fraction = fraction.rstrip("0")
    try:
        return int(whole + fraction.ljust(scale, "0")) if len(fraction) <= scale else None
    except ValueError:
        return None


def _unscaled_number(value: Any, scale: int) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        number = Decimal(repr(value) if isinstance(value, float) else str(value))
        sign, digits, exponent = number.as_tuple()
    except InvalidOperation:
        return None
    if not isinstance(exponent, int):
        return None
    coefficient, shift = int("".join(map(str, digits))), exponent + scale
    if shift < 0:
        coefficient, lost = divmod(coefficient, 10**-shift)
        if lost:
            return None
    number_of_tens: int = 10 ** max(shift, 0)
    return (-coefficient if sign else coefficient) * number_of_tens


def _integer(bits: int, name: str) -> Convert:
    limit = 1 << (bits - 1)

    def convert(value: Any) -> int:
        if type(value) is str and value.isdecimal():
            number = int(value)
        else:
            number = value if type(value) is int else unscaled(value, _WHOLE)
        if not -limit <= number < limit:
            raise _not(name, value)
        return number

    return convert


_WHOLE = Scalar(Form.DECIMAL, 1000, 0)


def _double(value: Any) -> float:
    try:
        if isinstance(value, bool):
            raise _not("double", value)
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise _not("double", value) from None


def _float(value: Any) -> float:
    number = _double(value)
    try:
        struct.pack("<f", number)
    except OverflowError:
        raise _not("float", value) from None
    return number


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise _not("boolean", value)


def _string(value: Any) -> str:
    if type(value) is str:
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, bytes | bytearray):
        return value.hex().upper()
    if isinstance(value, int | float | Decimal | uuid.UUID):
        return str(value)
    return _json_text(value).decode()


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError):
        raise _not("bytes in hexadecimal digits", value) from None


def _uuid(value: Any) -> str:
    try:
        return str(value if isinstance(value, uuid.UUID) else uuid.UUID(value))
    except (AttributeError, TypeError, ValueError):
        raise _not("uuid", value) from None


def _json_text(value: Any) -> bytes:
    """The JSON that a payload holds for this value, compact."""
    if isinstance(value, msgspec.Raw):
        return compact(bytes(value))
    try:
        return orjson.dumps(value, default=_digits)
    except TypeError:
        raise _not("json", value) from None


def _digits(value: Any) -> orjson.Fragment:
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value))
    raise TypeError


def _json_text_string(value: Any) -> str:
    return _json_text(value).decode()


def _json_float(number: Convert) -> Convert:
    """JSON has no NaN and no infinity: they are texts, as Snowflake writes them."""

    def convert(value: Any) -> float | str:
        found: float = number(value)
        if math.isfinite(found):
            return found
        return "NaN" if math.isnan(found) else "inf" if found > 0 else "-inf"

    return convert


def _finite(number: Convert) -> Convert:
    def convert(value: Any) -> float:
        found: float = number(value)
        if not math.isfinite(found):
            raise _not("number that JsonConverter reads", value)
        return found

    return convert


def _days(value: Any) -> int:
    text = value.isoformat() if isinstance(value, date) else value
    try:
        day = times.days(text[:10])
    except (TypeError, ValueError):
        raise _not("date", value) from None
    if not _midnight(text[10:]):
        raise _not("date", value)
    return day


def _midnight(rest: str) -> bool:
    """Whether what stands behind a date says nothing but its beginning."""
    return not rest or not re.sub(r"[T 0:.]|[+-]00:?00$|Z$", "", rest)


def _counted(form: Form) -> Convert:
    unit, name = _UNITS[form], form.value
    read = times.time_nanos if form in (Form.TIME_MILLIS, Form.TIME_MICROS) else _reader(local="local" in name)

    def convert(value: Any) -> int:
        try:
            nanos = read(value if type(value) is str else value.isoformat())
        except (AttributeError, TypeError, ValueError):
            raise _not(name, value) from None
        count, lost = divmod(nanos, unit)
        if lost or not -_LONGS <= count < _LONGS:
            wider = f"; name {_FINER[form]} as its type" if lost else ""
            raise ValueError(f"{_quoted(value)} is not exact as {name}{wider}")
        return count

    return convert


def _reader(*, local: bool) -> Callable[[str], int]:
    return lambda text: times.timestamp_nanos(text, local=local)


def _iso(value: Any) -> str:
    """A date or time as Snowflake wrote it: with all of its digits."""
    return value if type(value) is str else str(value.isoformat())


def _not(wanted: str, value: Any) -> ValueError:
    return ValueError(f"{_quoted(value)} is no {wanted}")


def _quoted(value: Any) -> str:
    text = repr(bytes(value)) if isinstance(value, msgspec.Raw) else repr(value)
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."


_PLAIN: dict[Form, Convert] = {
    Form.INT: _integer(32, "int"),
    Form.LONG: _integer(64, "long"),
    Form.FLOAT: _float,
    Form.DOUBLE: _double,
    Form.BOOLEAN: _boolean,
    Form.STRING: _string,
    Form.BYTES: _bytes,
    Form.UUID: _uuid,
    Form.JSON: _json_text_string,
}
