"""Which pipe the rows of a table go through, and what a default pipe cannot do.

A pipe with the table's own name is the user's; else every table has a default pipe, which matches columns by name.
Source: https://docs.snowflake.com/en/user-guide/snowpipe-streaming/snowpipe-streaming-pipe-object, and for columns with
defaults .../snowpipe-streaming-high-performance-limitations. Not for reading a pipe's SELECT (`tables.pipes`).
"""

from __future__ import annotations

import logging

from snowflake.connector import SnowflakeConnection

from firn.channels.names import default_pipe
from firn.errors import ConfigError
from firn.snowflake.columns import Columns
from firn.snowflake.identifiers import Namespace, stored, written
from firn.snowflake.tables import describe_named
from spark_jobs.sink.tables.pipes import streams_by_its_name
from spark_jobs.sink.tables.target_tables import check_columns
from spark_jobs.sink.values.table_loaders import ColumnsLoader, PipeLoader, TableLoader

_EXAMPLE = (
    "COPY INTO <table> (<column>, ...) FROM (SELECT $1:<field>, ... FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))"
)
log = logging.getLogger(__name__)


def pipe_of(connection: SnowflakeConnection, namespace: Namespace, table: str, loader: TableLoader) -> str | None:
    """The pipe of a table, as Snowflake keeps its name; None for a table that records have to make first."""
    if isinstance(loader, ColumnsLoader) and not loader.exists:
        return None
    if isinstance(loader, PipeLoader) or streams_by_its_name(connection, namespace, table):
        return stored(table)
    return default_pipe(stored(table))


def check_target(connection: SnowflakeConnection, namespace: Namespace, table: str, loader: TableLoader) -> None:
    """Raise ConfigError, with what to do, where rows cannot go to this table this way."""
    match loader:
        case PipeLoader():
            _check_pipe(connection, namespace, table, loader)
        case ColumnsLoader() if not streams_by_its_name(connection, namespace, table):
            _check_defaults(namespace, table, loader.columns)


def _check_pipe(connection: SnowflakeConnection, namespace: Namespace, table: str, loader: PipeLoader) -> None:
    """The SELECT was compiled when the pipe was made; the table that it fills may have changed since."""
    name, shape = written(loader.table), describe_named(connection, loader.table)
    if shape is None:
        raise ConfigError(
            f"Table not found: {name}.",
            where=f"pipe {namespace.qualified(table)}",
            next_step="Make the table that the pipe fills: the sink makes none for a pipe. If it exists: "
            f"GRANT INSERT ON TABLE {name} TO ROLE {connection.role or '<role>'};",
        )
    check_columns(name, shape.columns, loader)


def _check_defaults(namespace: Namespace, table: str, columns: Columns) -> None:
    """A default pipe writes NULL into a column that a row has no value for, whatever the column's default."""
    filled = [column for column in columns if column.default is not None or column.generated]
    if refusing := [column.name for column in filled if not column.nullable]:
        raise ConfigError(
            f"Each row would be rejected: a default pipe does not fill in the defaults of NOT NULL columns "
            f"({', '.join(refusing)}).",
            where=f"table {namespace.qualified(table)}",
            next_step=f"Make a pipe {namespace.qualified(table)} whose COPY names the other columns alone, as "
            f"{_EXAMPLE}; or drop NOT NULL.",
        )
    if filled:
        log.warning(
            "table %s: a default pipe writes NULL where a record has no value for a column with a default: %s",
            namespace.qualified(table),
            ", ".join(column.name for column in filled),
        )
