"""The durable table of users, roles and warehouses, with their properties. Not for the statements about them."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from datetime import UTC, datetime
from typing import Any

from firn_local.snowflake.sql.sql_errors import missing
from firn_local.snowflake.store.duckdb_store import Store

SYSTEM_ROLES = ("ACCOUNTADMIN", "SECURITYADMIN", "USERADMIN", "SYSADMIN", "ORGADMIN", "PUBLIC")
_TABLE = "_fs_global._firn.principals"
Row = tuple[str, datetime, str | None, dict[str, Any]]


def create_table(store: Store) -> None:
    """Make the table; run at every start."""
    store.duck_conn.execute(
        f"CREATE TABLE IF NOT EXISTS {_TABLE} (kind VARCHAR, name VARCHAR, created_on TIMESTAMPTZ, owner VARCHAR, "
        "properties VARCHAR, PRIMARY KEY (kind, name))"
    )


def properties(store: Store, kind: str, name: str) -> dict[str, Any] | None:
    """The properties of a user, role or warehouse; None if it does not exist."""
    rows = store.query(f"SELECT properties FROM {_TABLE} WHERE kind = ? AND name = ?", [kind, name])  # noqa: S608
    if rows:
        found: dict[str, Any] = json.loads(rows[0][0])
        return found
    return {} if kind == "ROLE" and name in SYSTEM_ROLES else None


def require(store: Store, kind: str, name: str) -> str:
    """`name` if it exists, else Snowflake's error."""
    if properties(store, kind, name) is None:
        raise missing(kind.capitalize(), name)
    return name


def any_user(store: Store) -> bool:
    """Whether any user was created."""
    return store.query(f"SELECT 1 FROM {_TABLE} WHERE kind = 'USER' LIMIT 1") != []  # noqa: S608


def rows(store: Store, kind: str) -> list[Row]:
    """(name, created on, owner, properties) of all of a kind, by name."""
    sql = f"SELECT name, created_on, owner, properties FROM {_TABLE} WHERE kind = ? ORDER BY name"  # noqa: S608
    return [(name, created, owner, json.loads(kept)) for name, created, owner, kept in store.query(sql, [kind])]


def keep(store: Store, kind: str, name: str, owner: str, kept: dict[str, Any]) -> None:
    """Keep the properties of one, made now unless it exists."""
    created = store.query(f"SELECT created_on FROM {_TABLE} WHERE kind = ? AND name = ?", [kind, name])  # noqa: S608
    values = [kind, name, created[0][0] if created else datetime.now(UTC), owner, json.dumps(kept)]
    store.query(f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?, ?, ?, ?)", values)  # noqa: S608


def remove(store: Store, kind: str, name: str) -> None:
    """Forget one."""
    store.query(f"DELETE FROM {_TABLE} WHERE kind = ? AND name = ?", [kind, name])  # noqa: S608


def fingerprint(public_key: str) -> str:
    """`SHA256:<base64>` of a public key given as PEM text, with or without its header lines."""
    body = re.sub(r"-----[^-]+-----|\s", "", public_key)
    return "SHA256:" + base64.b64encode(hashlib.sha256(base64.b64decode(body)).digest()).decode()
