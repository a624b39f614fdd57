"""Users, roles and warehouses: CREATE, ALTER, DROP, SHOW, DESCRIBE, kept durably.

Source: the CREATE USER, ROLE and WAREHOUSE pages of Snowflake's SQL reference.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from firn_local.snowflake.privileges import enforcement, grant_table
from firn_local.snowflake.privileges.requirements import Need, on_account
from firn_local.snowflake.sql.errors import compilation_error, duplicate, missing, unsupported
from firn_local.snowflake.sql.result_set import TEXT, TIME, Answer, text_columns
from firn_local.snowflake.sql.tokenizer import Words

if TYPE_CHECKING:
    from collections.abc import Callable

    from firn_local.snowflake.engine.session import Session
    from firn_local.snowflake.store.duckdb_store import Engine

KINDS = ("USER", "ROLE", "WAREHOUSE")
SYSTEM_ROLES = ("ACCOUNTADMIN", "SECURITYADMIN", "USERADMIN", "SYSADMIN", "ORGADMIN", "PUBLIC")
_SHOWN = {
    "ROLE": ("is_default", "is_current", "is_inherited", "assigned_to_users", "granted_to_roles", "granted_roles"),
    "WAREHOUSE": ("state", "type", "size", "auto_suspend", "auto_resume", "is_default", "is_current"),
    "USER": (
        "login_name", "display_name", "email", "default_warehouse", "default_namespace", "default_role",
        "disabled", "has_password", "has_rsa_public_key", "type",
    ),
}  # fmt: skip


def create_tables(engine: Engine) -> None:
    """Make the catalog's tables; run at every start."""
    engine.duck_conn.execute("CREATE SCHEMA IF NOT EXISTS _fs_global._firn")
    engine.duck_conn.execute(
        "CREATE TABLE IF NOT EXISTS _fs_global._firn.principals (kind VARCHAR, name VARCHAR, created_on TIMESTAMPTZ, "
        "owner VARCHAR, "
        "properties VARCHAR, PRIMARY KEY (kind, name))"
    )


def properties(engine: Engine, kind: str, name: str) -> dict[str, Any] | None:
    """The properties of a user, role or warehouse; None if it does not exist."""
    rows = engine.query("SELECT properties FROM _fs_global._firn.principals WHERE kind = ? AND name = ?", [kind, name])
    if rows:
        found: dict[str, Any] = json.loads(rows[0][0])
        return found
    return {} if kind == "ROLE" and name in SYSTEM_ROLES else None


def any_user(engine: Engine) -> bool:
    """Whether any user was created."""
    return engine.query("SELECT 1 FROM _fs_global._firn.principals WHERE kind = 'USER' LIMIT 1") != []


def require(session: Session, kind: str, name: str) -> str:
    """`name` if it exists, else Snowflake's error."""
    if properties(session.shared.engine, kind, name) is None:
        raise missing(kind.capitalize(), name)
    return name


def fingerprint(public_key: str) -> str:
    """`SHA256:<base64>` of a public key given as PEM text, with or without its header lines."""
    body = re.sub(r"-----[^-]+-----|\s", "", public_key)
    return "SHA256:" + base64.b64encode(hashlib.sha256(base64.b64decode(body)).digest()).decode()


