"""Which pipe a client means: one that somebody made, a table's default pipe, or the one of an interactive table.

Source: https://docs.snowflake.com/en/user-guide/snowpipe-streaming/snowpipe-streaming-pipe-object: every table has a
default pipe `<TABLE>-STREAMING`, which matches by column name. Names are found in any case, as the REST API has them.
"""

from __future__ import annotations

from dataclasses import dataclass

from firn_local.snowflake.store import pipe_table, table_annotations
from firn_local.snowflake.store.duckdb_store import Store
from firn_local.snowflake.store.table_annotations import Place
from firn_local.snowflake.streaming.protocol_errors import PIPE_MISSING, missing

DEFAULT_SUFFIX = "-STREAMING"
_TABLE = (
    "SELECT database_name, schema_name, table_name FROM duckdb_tables() WHERE lower(database_name) = lower(?) "
    "AND lower(schema_name) = lower(?) AND lower(table_name) = lower(?)"
)


@dataclass(frozen=True)
class Pipe:
    """A pipe; `table` is the full name of the table it fills, `copy` its COPY statement or None to match by name."""

    database: str
    schema: str
    name: str
    table: str
    copy: str | None = None
    is_default: bool = True

    @property
    def full_name(self) -> str:
        """DATABASE.SCHEMA.NAME."""
        return f"{self.database}.{self.schema}.{self.name}"

    @property
    def place(self) -> Place:
        """Where DuckDB has its table."""
        return table_annotations.place_of(self.table, frozenset())


def find(store: Store, database: str, schema: str, name: str) -> Pipe:
    """The pipe of that name. Raises ProtocolError where there is none, or its table is gone."""
    pipe = _made(store, database, schema, name) or _of_a_table(store, database, schema, name)
    if pipe is None:
        raise missing(PIPE_MISSING, f"Pipe '{database}.{schema}.{name}' does not exist or not authorized.")
    return pipe


def _made(store: Store, database: str, schema: str, name: str) -> Pipe | None:
    kept = pipe_table.rows(store, f"{database}.{schema}.{name}")
    streaming = [pipe for pipe in kept if pipe.is_streaming]
    if not streaming:
        return None
    database, schema, name = streaming[0].name.split(".", 2)
    table = _table(store, *streaming[0].target.split(".", 2))
    return None if table is None else Pipe(database, schema, name, ".".join(table), streaming[0].definition, False)


def _of_a_table(store: Store, database: str, schema: str, name: str) -> Pipe | None:
    is_default = name.upper().endswith(DEFAULT_SUFFIX)
    table = _table(store, database, schema, name[: -len(DEFAULT_SUFFIX)] if is_default else name)
    if table is None:
        return None
    with store.duck_conn.cursor() as conn:
        select = table_annotations.table(conn, table).get("streams")
    if select is None and not is_default:
        return None  # only a streaming interactive table has a pipe of its own name without CREATE PIPE
    copy = None if select is None else f"COPY INTO {table_annotations.quoted(table)} FROM ({select})"
    own = f"{table[2]}{DEFAULT_SUFFIX}" if is_default else table[2]
    return Pipe(table[0], table[1], own, ".".join(table), copy)


def _table(store: Store, *name: str) -> Place | None:
    rows = store.query(_TABLE, list(name)) if len(name) == 3 else []
    return (str(rows[0][0]), str(rows[0][1]), str(rows[0][2])) if rows else None
