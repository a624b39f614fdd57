"""Single values as Avro's primitive and logical types. Not for nested types (`coerce`).

The rules are those of tools that write CSV, which no library has as a whole: pyarrow's casts refuse ` 7 `, `7.0`,
`yes`, texts as times and numbers as dates, and make infinity of a float that is too large; fastavro writes an int of
more than 32 bits and a text as a date; pydantic takes `1_000` and guesses the unit of a timestamp. Encoding the values
is fastavro's part.
Logical types: https://avro.apache.org/docs/1.12.0/specification/#logical-types
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any
from uuid import UUID

_SHORT = 60
_WHOLE = re.compile(r"[+-]?\d+(\.0*)?$")
_TRUE = {"true", "t", "yes", "y", "1"}
_FALSE = {"false", "f", "no", "n", "0"}
_FLOAT_MAX = 3.4028235677973366e38
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class CoercionError(Exception):
    """A value that is not of its type: path of the field, the expected type in words, and the value, shortened."""

    def __init__(self, path: str, wanted: str, value: str) -> None:
        super().__init__(path, wanted, value)
        self.path, self.wanted, self.value = path, wanted, value

    def inside(self, name: str) -> CoercionError:
        """The same error seen from the field (or index, or key) around it."""
        return CoercionError(f"{name}.{self.path}" if self.path else name, self.wanted, self.value)


def expected(wanted: str, value: Any) -> CoercionError:
    """The error for `value` where `wanted` was expected."""
    text = repr(value)
    return CoercionError("", wanted, text if len(text) <= _SHORT else f"{text[:_SHORT]}...")


def _boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower() if isinstance(value, str | int) else ""
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    raise expected("boolean (true, false, yes, no, 1, 0)", value)


def _integer(bits: int, name: str) -> Callable[[Any], int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1

    def coerce(value: Any) -> int:
        number = _whole(value)
        if number is None or not low <= number <= high:
            raise expected(f"{name} (a whole number of {bits} bits)", value)
        return number

    return coerce


def _whole(value: Any) -> int | None:
    """A whole number, also written as 5.0 (as tools write columns with gaps); anything else is None."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float | Decimal):
        return int(value) if value == value and abs(value) != float("inf") and value == int(value) else None
    if isinstance(value, str) and _WHOLE.match(value.strip()):
        return int(value.strip().partition(".")[0])
    return None


def _double(value: Any) -> float:
    wanted = "double (a number)"
    if isinstance(value, bool) or (isinstance(value, str) and "_" in value):
        raise expected(wanted, value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise expected(wanted, value) from None


def _float(value: Any) -> float:
    number = _double(value)
    if abs(number) > _FLOAT_MAX and abs(number) != float("inf"):
        raise expected("float (a number of 32 bits)", value)
    return number


def _string(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal | UUID):
        return str(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    raise expected("string", value)


def _bytes(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise expected("bytes in base64", value)


def _null(value: Any) -> None:
    if value is not None and value != "":
        raise expected("null", value)


def _decimal(schema: dict[str, Any]) -> Callable[[Any], Decimal]:
    precision, scale = schema["precision"], schema.get("scale", 0)
    wanted = f"decimal({precision}, {scale})"
    exactly = Context(prec=precision, traps=[InvalidOperation, Inexact])

    def coerce(value: Any) -> Decimal:
        try:
            # Python's own spelling of long numbers (1_000) is nobody else's.
            number = Decimal("NaN" if isinstance(value, bool) or "_" in str(value) else str(value).strip())
            exact = number.quantize(Decimal(1).scaleb(-scale), context=exactly)
        except (InvalidOperation, Inexact):
            raise expected(wanted, value) from None
        if exact.is_nan():
            raise expected(wanted, value)
        return exact

    return coerce


def _date(_schema: dict[str, Any]) -> Callable[[Any], date]:
    def coerce(value: Any) -> date:
        if isinstance(value, datetime) and value.time() == time(0):
            return value.date()
        if type(value) is date:
            return value
        days = _whole(value)
        try:
            return date.fromisoformat(value.strip()) if days is None else EPOCH.date() + timedelta(days=days)
        except (ValueError, AttributeError, OverflowError):
            raise expected("date (2026-03-05, or days since 1970)", value) from None

    return coerce


def _time(unit: str) -> Callable[[dict[str, Any]], Callable[[Any], time]]:
    def coerce(value: Any) -> time:
        if isinstance(value, time):
            return value
        count = _whole(value)
        try:
            if count is None:
                return time.fromisoformat(value.strip())
            moment = EPOCH + timedelta(**{unit: count})
        except (ValueError, AttributeError, OverflowError):
            raise expected(f"time (12:30:15, or {unit} since midnight)", value) from None
        if moment.date() != EPOCH.date():
            raise expected(f"time (12:30:15, or {unit} since midnight)", value)
        return moment.time()

    return lambda _schema: coerce


def _timestamp(unit: str, *, local: bool = False) -> Callable[[dict[str, Any]], Callable[[Any], datetime]]:
    def coerce(value: Any) -> datetime:
        count = None if isinstance(value, datetime) else _whole(value)
        try:
            if count is not None:
                moment = EPOCH + timedelta(**{unit: count})
            else:
                moment = value if isinstance(value, datetime) else datetime.fromisoformat(value.strip())
        except (ValueError, AttributeError, TypeError, OverflowError):
            raise expected(f"timestamp (2026-03-05T12:30:15Z, or {unit} since 1970)", value) from None
        if local:
            return moment.replace(tzinfo=None)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    return lambda _schema: coerce


def _uuid(_schema: dict[str, Any]) -> Callable[[Any], str]:
    def coerce(value: Any) -> str:
        try:
            return str(value if isinstance(value, UUID) else UUID(value.strip()))
        except (ValueError, AttributeError):
            raise expected("uuid", value) from None

    return coerce


PRIMITIVES: dict[str, Callable[[Any], Any]] = {
    "null": _null,
    "boolean": _boolean,
    "int": _integer(32, "int"),
    "long": _integer(64, "long"),
    "float": _float,
    "double": _double,
    "string": _string,
    "bytes": _bytes,
}
"""Coercers of the primitive types."""

LOGICAL: dict[tuple[str, str | None], Callable[[dict[str, Any]], Callable[[Any], Any]]] = {
    ("bytes", "decimal"): _decimal,
    ("int", "date"): _date,
    ("int", "time-millis"): _time("milliseconds"),
    ("long", "time-micros"): _time("microseconds"),
    ("long", "timestamp-millis"): _timestamp("milliseconds"),
    ("long", "timestamp-micros"): _timestamp("microseconds"),
    ("long", "local-timestamp-millis"): _timestamp("milliseconds", local=True),
    ("long", "local-timestamp-micros"): _timestamp("microseconds", local=True),
    ("string", "uuid"): _uuid,
}
"""Makers of coercers by (type, logicalType); a logical type that is not here counts as its plain type, as Avro says."""
