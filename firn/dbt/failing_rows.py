"""Rows that a test of dbt complains about, asked for once more. Not for deciding what failed (`results`)."""

from __future__ import annotations

from typing import Any

from firn.dbt.results import NodeResult
from firn.errors import FirnError
from firn.snowflake.connection import SnowflakeLogin, connect, query

LIMIT = 20


def failing_rows(login: SnowflakeLogin, node: NodeResult) -> list[dict[str, Any]]:
    """The first LIMIT rows of a test's compiled statement; none where there is no statement, or no answer.

    Best effort: the test's own result stands, whatever comes of this.
    """
    if node.kind != "test" or not node.rows or node.query is None:
        return []
    try:
        statement = node.query.read_text(encoding="utf-8").strip().rstrip(";")
        with connect(login, query_tag="firn-dbt") as connection:
            return query(connection, f"SELECT * FROM (\n{statement}\n) LIMIT {LIMIT}")  # noqa: S608
    except (OSError, FirnError):
        return []
