"""The durable table of tags: the values each allows, its comment. Which object has which is in `table_annotations`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from firn_local.snowflake.store.duckdb_store import Store

_TABLE = "_fs_global._firn.tags"


@dataclass(frozen=True)
class Tag:
    """One tag by its full name; `allowed` is None where it takes any value."""

    created_on: datetime
    name: str
    allowed: list[str] | None
    comment: str


def create_table(store: Store) -> None:
    """Make the table; run at every start."""
    store.duck_conn.execute(
        f"CREATE TABLE IF NOT EXISTS {_TABLE} (created_on TIMESTAMPTZ, name VARCHAR PRIMARY KEY, allowed VARCHAR, "
        "comment VARCHAR)"
    )


def rows(store: Store) -> list[Tag]:
    """Every tag, by name."""
    found = store.query(f"SELECT created_on, name, allowed, comment FROM {_TABLE} ORDER BY name")  # noqa: S608
    return [Tag(made, name, json.loads(allowed), comment) for made, name, allowed, comment in found]


def find(store: Store, name: str) -> Tag | None:
    """The tag of that full name."""
    return next((tag for tag in rows(store) if tag.name == name), None)


def keep(store: Store, name: str, allowed: list[str] | None, comment: str) -> None:
    """Keep a tag made now; one of that name is replaced."""
    sql = f"INSERT OR REPLACE INTO {_TABLE} (created_on, name, allowed, comment) VALUES (?, ?, ?, ?)"  # noqa: S608
    store.query(sql, [datetime.now(UTC), name, json.dumps(allowed), comment])


def remove(store: Store, name: str) -> None:
    """Forget a tag."""
    store.query(f"DELETE FROM {_TABLE} WHERE name = ?", [name])  # noqa: S608


def forget_inside(store: Store, inside: str) -> None:
    """Forget the tags of a dropped database or schema."""
    store.query(f"DELETE FROM {_TABLE} WHERE starts_with(name, ?)", [f"{inside}."])  # noqa: S608
