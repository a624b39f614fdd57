"""The durable table of pipes: their text as it was written, the table they load. Not for statements about them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from firn_local.snowflake.store.duckdb_store import Store

_TABLE = "_fs_global._firn.pipes"


@dataclass(frozen=True)
class KeptPipe:
    """One pipe; `name` and `target` are full names."""

    created_on: datetime
    name: str
    definition: str
    comment: str
    target: str

    @property
    def is_streaming(self) -> bool:
        """Whether its rows come from a client of Snowpipe Streaming, not from a stage."""
        return "DATA_SOURCE" in self.definition.upper()


def create_table(store: Store) -> None:
    """Make the table; run at every start."""
    store.duck_conn.execute(
        f"CREATE TABLE IF NOT EXISTS {_TABLE} (created_on TIMESTAMPTZ, name VARCHAR PRIMARY KEY, definition VARCHAR, "
        "comment VARCHAR)"
    )
    # Where an older server made the table; a streaming pipe of it has to be made again.
    store.duck_conn.execute(f"ALTER TABLE {_TABLE} ADD COLUMN IF NOT EXISTS target VARCHAR")


def rows(store: Store, name: str | None = None) -> list[KeptPipe]:
    """One pipe by its full name in any case, or all, by name."""
    where, values = ("WHERE lower(name) = lower(?)", [name]) if name is not None else ("", [])
    sql = f"SELECT created_on, name, definition, comment, coalesce(target, '') FROM {_TABLE} {where} ORDER BY name"  # noqa: S608
    return [KeptPipe(*row) for row in store.query(sql, values)]


def find(store: Store, name: str) -> KeptPipe | None:
    """The pipe of that full name."""
    return next((pipe for pipe in rows(store, name) if pipe.name == name), None)


def keep(store: Store, name: str, definition: str, comment: str, target: str) -> None:
    """Keep a pipe made now; one of that name is replaced."""
    sql = f"INSERT OR REPLACE INTO {_TABLE} (created_on, name, definition, comment, target) VALUES (?, ?, ?, ?, ?)"  # noqa: S608
    store.query(sql, [datetime.now(UTC), name, definition, comment, target])


def remove(store: Store, name: str) -> None:
    """Forget a pipe."""
    store.query(f"DELETE FROM {_TABLE} WHERE name = ?", [name])  # noqa: S608


def forget_inside(store: Store, inside: str) -> None:
    """Forget the pipes of a dropped database or schema."""
    store.query(f"DELETE FROM {_TABLE} WHERE starts_with(name, ?)", [f"{inside}."])  # noqa: S608
