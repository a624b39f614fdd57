"""DATEADD, DATEDIFF, DATE_TRUNC, CONVERT_TIMEZONE, formats."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from typing import Any

import pytest

from tests.firn_local.snowflake.in_process import Connection, InProcess, run

CASES: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        "SELECT TO_CHAR('2024-05-06 17:08:09'::TIMESTAMP, 'YYYY-MM-DD HH24:MI:SS'), "
        "TO_VARCHAR('2024-05-06'::DATE, 'DD Mon YYYY'), TO_CHAR(d, 'YYYY-MM') FROM (SELECT '2024-05-06'::DATE"
        " d)",
        [("2024-05-06 17:08:09", "06 May 2024", "2024-05")],
    ),
    (
        "SELECT DATEADD(day, 1, '2024-01-31'::DATE), DATEADD(month, 1, '2024-01-31'::DATE), DATEADD(hour, 1, "
        "'2024-01-31'::DATE), DATEADD('day', -1, '2024-03-01'::TIMESTAMP), DATEADD(week, 1, d), "
        "DATEADD(quarter, 1, d) FROM (SELECT '2024-01-31'::DATE d)",
        [
            (
                date(2024, 2, 1),
                date(2024, 2, 29),
                datetime(2024, 1, 31, 1, 0),
                datetime(2024, 2, 29, 0, 0),
                date(2024, 2, 7),
                date(2024, 4, 30),
            )
        ],
    ),
    (
        "SELECT DATEDIFF(day, '2024-01-01', '2024-01-03'), DATEDIFF(month, '2024-01-31'::DATE, "
        "'2024-02-01'::DATE), DATEDIFF(hour, '2024-01-01 00:59:00'::TIMESTAMP, '2024-01-01 "
        "01:00:00'::TIMESTAMP), DATEDIFF('second', a, b), TIMESTAMPDIFF(year, a, b) FROM (SELECT '2023-12-31 "
        "23:59:59'::TIMESTAMP a, '2024-01-01'::TIMESTAMP b)",
        [(2, 1, 1, 1, 1)],
    ),
    (
        "SELECT DATEDIFF(week, '2024-01-07'::DATE, '2024-01-08'::DATE), DATEDIFF(millisecond, a, b) FROM "
        "(SELECT '2023-12-31 23:59:59'::TIMESTAMP a, '2024-01-01'::TIMESTAMP b)",
        [(1, 1000)],
    ),
    (
        "SELECT '2024-01-03'::DATE - '2024-01-01'::DATE, '2024-01-03'::DATE + 1",
        [(2, date(2024, 1, 4))],
    ),
    (
        "SELECT DATE_TRUNC('month', '2024-05-06'::DATE), DATE_TRUNC(hour, '2024-05-06 07:08:09'::TIMESTAMP), "
        "TRUNC('2024-05-06'::DATE, 'year'), DATE_TRUNC('week', '2024-05-08'::DATE)",
        [(date(2024, 5, 1), datetime(2024, 5, 6, 7, 0), date(2024, 1, 1), date(2024, 5, 6))],
    ),
    (
        "SELECT CONVERT_TIMEZONE('America/Los_Angeles', 'America/New_York', '2024-01-01 "
        "14:00:00'::TIMESTAMP_NTZ), CONVERT_TIMEZONE('UTC', 'Europe/Berlin', '2024-07-01 "
        "12:00:00'::TIMESTAMP_NTZ)",
        [(datetime(2024, 1, 1, 17, 0), datetime(2024, 7, 1, 14, 0))],
    ),
    (
        "SELECT CONVERT_TIMEZONE('Europe/Berlin', '2024-07-01 12:00:00 +00:00'::TIMESTAMP_TZ)::TIMESTAMP_NTZ",
        [(datetime(2024, 7, 1, 14, 0),)],
    ),
    (
        "SELECT DATE_TRUNC('day', v) FROM (SELECT CURRENT_TIMESTAMP() v) WHERE FALSE",
        [],
    ),
    (
        "SELECT DATEADD(day, n, d), DATEADD(hour, -n, t), DATEADD(day, -3, CURRENT_DATE()) < CURRENT_DATE() "
        "FROM (SELECT 2 n, '2024-01-01'::DATE d, '2024-01-01'::TIMESTAMP t)",
        [(date(2024, 1, 3), datetime(2023, 12, 31, 22, 0), True)],
    ),
]


@pytest.fixture(scope="module")
def c(server: InProcess) -> Iterator[Connection]:
    with server.connect() as connection:
        yield connection


@pytest.mark.parametrize(("sql", "rows"), CASES)
def test_the_documented_rows_come_back(c: Connection, sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert run(c, sql) == rows
