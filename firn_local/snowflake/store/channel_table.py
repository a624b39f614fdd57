"""The durable table of Snowpipe Streaming's channels: one in each database, so that a channel moves with its rows.

DuckDB writes to one database in a transaction; a channel's token and counters therefore lie in the file of its table.
What a channel does is in `streaming`. Names are found in any case, as the service's documents have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields

import duckdb

from firn_local.snowflake.store import table_annotations
from firn_local.snowflake.store.duckdb_store import Store

_SCHEMA = "_fs_information_schema"
_TABLE = "_firn_channels"
_KEY = ("schema_name", "pipe_name", "channel_name")


@dataclass
class ChannelRow:
    """A channel as it is committed. `last_error_token` is the end of the batch that had the last rejected row."""

    schema_name: str
    pipe_name: str
    channel_name: str
    table_name: str
    created_ms: int
    client_sequencer: int = 0
    row_sequencer: int = 0
    token: str | None = None
    rows_inserted: int = 0
    rows_parsed: int = 0
    rows_errors: int = 0
    last_error_token: str | None = None
    last_error_message: str | None = None
    last_error_ms: int | None = None


_COLUMNS = [each.name for each in fields(ChannelRow)]
_NUMBERS = {name for name in _COLUMNS if name.startswith("rows_") or name.endswith(("_ms", "sequencer"))}
_TYPES = {name: "BIGINT" if name in _NUMBERS else "VARCHAR" for name in _COLUMNS}
_CHANGING = [name for name in _COLUMNS if name not in (*_KEY, "table_name", "created_ms")]


def find(
    conn: duckdb.DuckDBPyConnection, database: str, schema: str, pipe: str, names: Sequence[str]
) -> list[ChannelRow]:
    """Those channels of a pipe that exist. Not inside a transaction, which a missing table would end."""
    where = "lower(schema_name) = lower(?) AND lower(pipe_name) = lower(?) AND list_contains(?, lower(channel_name))"
    try:
        rows = conn.execute(_select(database, where), [schema, pipe, [name.lower() for name in names]]).fetchall()
    except duckdb.CatalogException:  # the database has had no channel yet
        return []
    return [ChannelRow(*row) for row in rows]


def everywhere(store: Store) -> list[tuple[str, ChannelRow]]:
    """(database, channel) of every channel, by name."""
    found = []
    with store.duck_conn.cursor() as conn:
        sql = "SELECT database_name FROM duckdb_tables() WHERE schema_name = ? AND table_name = ? ORDER BY 1"
        for (database,) in conn.execute(sql, [_SCHEMA, _TABLE]).fetchall():
            rows = conn.execute(f"{_select(database, 'true')} ORDER BY 1, 2, 3").fetchall()
            found += [(str(database), ChannelRow(*row)) for row in rows]
    return found


def add(store: Store, database: str, row: ChannelRow) -> None:
    """Keep a new channel."""
    columns = ", ".join(f"{name} {_TYPES[name]}" for name in _COLUMNS)
    with store.duck_conn.cursor() as conn:
        conn.execute(f"CREATE TABLE IF NOT EXISTS {_place(database)} ({columns})")
        conn.execute(
            f"INSERT INTO {_place(database)} VALUES ({', '.join('?' * len(_COLUMNS))})",  # noqa: S608  (our own names)
            list(astuple(row)),
        )


def store_rows(conn: duckdb.DuckDBPyConnection, database: str, rows: Sequence[ChannelRow]) -> int:
    """Write what changes of channels, in one statement of the connection's transaction; how many of them exist."""
    given = ", ".join(f"unnest(?::{_TYPES[name]}[]) AS {name}" for name in (*_KEY, *_CHANGING))
    changes = ", ".join(f"{name} = new.{name}" for name in _CHANGING)
    same = " AND ".join(f"old.{name} = new.{name}" for name in _KEY)
    values = [[getattr(row, name) for row in rows] for name in (*_KEY, *_CHANGING)]
    sql = f"UPDATE {_place(database)} old SET {changes} FROM (SELECT {given}) new WHERE {same}"  # noqa: S608
    return int(conn.execute(sql, values).fetchall()[0][0])


def change(store: Store, database: str, row: ChannelRow) -> None:
    """Write one channel that exists; again where a commit of rows changes the same table meanwhile."""
    with store.duck_conn.cursor() as conn:
        for left in reversed(range(table_annotations.MOST_ATTEMPTS)):
            try:
                store_rows(conn, database, [row])
            except duckdb.TransactionException:
                if not left:
                    raise
            else:
                return


def remove(store: Store, database: str, row: ChannelRow) -> None:
    """Forget one channel."""
    _forget(store, database, **{name: getattr(row, name) for name in _KEY})


def forget_tables(store: Store, tables: Iterable[str]) -> None:
    """Forget the channels into tables (full names) that are dropped or replaced."""
    for name in tables:
        _forget(store, name.partition(".")[0], table_name=name)


def forget_pipe(store: Store, name: str) -> None:
    """Forget the channels of a pipe (full name) that is dropped or replaced."""
    database, schema, pipe = name.split(".", 2)
    _forget(store, database, schema_name=schema, pipe_name=pipe)


def forget_schema(store: Store, name: str) -> None:
    """Forget the channels of a dropped schema (`DB.SCHEMA`); those of a database go with its file."""
    database, _, schema = name.partition(".")
    if schema:
        _forget(store, database, schema_name=schema)


def _forget(store: Store, database: str, **equal: str) -> None:
    where = " AND ".join("{} = '{}'".format(name, value.replace("'", "''")) for name, value in equal.items())
    with store.duck_conn.cursor() as conn:
        if _exists(conn, database):
            # Again where a commit of rows changes the same channels.
            table_annotations.in_one_transaction(conn, [f"DELETE FROM {_place(database)} WHERE {where}"])  # noqa: S608


def _exists(conn: duckdb.DuckDBPyConnection, database: str) -> bool:
    sql = "SELECT 1 FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ?"
    return conn.execute(sql, [database, _SCHEMA, _TABLE]).fetchall() != []


def _select(database: str, where: str) -> str:
    return f"SELECT {', '.join(_COLUMNS)} FROM {_place(database)} WHERE {where}"  # noqa: S608  (our own names)


def _place(database: str) -> str:
    return table_annotations.quoted((database, _SCHEMA, _TABLE))
