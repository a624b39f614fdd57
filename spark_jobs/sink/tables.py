"""Target tables: made when they are absent, looked at before the first record.

Statements: CREATE TABLE, DESCRIBE TABLE (https://docs.snowflake.com/en/sql-reference/sql/create-table).
"""

from __future__ import annotations

from snowflake.connector import SnowflakeConnection

from firn.errors import ConfigError
from firn.snowflake import MissingObjectError, execute, query
from spark_jobs.sink.identifiers import Namespace

_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)
COMMENT = 'Made by Firn from a Kafka topic'
"""
_DESCRIBE = "DESCRIBE TABLE {table}"


def ensure_table(connection: SnowflakeConnection, namespace: Namespace, table: str, *, create: bool) -> None:
    """Make the table unless it is there, and check that rows can go into it.

    Raises ConfigError when it is absent and must not be made, or when its columns do not fit.
    """
    name = namespace.qualified(table)
    if create:
        execute(connection, _CREATE.format(table=name))
    try:
        columns = {str(row["name"]): row for row in query(connection, _DESCRIBE.format(table=name))}
    except MissingObjectError as error:
        raise ConfigError(
            f"Table not found: {name}.",
            where="auto.create.tables is false",
            next_step=f"Set it to true, or: {_CREATE.format(table=name).split('COMMENT')[0].strip()};",
        ) from error
    _check_columns(name, columns)


def _check_columns(table: str, columns: dict[str, dict[str, object]]) -> None:
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
