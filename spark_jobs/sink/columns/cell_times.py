"""Values for DATE, TIME and TIMESTAMP columns.

Strings are ISO 8601, numbers count from 1970-01-01 in UTC; digits behind the second that the column has no room for
are cut. Sources: "Date & time data types" and, for the unit of a number, the usage notes of TO_TIMESTAMP in Snowflake's
SQL reference; what else is taken: DataValidationUtil of snowflake-ingest-java. No session and no machine gives a time
zone: what comes without one is UTC.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from firn.snowflake.columns import ColumnType, Kind
from spark_jobs.sink.columns.cell_converters import (
    UnfitError,
    decimal_value,
    is_string,
    matches,
    no_value_of,
    shown,
    spread,
    string_value,
)
from spark_jobs.sink.decode.base.scalars import EXACT

_YEAR = 31_536_000_000
# A number below the limit has the unit that so many powers of ten make nanoseconds.
_UNITS = [(Decimal(_YEAR), 9), (Decimal(_YEAR * 1_000), 6), (Decimal(_YEAR * 1_000_000), 3)]
_MOST_DIGITS = 21  # nanoseconds until the year 9999
_EPOCH = datetime(1970, 1, 1)
_MAX_OFFSET = 14 * 60  # minutes that a place on earth is away from UTC

_CLOCK = r"([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]+))?)?"
_ZONE = r"(?: ?([Zz]|[+-][0-9]{2}(?::?[0-9]{2})?)(?:\[[A-Za-z0-9_/+-]+\])?)?"
_TIMESTAMP = re.compile(rf"([0-9]{{4}})-([0-9]{{2}})-([0-9]{{2}})(?:[Tt ]{_CLOCK}{_ZONE})?")
_TIME = re.compile(_CLOCK + _ZONE)

# What the vectors take: days that surely exist, times of day with seconds, UTC or no zone.
_DAY = (
    r"[1-9][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_SECOND = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_QUICK = {
    Kind.DATE: rf'"{_DAY}(?:[T ]{_SECOND}(?:\.[0-9]+)?Z?)?"',
    Kind.TIME: rf'"{_SECOND}(?:\.[0-9]+)?(?:Z|\+0000)?"',
}
_QUICK_TIMESTAMP = rf'"{_DAY}[T ]{_SECOND}(?:\.[0-9]+)?Z?"'
_QUICK_NUMBER = "[0-9]{1,13}"  # seconds or milliseconds, until the year 2286
_ZULU = {Kind.TIMESTAMP_LTZ: "+00:00", Kind.TIMESTAMP_TZ: "+00:00"}


class _Moment(NamedTuple):
    """What a text says: date and time of day, digits behind the second, minutes ahead of UTC."""

    local: datetime
    fraction: str
    offset: int


_Parts: TypeAlias = tuple[str | None, ...]


class TimeConverter:
    """DATE `YYYY-MM-DD`, TIME `HH:MM:SS.f`, TIMESTAMP_NTZ the two with a blank between; _LTZ in UTC and _TZ also have
    `+HH:MM` behind. `.f` has as many digits as the column.

    millis: numbers are milliseconds whatever their size, which otherwise tells their unit.
    """

    def __init__(self, type_: ColumnType, *, millis: bool = False) -> None:
        self._type, self._millis = type_, millis
        self._pattern, self._moment = (_TIME, _clock) if type_.kind is Kind.TIME else (_TIMESTAMP, _timestamp)
        self._quick = _QUICK.get(type_.kind, _QUICK_TIMESTAMP)

    def text(self, json: str) -> str:
        """A string of ISO 8601, or a number (or a string that holds one) of seconds, ms, us or ns by its size."""
        found = self._pattern.fullmatch(string_value(json).strip()) if is_string(json) else None
        try:
            return self._printed(self._moment(found.groups()) if found else self._of_number(json))
        except (ValueError, OverflowError):
            raise UnfitError(f"{shown(json)} is no {self._type}: there is no such day or time") from None

    def texts(self, raw: pa.StringArray) -> pa.StringArray:
        """Strings with seconds in UTC or no zone; numbers of seconds and milliseconds after 1970."""
        strings = matches(raw, self._quick)
        if pc.all(strings).as_py():
            return self._of_strings(raw)
        numbers = matches(raw, _QUICK_NUMBER)
        if not pc.any(numbers).as_py():
            return spread(self._of_strings(raw.filter(strings)), strings)
        of_numbers = spread(self._of_numbers(raw.filter(numbers)), numbers)
        if not pc.any(strings).as_py():
            return of_numbers
        return pc.coalesce(of_numbers, spread(self._of_strings(raw.filter(strings)), strings))

    def _of_number(self, json: str) -> _Moment:
        number = decimal_value(json, self._type)
        if number is None:
            raise no_value_of(json, self._type)
        if number.adjusted() >= _MOST_DIGITS:
            raise OverflowError
        power = 6 if self._millis else next((power for limit, power in _UNITS if number.copy_abs() < limit), 0)
        nanos = int(number.scaleb(power, EXACT).to_integral_value(ROUND_FLOOR, EXACT))
        seconds, nanos = divmod(nanos, 1_000_000_000)
        return _Moment(_EPOCH + timedelta(seconds=seconds), f"{nanos:09d}", 0)

    def _printed(self, moment: _Moment) -> str:
        match self._type.kind:
            case Kind.DATE:
                return moment.local.date().isoformat()
            case Kind.TIME:
                return moment.local.time().isoformat() + self._fraction(moment)
            case Kind.TIMESTAMP_NTZ:
                return moment.local.isoformat(" ") + self._fraction(moment)
            case Kind.TIMESTAMP_LTZ:
                utc = moment.local - timedelta(minutes=moment.offset)
                return utc.isoformat(" ") + self._fraction(moment) + "+00:00"
            case _:
                sign, (hours, minutes) = "-" if moment.offset < 0 else "+", divmod(abs(moment.offset), 60)
                return moment.local.isoformat(" ") + self._fraction(moment) + f"{sign}{hours:02d}:{minutes:02d}"

    def _fraction(self, moment: _Moment) -> str:
        size = self._type.size
        return "." + moment.fraction[:size].ljust(size, "0") if size else ""

    def _of_strings(self, raw: pa.StringArray) -> pa.StringArray:
        match self._type.kind:
            case Kind.DATE:
                return pc.utf8_slice_codeunits(raw, 1, 11)
            case Kind.TIME:
                ends = pc.replace_substring(raw, '+0000"', '"')
                return self._cut(pc.utf8_slice_codeunits(pc.ascii_rtrim(ends, 'Z"'), 1))
            case _:
                clock = pc.utf8_slice_codeunits(pc.ascii_rtrim(raw, 'Z"'), 12)
                return self._joined(pc.utf8_slice_codeunits(raw, 1, 11), clock)

    def _of_numbers(self, raw: pa.StringArray) -> pa.StringArray:
        millis = raw.cast(pa.int64())
        if not self._millis:
            millis = pc.if_else(pc.less(millis, _YEAR), pc.multiply(millis, 1_000), millis)
        texts = millis.cast(pa.timestamp("ms")).cast(pa.string())
        match self._type.kind:
            case Kind.DATE:
                return pc.utf8_slice_codeunits(texts, 0, 10)
            case Kind.TIME:
                return self._cut(pc.utf8_slice_codeunits(texts, 11))
            case _:
                return self._joined(pc.utf8_slice_codeunits(texts, 0, 10), pc.utf8_slice_codeunits(texts, 11))

    def _joined(self, days: pa.StringArray, clocks: pa.StringArray) -> pa.StringArray:
        texts = pc.binary_join_element_wise(days, self._cut(clocks), " ")
        zone = _ZULU.get(self._type.kind)
        return texts if zone is None else pc.binary_join_element_wise(texts, zone, "")

    def _cut(self, clocks: pa.StringArray) -> pa.StringArray:
        """Times of day with as many digits behind the second as the column has."""
        if not self._type.size:
            return pc.utf8_slice_codeunits(clocks, 0, 8)
        whole = pc.equal(pc.binary_length(clocks), 8)
        if pc.any(whole).as_py():
            clocks = pc.if_else(whole, pc.binary_join_element_wise(clocks, ".", ""), clocks)
        width = 9 + self._type.size
        return pc.utf8_slice_codeunits(pc.ascii_rpad(clocks, width, "0"), 0, width)


def _timestamp(parts: _Parts) -> _Moment:
    *numbers, fraction, zone = parts
    year, month, day, hour, minute, second = [int(number or 0) for number in numbers]
    return _Moment(datetime(year, month, day, hour, minute, second), fraction or "", _offset(zone))


def _clock(parts: _Parts) -> _Moment:
    return _timestamp(("1970", "01", "01", *parts))


def _offset(zone: str | None) -> int:
    if zone is None or zone in "Zz":
        return 0
    digits = zone[1:].replace(":", "")
    hours, minutes = int(digits[:2]), int(digits[2:] or 0)
    if hours * 60 + minutes > _MAX_OFFSET or minutes > 59:
        raise ValueError
    return -(hours * 60 + minutes) if zone[0] == "-" else hours * 60 + minutes
