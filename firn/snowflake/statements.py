"""Statements that a person typed: split, run one after the other, and answered as plain values.

The driver's own splitter, and not sqlglot: it leaves each statement as it is typed, also one that no parser knows.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from snowflake.connector import SnowflakeConnection
from snowflake.connector.constants import FIELD_ID_TO_NAME
from snowflake.connector.cursor import SnowflakeCursor
from snowflake.connector.util_text import split_statements

from firn.snowflake.faults import translated


@dataclass(frozen=True)
class Result:
    """What one statement answered; a VARIANT, OBJECT or ARRAY is parsed into plain values."""

    columns: tuple[str, ...]
    rows: list[dict[str, Any]]


def run_statements(connection: SnowflakeConnection, text: str) -> Iterator[Result]:
    """Run statements one after the other; each result is there before the next statement runs."""
    for statement, _ in split_statements(io.StringIO(text), remove_comments=True):
        if statement and statement.strip().rstrip(";").strip():
            with translated(sql=statement, role=connection.role or ""), connection.cursor() as cursor:
                cursor.execute(statement)
                yield _result(cursor)


def _result(cursor: SnowflakeCursor) -> Result:
    columns = tuple(column.name for column in cursor.description)
    nested = [FIELD_ID_TO_NAME[column.type_code] in ("VARIANT", "OBJECT", "ARRAY") for column in cursor.description]
    rows = [
        {
            name: json.loads(value) if is_json and isinstance(value, str) else value
            for name, value, is_json in zip(columns, row, nested, strict=True)
        }
        for row in cursor.fetchall()
    ]
    return Result(columns, rows)
