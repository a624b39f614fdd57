"""Target tables: made when they are absent, looked at before the first record.

Statements: CREATE TABLE, DESCRIBE TABLE (https://docs.snowflake.com/en/sql-reference/sql/create-table).
"""

from __future__ import annotations

from typing import Any, TypeAlias

from snowflake.connector import SnowflakeConnection

from firn.errors import ConfigError
from firn.snowflake import execute, query
from firn.snowflake_faults import MissingObjectError
from spark_jobs.sink.identifiers import Namespace

_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)
COMMENT = 'Made by Firn from a Kafka topic'
"""
_DESCRIBE = "DESCRIBE TABLE {table}"

Columns: TypeAlias = dict[str, dict[str, Any]]


def ensure_table(connection: SnowflakeConnection, namespace: Namespace, table: str, *, create: bool) -> None:
    """Make the table unless it is there, and check that rows can go into it.

    It looks first: CREATE TABLE IF NOT EXISTS wants the privilege to create also where the table exists.
    Raises ConfigError when it is absent and must not be made, or when its columns do not fit.
    """
    name = namespace.qualified(table)
    columns = columns_of(connection, namespace, table)
    if columns is None and create:
        execute(connection, _CREATE.format(table=name))
        columns = columns_of(connection, namespace, table)
    if columns is None:
        raise ConfigError(
            f"Table not found: {name}.",
            where="auto.create.tables is false",
            next_step=f"Set it to true, or: {_CREATE.format(table=name).split('COMMENT')[0].strip()};",
        )
    check_columns(name, columns)


def columns_of(connection: SnowflakeConnection, namespace: Namespace, table: str) -> Columns | None:
    """What DESCRIBE TABLE says, by column; None where the table is absent, or the role may do nothing with it."""
    try:
        rows = query(connection, _DESCRIBE.format(table=namespace.qualified(table)))
    except MissingObjectError:
        return None
    return {str(row["name"]): row for row in rows}


def check_columns(table: str, columns: Columns) -> None:
    """Raise ConfigError, with every column at fault, unless rows of a sink can go into these columns."""
    faults = [
        f"  {wanted}: {'has type ' + str(columns[wanted]['type']) if wanted in columns else 'is missing'}"
        for wanted in ("RECORD_METADATA", "RECORD_CONTENT")
        if wanted not in columns or columns[wanted]["type"] != "VARIANT"
    ]
    faults += [
        f"  {name}: is NOT NULL, and the sink has no value for it"
        for name, column in columns.items()
        if name not in ("RECORD_METADATA", "RECORD_CONTENT")
        and column.get("null?") == "N"
        and column.get("default") is None
    ]
    if faults:
        raise ConfigError(
            "The table cannot take the records:\n" + "\n".join(faults),
            where=table,
            next_step="RECORD_METADATA and RECORD_CONTENT must be VARIANT, all else nullable or with a default.",
        )