def _create(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("CREATE")
    replace = words.skip("OR", "REPLACE")
    kind = words.until(*KINDS) or words.peek()
    words.expect(kind)
    if_not_exists = words.skip("IF", "NOT", "EXISTS")
    name, given = words.name(), words.properties()
    enforcement.demand(session, on_account(f"CREATE {kind}"))
    with session.ddl():
        if properties(session.shared.engine, kind, name) is not None and not replace:
            if if_not_exists:
                return Answer.status(f"{name} already exists, statement succeeded.")
            raise duplicate(name)
        _store(session, kind, name, _checked(given))
        grant_table.own(session.shared.engine, kind, name, session.role)
    return Answer.status(f"{kind.capitalize()} {name} successfully created.")


def _alter(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("ALTER")
    kind = words.peek()
    words.expect(kind)
    if_exists = words.skip("IF", "EXISTS")
    name = words.name()
    with session.ddl():
        current = properties(session.shared.engine, kind, name)
        if current is None:
            if if_exists:
                return Answer.status()
            raise missing(kind.capitalize(), name)
        enforcement.demand(session, Need(("MODIFY", "OPERATE") if kind == "WAREHOUSE" else ("OWNERSHIP",), kind, name))
        altered = _altered(current, words, sql)
        _store(session, kind, name, altered)
        if kind == "USER" and altered.get("DISABLED") is True:
            session.shared.locked_out[name] = time.monotonic()
    return Answer.status()


def _altered(current: dict[str, Any], words: Words, sql: str) -> dict[str, Any]:
    if words.skip("SET"):
        return current | _checked(words.properties())
    if words.skip("UNSET"):
        gone = words.names()
        return {k: v for k, v in current.items() if k not in gone and k.removesuffix("_FP") not in gone}
    if words.skip("SUSPEND") or words.skip("RESUME") or words.skip("ABORT"):
        return current
    raise unsupported(sql)


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """Properties as they are kept; a key that is not base64 of a public key is refused as Snowflake does."""
    for key in ("RSA_PUBLIC_KEY", "RSA_PUBLIC_KEY_2"):
        if key in given:
            try:
                given[f"{key}_FP"] = fingerprint(str(given[key]))
            except ValueError:
                raise compilation_error(
                    (394200, "22023"), "New public key rejected by current policy. Reason: 'Invalid public key'"
                ) from None
    return {k: v for k, v in given.items() if k != "PASSWORD"} | ({"HAS_PASSWORD": True} if "PASSWORD" in given else {})


def _store(session: Session, kind: str, name: str, kept: dict[str, Any]) -> None:
    engine = session.shared.engine
    created = engine.query(
        "SELECT created_on FROM _fs_global._firn.principals WHERE kind = ? AND name = ?", [kind, name]
    )
    values = [kind, name, created[0][0] if created else datetime.now(UTC), session.role, json.dumps(kept)]
    engine.query("INSERT OR REPLACE INTO _fs_global._firn.principals VALUES (?, ?, ?, ?, ?)", values)


def _drop(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("DROP")
    kind = words.peek()
    words.expect(kind)
    if_exists = words.skip("IF", "EXISTS")
    name = words.name()
    with session.ddl():
        if not if_exists:
            require(session, kind, name)
        elif enforcement.holds_nothing(session, kind, name):
            return Answer.status("Drop statement executed successfully.")
        enforcement.demand(session, Need(("OWNERSHIP",), kind, name))
        session.shared.engine.query("DELETE FROM _fs_global._firn.principals WHERE kind = ? AND name = ?", [kind, name])
        grant_table.forget_principal(session.shared.engine, kind, name)
    return Answer.status(f"{name} successfully dropped.")


def _show(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("SHOW")
    words.skip("TERSE")
    kind = words.peek().removesuffix("S")
    words.expect(f"{kind}S")
    like = words.like()
    sql_rows = (
        "SELECT name, created_on, owner, properties FROM _fs_global._firn.principals WHERE kind = ? ORDER BY name"
    )
    found = session.shared.engine.query(sql_rows, [kind])
    if kind == "WAREHOUSE":
        found = [row for row in found if not enforcement.holds_nothing(session, kind, row[0])]
    if kind == "ROLE":
        known = {row[0] for row in found}
        found += [(name, datetime.fromtimestamp(0, UTC), "", "{}") for name in SYSTEM_ROLES if name not in known]
    rows = [_row(session, kind, *row) for row in found if like is None or like.fullmatch(row[0])]
    columns = [("created_on", TIME), ("name", TEXT), *text_columns(*_SHOWN[kind], "owner", "comment")]
    return Answer(columns, rows)


def _row(session: Session, kind: str, name: str, created: datetime, owner: str | None, kept: str) -> tuple[Any, ...]:
    given = json.loads(kept)
    derived = {
        "state": "STARTED",
        "type": given.get("TYPE") or given.get("WAREHOUSE_TYPE") or ("STANDARD" if kind == "WAREHOUSE" else ""),
        "size": given.get("WAREHOUSE_SIZE", "X-Small"),
        "login_name": name,
        "display_name": name,
        "has_rsa_public_key": str("RSA_PUBLIC_KEY" in given).lower(),
        "is_current": "Y" if name in (session.role, session.warehouse) else "N",
        "is_default": "N",
    }
    values = [str(given.get(c.upper(), derived.get(c, ""))) for c in _SHOWN[kind]]
    return (created, name, *values, owner or "", str(given.get("COMMENT", "")))


def _describe_user(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.skip("DESC")
    words.skip("DESCRIBE")
    words.expect("USER")
    name = words.name()
    kept = properties(session.shared.engine, "USER", name)
    if kept is None or (name != session.user and enforcement.holds_nothing(session, "USER", name)):
        raise missing("User", name)
    shown = {"NAME": name, "LOGIN_NAME": name, "RSA_PUBLIC_KEY_FP": None, "RSA_PUBLIC_KEY_2_FP": None} | kept
    rows = [(key, None if value is None else str(value), "", "") for key, value in shown.items()]
    return Answer(text_columns("property", "value", "default", "description"), rows)


COMMANDS: dict[tuple[str, ...], Callable[[Session, str], Answer]] = {
    **{("CREATE", kind): _create for kind in KINDS},
    **{("CREATE", "OR", "REPLACE", kind): _create for kind in KINDS},
    **{("ALTER", kind): _alter for kind in KINDS},
    **{("DROP", kind): _drop for kind in KINDS},
    **{("SHOW", f"{kind}S"): _show for kind in KINDS},
    **{("SHOW", "TERSE", f"{kind}S"): _show for kind in KINDS},
    ("DESC", "USER"): _describe_user,
    ("DESCRIBE", "USER"): _describe_user,
}
