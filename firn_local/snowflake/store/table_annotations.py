"""What a table and its columns are to Snowflake and DuckDB has no place for: JSON in DuckDB's comments on them.

So it is committed, renamed, dropped and found again with the table. Keys of a column's note: `type`, `default`,
`comment`, `identity`; of a table's: `kind`, `cluster_by`, `evolves`, `interactive`. Not for a table's own comment,
which fakesnow keeps.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

if TYPE_CHECKING:
    from firn_local.snowflake.engine.session import Session

MOST_ATTEMPTS = 100
Place = tuple[str, str, str]
Note = dict[str, Any]
_COLUMNS = (
    "SELECT column_name, data_type, is_nullable, column_default, comment FROM duckdb_columns() "
    "WHERE database_name = ? AND schema_name = ? AND table_name = ? ORDER BY column_index"
)
_TABLE = "SELECT comment FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ?"


@dataclass(frozen=True)
class KnownColumn:
    """A column as DuckDB has it, and its note."""

    name: str
    duck_type: str
    nullable: bool
    duck_default: str | None
    note: Note


def place_of(session: Session, full_name: str) -> Place:
    """(database, schema, table) of DuckDB for a table: a temporary one lies elsewhere."""
    database, schema, name = full_name.split(".", 2)
    return ("temp", "main", name) if full_name in session.temporary else (database, schema, name)


def quoted(place: Place) -> str:
    """The table's name in a statement for DuckDB."""
    return ".".join(_identifier(part) for part in place)


def columns(conn: duckdb.DuckDBPyConnection, place: Place) -> list[KnownColumn]:
    """The columns of a table or view, in order; none where it does not exist."""
    rows = conn.execute(_COLUMNS, list(place)).fetchall()
    return [KnownColumn(name, kind, null, default, _read(note)) for name, kind, null, default, note in rows]


def table(conn: duckdb.DuckDBPyConnection, place: Place) -> Note:
    """The note of a table."""
    rows = conn.execute(_TABLE, list(place)).fetchall()
    return _read(rows[0][0]) if rows else {}


def on_column(place: Place, column: str, note: Note) -> str:
    """The statement that keeps a column's note."""
    return f"COMMENT ON COLUMN {quoted(place)}.{_identifier(column)} IS {_written(note)}"


def on_table(place: Place, note: Note) -> str:
    """The statement that keeps a table's note."""
    return f"COMMENT ON TABLE {quoted(place)} IS {_written(note)}"


def in_one_transaction(conn: duckdb.DuckDBPyConnection, statements: list[str]) -> None:
    """Run statements for DuckDB, all or none; again when rows that others committed meanwhile are in their way."""
    for left in reversed(range(MOST_ATTEMPTS)):
        conn.begin()
        try:
            for statement in statements:
                conn.execute(statement)
            conn.commit()
        except BaseException as error:
            with suppress(duckdb.Error):  # a commit that failed has rolled back
                conn.rollback()
            if not (isinstance(error, duckdb.TransactionException) and left):
                raise
        else:
            return


def _identifier(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def _written(note: Note) -> str:
    return "'{}'".format(json.dumps(note, ensure_ascii=False).replace("'", "''"))


def _read(text: str | None) -> Note:
    try:
        note = json.loads(text) if text else {}
    except ValueError:  # a comment of somebody who used the file with DuckDB
        return {}
    return note if isinstance(note, dict) else {}
