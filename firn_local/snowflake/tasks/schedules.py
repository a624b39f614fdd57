"""When a task is due: SCHEDULE = '<n> MINUTES' and 'USING CRON <expr> <time zone>'. Pure: no clock.

Source: https://docs.snowflake.com/en/sql-reference/sql/create-task (SCHEDULE): five fields with *, lists, ranges,
steps, names of months and days, L for the last day of the month or the last of a weekday. Where both a day of the month
and a weekday are given, either of them will do. A local time that a change of clocks leaves out is no time.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

_INTERVAL = re.compile(r"(\d+)\s*(HOURS?|H|MINUTES?|M|SECONDS?|S)", re.IGNORECASE)
_CRON = re.compile(r"USING\s+CRON\s+(\S+\s+\S+\s+\S+\s+\S+\s+\S+)\s+(\S+)", re.IGNORECASE)
_UNITS = {"H": 3600, "M": 60, "S": 1}
LONGEST = timedelta(minutes=11_520)
SHORTEST = timedelta(seconds=10)
_MOST_DAYS = 366 * 8
_MONTHS = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name}
_WEEKDAYS = {"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}


class ScheduleError(ValueError):
    """A schedule that Snowflake does not take, with what is wrong."""


@dataclass(frozen=True)
class Interval:
    """Every so often, counted from when the task was resumed."""

    length: timedelta

    def after(self, moment: datetime, since: datetime) -> datetime:
        """The next time after a moment."""
        return since + (max(moment - since, timedelta()) // self.length + 1) * self.length


@dataclass(frozen=True)
class Cron:
    """At the minutes that its five fields name, in its time zone. Days and weekdays are None for `*`."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int] | None
    months: frozenset[int]
    weekdays: frozenset[int] | None
    last_weekdays: frozenset[int]
    zone: ZoneInfo

    def after(self, moment: datetime, since: datetime) -> datetime:  # noqa: ARG002  (as `Interval.after`)
        """The next time after a moment. Raises ScheduleError where there is none within years."""
        start = moment.astimezone(self.zone).date()
        for days in range(_MOST_DAYS):
            for found in self._times(start + timedelta(days=days)):
                if found > moment:
                    return found
        raise ScheduleError("The schedule names no time.")

    def _times(self, day: date) -> Iterator[datetime]:
        if not self._is_on(day):
            return
        for hour in sorted(self.hours):
            for minute in sorted(self.minutes):
                local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=self.zone)
                there = local.astimezone(UTC)
                if there.astimezone(self.zone).replace(fold=0) == local:
                    yield there

    def _is_on(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        if self.days is None and self.weekdays is None:
            return True
        return self._is_day(day) or self._is_weekday(day)

    def _is_day(self, day: date) -> bool:
        last = calendar.monthrange(day.year, day.month)[1]
        return self.days is not None and (day.day in self.days or (0 in self.days and day.day == last))

    def _is_weekday(self, day: date) -> bool:
        if self.weekdays is None:
            return False
        weekday = day.isoweekday() % 7
        is_last = (day + timedelta(days=7)).month != day.month
        return weekday in self.weekdays or (is_last and weekday in self.last_weekdays)


Schedule = Interval | Cron


def parse(text: str) -> Schedule:
    """A schedule from its text. Raises ScheduleError."""
    if found := _INTERVAL.fullmatch(text.strip()):
        length = timedelta(seconds=int(found[1]) * _UNITS[found[2][0].upper()])
        if not SHORTEST <= length <= LONGEST:
            raise ScheduleError(f"Invalid schedule '{text}': an interval is 10 seconds to 11520 minutes (8 days).")
        return Interval(length)
    if (found := _CRON.fullmatch(text.strip())) is None:
        raise ScheduleError(f"Invalid schedule '{text}': expected '<n> MINUTES' or 'USING CRON <expr> <time zone>'.")
    try:
        return _cron(found[1].upper().split(), ZoneInfo(found[2]))
    except (ValueError, KeyError, ZoneInfoNotFoundError) as error:
        raise ScheduleError(f"Invalid schedule '{text}': {error}") from error


def _cron(fields: list[str], zone: ZoneInfo) -> Cron:
    minute, hour, day, month, weekday = fields
    days = None if day == "*" else frozenset({0} if day == "L" else _numbers(day, 1, 31, {"L": 0}))
    last = {_weekday(part[:-1]) for part in weekday.split(",") if part.endswith("L") and part != "L"}
    others = ",".join(part for part in weekday.split(",") if not part.endswith("L"))
    weekdays = None if weekday == "*" else frozenset(n % 7 for n in _numbers(others, 0, 7, _WEEKDAYS)) if others else ()
    return Cron(
        frozenset(_numbers(minute, 0, 59, {})),
        frozenset(_numbers(hour, 0, 23, {})),
        days,
        frozenset(_numbers(month, 1, 12, _MONTHS)),
        None if weekdays is None else frozenset(weekdays),
        frozenset(last),
        zone,
    )


def _weekday(text: str) -> int:
    return (_WEEKDAYS[text] if text in _WEEKDAYS else int(text)) % 7


def _numbers(field: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    """The numbers that a field names."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        begin = low if first == "*" else names[first] if first in names else int(first)
        end = high if first == "*" or (step and not last) else begin if not last else names.get(last) or int(last)
        is_last_day = begin == 0 and low == 1
        if not is_last_day and not low <= begin <= end <= high:
            raise ValueError(f"'{part}' is not within {low}-{high}")
        found.update(range(begin, end + 1, int(step or 1)))
    return found
