"""When tasks are due."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from firn_local.snowflake.tasks import schedules


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "moment", "due"),
    [
        ("1 MINUTE", "2026-01-01 00:00:30", "2026-01-01 00:01:00"),
        ("1 minute", "2026-01-01 00:01:00", "2026-01-01 00:02:00"),
        ("90 MINUTES", "2026-01-01 02:00:00", "2026-01-01 03:00:00"),
        ("30 SECONDS", "2026-01-01 00:00:01", "2026-01-01 00:00:30"),
        ("2 HOURS", "2026-01-01 00:00:00", "2026-01-01 02:00:00"),
        ("USING CRON * * * * * UTC", "2026-01-01 00:00:30", "2026-01-01 00:01:00"),
        ("USING CRON 0/15 9-17 * * MON-FRI UTC", "2026-01-02 17:50:00", "2026-01-05 09:00:00"),
        ("USING CRON 0 2 L * * UTC", "2026-02-01 00:00:00", "2026-02-28 02:00:00"),
        ("USING CRON 0 0 * * 5L UTC", "2026-01-01 00:00:00", "2026-01-30 00:00:00"),
        ("USING CRON 0 0 1,15 JAN,JUL * UTC", "2026-01-20 00:00:00", "2026-07-01 00:00:00"),
        ("USING CRON 0 0 13 * SUN UTC", "2026-01-05 00:00:00", "2026-01-11 00:00:00"),  # either of them
        ("USING CRON 0 0 29 2 * UTC", "2026-03-01 00:00:00", "2028-02-29 00:00:00"),
        ("USING CRON 0 9 * * * America/Los_Angeles", "2026-01-01 00:00:00", "2026-01-01 17:00:00"),
        ("USING CRON 30 2 * * * Europe/Berlin", "2026-03-28 12:00:00", "2026-03-30 00:30:00"),  # no 02:30 on the 29th
    ],
)
def test_the_next_time(schedule: str, moment: str, due: str) -> None:
    assert schedules.parse(schedule).after(at(moment), at("2026-01-01 00:00:00")) == at(due)


@pytest.mark.parametrize(
    "schedule",
    [
        "", "5", "0 MINUTES", "5 SECONDS", "9 DAYS", "11521 MINUTES", "USING CRON * * * * UTC",
        "USING CRON 60 * * * * UTC", "USING CRON * * 32 * * UTC", "USING CRON * * * * * Nowhere/City",
        "USING CRON 5-1 * * * * UTC",
    ],
)  # fmt: skip
def test_what_is_no_schedule(schedule: str) -> None:
    with pytest.raises(schedules.ScheduleError, match="Invalid schedule"):
        schedules.parse(schedule)
