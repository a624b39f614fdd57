"""What is in the tables: counts for a summary, and a few rows to look at. Not for moving anything.

Plain SELECTs; COUNT(DISTINCT a, b, c) counts combinations (https://docs.snowflake.com/en/sql-reference/functions/count).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from firn.snowflake.connection import SnowflakeLogin, connect, query

_COUNT = """
SELECT COUNT(*) AS RECORDS,
  COUNT(DISTINCT RECORD_METADATA:topic::VARCHAR, RECORD_METADATA:partition::NUMBER, RECORD_METADATA:offset::NUMBER)
    AS DISTINCT_RECORDS
FROM {table}
"""
_TYPED = "SELECT COUNT(*) AS RECORDS FROM {table}"
_LATEST = "SELECT * FROM {table} ORDER BY {order} LIMIT {limit}"


@dataclass(frozen=True)
class TableCount:
    """Rows of a table; `distinct_rows` by (topic, partition, offset), equal to `rows` unless something is doubled."""

    table: str
    rows: int
    distinct_rows: int | None = None

    def as_row(self) -> dict[str, Any]:
        """Plain values, for a table or JSON."""
        return asdict(self)


def count_tables(login: SnowflakeLogin, landed: Iterable[str], typed: Iterable[str]) -> list[TableCount]:
    """Count landing tables (with both variants) and typed ones. Names may be qualified."""
    with connect(login) as connection:
        counts = []
        for table in landed:
            row = query(connection, _COUNT.format(table=table))[0]
            counts.append(TableCount(table, int(row["RECORDS"]), int(row["DISTINCT_RECORDS"])))
        return counts + [
            TableCount(table, int(query(connection, _TYPED.format(table=table))[0]["RECORDS"])) for table in typed
        ]


def latest_rows(login: SnowflakeLogin, table: str, order: str, limit: int) -> list[dict[str, Any]]:
    """The first rows of a typed table by an ORDER BY clause of ours."""
    with connect(login) as connection:
        return query(connection, _LATEST.format(table=table, order=order, limit=limit))
