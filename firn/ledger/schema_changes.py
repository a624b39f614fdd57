"""The history of what sinks changed about tables: FIRN_SCHEMA_CHANGES, beside the tables.

Statements: CREATE TABLE, INSERT, SELECT (https://docs.snowflake.com/en/sql-reference/sql/create-table, .../insert).
Times are Snowflake's own. Not for making changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from snowflake.connector import SnowflakeConnection

from firn.snowflake.connection import execute, query
from firn.snowflake.identifiers import Namespace, stored
from firn.snowflake.tables import table_exists

TABLE = "FIRN_SCHEMA_CHANGES"

_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
  CHANGED_AT TIMESTAMP_LTZ, SINK VARCHAR, TOPIC VARCHAR, TABLE_NAME VARCHAR, SCHEMA_ID NUMBER(38, 0), STATEMENT VARCHAR
) COMMENT = 'Made by Firn: what its sinks changed about the tables of this schema'
"""
_INSERT = """
INSERT INTO {table} (CHANGED_AT, SINK, TOPIC, TABLE_NAME, SCHEMA_ID, STATEMENT)
SELECT CURRENT_TIMESTAMP(), ?, ?, ?, ?, ?
"""
_NEWEST = """
SELECT CHANGED_AT, TOPIC, TABLE_NAME, SCHEMA_ID, STATEMENT FROM {table} WHERE SINK = ?
ORDER BY CHANGED_AT DESC LIMIT {limit}
"""


@dataclass(frozen=True)
class SchemaChange:
    """One statement that changed a table.

    topic and schema_id are those of the first record that wanted it; schema_id is None where that has no schema.
    """

    table: str
    topic: str
    schema_id: int | None
    statement: str


class SchemaChanges:
    """The history of one schema, as one sink writes it."""

    def __init__(self, namespace: Namespace, sink: str) -> None:
        self._namespace, self._name, self._sink = namespace, namespace.qualified(TABLE), sink

    def ensure(self, connection: SnowflakeConnection) -> None:
        """Make the table unless it is there. It looks first: CREATE wants a privilege also where the table exists."""
        if not table_exists(connection, self._namespace, TABLE):
            execute(connection, _CREATE.format(table=self._name))

    def record(self, connection: SnowflakeConnection, change: SchemaChange) -> None:
        """Write a change down, before it is made: no change goes without its row, but a row may tell of an attempt."""
        values = (self._sink, change.topic, stored(change.table), change.schema_id, change.statement)
        execute(connection, _INSERT.format(table=self._name), values)

    def newest(self, connection: SnowflakeConnection, limit: int) -> list[dict[str, Any]]:
        """The sink's newest changes as rows by column name, newest first; none where there is no history."""
        if not table_exists(connection, self._namespace, TABLE):
            return []
        return query(connection, _NEWEST.format(table=self._name, limit=limit), (self._sink,))
