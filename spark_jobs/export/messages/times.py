"""Dates and times of Snowflake, as texts, in whole units since their beginning: exact to the nanosecond, or refused.

Python's datetime ends at microseconds, so the digits behind the second are read apart from it.
"""

from __future__ import annotations

import re
from datetime import date, datetime, time
from functools import lru_cache

NANOS = 1_000_000_000
_EPOCH = datetime(1970, 1, 1)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_SECONDS = 19  # characters of `2026-03-05T12:30:15`
_REST = re.compile(r"(?:\.(\d{1,9}))? ?(?:(Z)|([+-])(\d\d):?(\d\d))?")
_TIME = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?")


@lru_cache(maxsize=4096)
def days(text: str) -> int:
    """Days since 1970 of a date. Raises ValueError."""
    return date.fromisoformat(text).toordinal() - _EPOCH_DAY


def time_nanos(text: str) -> int:
    """Nanoseconds since midnight. Raises ValueError."""
    found = _TIME.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no time")
    moment = time(int(found[1]), int(found[2]), int(found[3] or 0))
    seconds = moment.hour * 3600 + moment.minute * 60 + moment.second
    return seconds * NANOS + int((found[4] or "").ljust(9, "0"))


def timestamp_nanos(text: str, *, local: bool = False) -> int:
    """Nanoseconds since 1970 in UTC; `local`: of the wall clock, whatever offset stands behind it. Raises ValueError.

    A timestamp without an offset is UTC, as the session's time zone is.
    """
    delta = _parsed(text[:_SECONDS]) - _EPOCH
    seconds, rest = delta.days * 86400 + delta.seconds, text[_SECONDS:]
    if not rest:
        return seconds * NANOS
    found = _REST.fullmatch(rest)
    if found is None:
        raise ValueError(f"{text!r} is no timestamp")
    if found[3] and not local:
        offset = int(found[4]) * 3600 + int(found[5]) * 60
        seconds += offset if found[3] == "-" else -offset
    return seconds * NANOS + int((found[1] or "").ljust(9, "0"))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None or moment.microsecond:
        raise ValueError(f"{text!r} is no timestamp")
    return moment
