"""The table of pipes: full name, text, comment. Who may do what with them is in `pipes`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firn_local.snowflake.store.duckdb_store import Engine

_TABLE = "_fs_global._firn.pipes"
Row = tuple[datetime, str, str, str]


def create_tables(engine: Engine) -> None:
    """Make the table; run at every start."""
    engine.duck_conn.execute("CREATE SCHEMA IF NOT EXISTS _fs_global._firn")
    engine.duck_conn.execute(
        f"CREATE TABLE IF NOT EXISTS {_TABLE} (created_on TIMESTAMPTZ, name VARCHAR PRIMARY KEY, definition VARCHAR, "
        "comment VARCHAR)"
    )


def rows(engine: Engine, name: str | None = None) -> list[Row]:
    """(created_on, full name, definition, comment) of one pipe, or of all by name."""
    where, values = ("WHERE name = ?", [name]) if name is not None else ("", [])
    sql = f"SELECT created_on, name, definition, comment FROM {_TABLE} {where} ORDER BY name"  # noqa: S608
    return [(r[0], r[1], r[2], r[3]) for r in engine.query(sql, values)]


def store(engine: Engine, name: str, definition: str, comment: str) -> None:
    """Keep a pipe made now; one of that name is replaced."""
    sql = f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?, ?, ?)"  # noqa: S608
    engine.query(sql, [datetime.now(UTC), name, definition, comment])


def remove(engine: Engine, name: str) -> None:
    """Forget a pipe."""
    engine.query(f"DELETE FROM {_TABLE} WHERE name = ?", [name])  # noqa: S608


def forget(engine: Engine, inside: str) -> None:
    """Forget the pipes of a dropped database or schema."""
    engine.query(f"DELETE FROM {_TABLE} WHERE starts_with(name, ?)", [f"{inside}."])  # noqa: S608
