"""What an export cost in Snowflake, by its QUERY_TAG: statements, seconds of the warehouse, rows.

From INFORMATION_SCHEMA.QUERY_HISTORY, the statements of this login's own user of the last days
(https://docs.snowflake.com/en/sql-reference/functions/query_history): no privilege is needed, nothing is late, and the
question itself runs in a warehouse. What was billed is the warehouse's alone: WAREHOUSE_METERING_HISTORY has it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from firn.exports import names
from firn.snowflake.connection import query
from firn.snowflake.identifiers import Namespace, quoted, text_literal

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

MAX_DAYS = 7
"""QUERY_HISTORY goes back no further."""
_LIMIT = 10_000
_COST = """
SELECT QUERY_TYPE, COUNT(*) AS STATEMENTS, COUNT(WAREHOUSE_SIZE) AS IN_WAREHOUSE,
  SUM(IFF(WAREHOUSE_SIZE IS NULL, 0, EXECUTION_TIME)) / 1000 AS WAREHOUSE_SECONDS,
  SUM(TOTAL_ELAPSED_TIME) / 1000 AS ELAPSED_SECONDS
FROM TABLE({database}.INFORMATION_SCHEMA.QUERY_HISTORY(
  END_TIME_RANGE_START => DATEADD(HOUR, -{hours}, CURRENT_TIMESTAMP()), RESULT_LIMIT => {limit}))
WHERE QUERY_TAG = {tag} GROUP BY QUERY_TYPE ORDER BY WAREHOUSE_SECONDS DESC, STATEMENTS DESC
"""


@dataclass(frozen=True)
class StatementCost:
    """The statements of one type. in_warehouse: those that ran in one; the others were answered without."""

    query_type: str
    statements: int
    in_warehouse: int
    warehouse_seconds: float
    elapsed_seconds: float

    def row(self) -> dict[str, Any]:
        """As a table row."""
        return asdict(self)


COLUMNS = ("query_type", "statements", "in_warehouse", "warehouse_seconds", "elapsed_seconds")


def statement_costs(
    connection: SnowflakeConnection, namespace: Namespace, export: str, hours: int
) -> list[StatementCost]:
    """What the statements of an export cost in the last hours, by their type; of the newest 10,000 of this user."""
    sql = _COST.format(
        database=quoted(namespace.database),
        hours=min(int(hours), MAX_DAYS * 24),
        limit=_LIMIT,
        tag=text_literal(names.query_tag(export)),
    )
    return [
        StatementCost(
            str(row["QUERY_TYPE"]),
            int(row["STATEMENTS"]),
            int(row["IN_WAREHOUSE"]),
            round(float(row["WAREHOUSE_SECONDS"] or 0), 3),
            round(float(row["ELAPSED_SECONDS"] or 0), 3),
        )
        for row in query(connection, sql)
    ]
