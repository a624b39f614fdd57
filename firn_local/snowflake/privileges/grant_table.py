"""The durable table of grants: who holds which privilege on what, owners included. Not for the GRANT statement's text.

Names are full (`DB.SCHEMA.TABLE`, `DB.SCHEMA`, `DB`, `WH`). A role granted to somebody is USAGE on that role. A grant
on what does not exist yet has the kind `FUTURE TABLES IN SCHEMA` (or VIEWS, ... IN DATABASE) and the schema's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from firn_local.snowflake.store.duckdb_store import Store

_TABLE = "_fs_global._firn.grants"
IN_SCHEMA = (
    "TABLE", "VIEW", "STAGE", "FILE FORMAT", "SEQUENCE", "FUNCTION", "PROCEDURE", "PIPE", "STREAM", "TASK", "TAG",
)  # fmt: skip


@dataclass(frozen=True)
class Grant:
    """One privilege on one object for one role or user."""

    privilege: str
    kind: str
    name: str
    to_kind: str
    grantee: str
    option: bool = False


class GrantTable:
    """Every grant; `version` is another object after each change, for whoever keeps a copy (`role_grants`)."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.version = object()
        store.duck_conn.execute(
            f"CREATE TABLE IF NOT EXISTS {_TABLE} (created_on TIMESTAMPTZ, privilege VARCHAR, granted_on VARCHAR, "
            "name VARCHAR, to_kind VARCHAR, grantee VARCHAR, grant_option VARCHAR, granted_by VARCHAR, "
            "PRIMARY KEY (privilege, granted_on, name, to_kind, grantee))"
        )

    def load(self) -> list[Grant]:
        """Every grant, the oldest first."""
        rows = self._store.query(
            f"SELECT privilege, granted_on, name, to_kind, grantee, grant_option = 'true' FROM {_TABLE} "  # noqa: S608
            "ORDER BY created_on"
        )
        return [Grant(*row) for row in rows]

    def rows(self, where: str, values: list[str]) -> list[tuple[Any, ...]]:
        """What SHOW GRANTS lists: (created_on, privilege, on, name, to, grantee, option, by) where `where` holds."""
        columns = "created_on, privilege, granted_on, name, to_kind, grantee, grant_option, granted_by"
        return self._store.query(f"SELECT {columns} FROM {_TABLE} WHERE {where} ORDER BY 1, 2", values)  # noqa: S608

    def add(self, grants: list[Grant], granted_by: str) -> None:
        """Keep grants; one that is held already gets its new grant option."""
        now = datetime.now(UTC)
        with self._changing(), self._store.duck_conn.cursor() as conn:
            for g in grants:
                values = [now, g.privilege, g.kind, g.name, g.to_kind, g.grantee, str(g.option).lower(), granted_by]
                conn.execute(f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)  # noqa: S608

    def remove(self, grants: list[Grant]) -> None:
        """Take grants away, whatever their option."""
        with self._changing(), self._store.duck_conn.cursor() as conn:
            for g in grants:
                conn.execute(
                    f"DELETE FROM {_TABLE} WHERE privilege = ? AND granted_on = ? AND name = ? AND to_kind = ? "  # noqa: S608
                    "AND grantee = ?",
                    [g.privilege, g.kind, g.name, g.to_kind, g.grantee],
                )

    def own(self, kind: str, name: str, role: str, *, granted_by: str = "") -> None:
        """Make `role` the one owner of an object."""
        disown = f"DELETE FROM {_TABLE} WHERE privilege = 'OWNERSHIP' AND granted_on = ? AND name = ?"  # noqa: S608
        self._store.query(disown, [kind, name])
        self.add([Grant("OWNERSHIP", kind, name, "ROLE", role, option=True)], granted_by or role)

    def forget(self, kind: str, name: str) -> None:
        """An object that is gone has no grants; those inside a schema or database go with it."""
        inside = f"{name}." if kind in {"SCHEMA", "DATABASE"} else None
        with self._changing():
            self._store.query(
                f"DELETE FROM {_TABLE} WHERE (granted_on = ? AND name = ?) OR starts_with(name, ?) "  # noqa: S608
                "OR (name = ? AND granted_on = ANY (?))",
                [kind, name, inside, name, [f"FUTURE {each}S IN {kind}" for each in (*IN_SCHEMA, "SCHEMA")]],
            )

    def forget_principal(self, kind: str, name: str) -> None:
        """A role or user that is gone holds nothing, and nobody holds it."""
        with self._changing():
            self._store.query(
                f"DELETE FROM {_TABLE} WHERE (to_kind = ? AND grantee = ?) OR (granted_on = ? AND name = ?)",  # noqa: S608
                [kind, name, kind, name],
            )

    def rename(self, kind: str, old: str, new: str) -> None:
        """A renamed object keeps its grants."""
        with self._changing():
            self._store.query(f"UPDATE {_TABLE} SET name = ? WHERE granted_on = ? AND name = ?", [new, kind, old])  # noqa: S608

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Around a change: whoever keeps a copy learns that it is old once the change is there."""
        try:
            yield
        finally:
            self.version = object()
