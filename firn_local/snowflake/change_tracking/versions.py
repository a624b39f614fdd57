"""The numbers of committed versions, in the order of commits, over all databases. Not for what a version holds.

A commit that changes a tracked table or moves a stream gets the next number, in the DuckDB transaction of the change
(table `_firn_commits` of its database). Every commit passes `lock`, so whoever holds it sees none come in between.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import duckdb

from firn_local.snowflake.store.duckdb_store import Store


def kept_in(database: str, name: str) -> str:
    """The quoted name of a table of ours beside fakesnow's own, in `database`."""
    return f'"{database}"._fs_information_schema."{name}"'


def commits_of(database: str) -> str:
    """The table of commits: (tx, version, made_at)."""
    return kept_in(database, "_firn_commits")


class Versions:
    """The newest version, and the lock that every commit holds."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.lock = threading.RLock()
        found = [store.query(f"SELECT max(version) FROM {commits_of(name)}")[0][0] for name in store.databases()]
        self._newest = max((version for version in found if version is not None), default=0)

    def now(self) -> int:
        """The newest committed version."""
        return self._newest

    def note(self, conn: duckdb.DuckDBPyConnection, database: str, transaction: int, at: datetime) -> int:
        """Write down, in the connection's transaction, the version that it will be. Hold `lock` until `publish`."""
        version = self._newest + 1
        conn.execute(f"INSERT INTO {commits_of(database)} VALUES (?, ?, ?)", [transaction, version, at])
        return version

    def publish(self, version: int) -> None:
        """It is committed."""
        self._newest = version

    def at(self, database: str, moment: datetime) -> int:
        """The version of a database's tables at a moment."""
        sql = f"SELECT coalesce(max(version), 0) FROM {commits_of(database)} WHERE made_at <= ?"
        return int(self._store.query(sql, [moment.astimezone(UTC)])[0][0])
