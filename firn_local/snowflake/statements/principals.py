"""Users, roles and warehouses: CREATE, ALTER, DROP, SHOW, DESCRIBE. Kept by `privileges.principal_table`.

Read by their tokens: sqlglot parses the same statement for one kind and not for another.
Source: the CREATE USER, ROLE and WAREHOUSE pages of Snowflake's SQL reference.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from firn_local.snowflake.engine.family import Family
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement, principal_table
from firn_local.snowflake.privileges.requirements import Need, on_account
from firn_local.snowflake.sql.result_set import TEXT, TIME, ResultSet, text_columns
from firn_local.snowflake.sql.sql_errors import compilation_error, duplicate, missing, sql_error, unsupported
from firn_local.snowflake.sql.tokenizer import Tokenizer

NOT_RESUMABLE = (90063, "22000")
NOT_SUSPENDABLE = (90064, "22000")
KINDS = ("USER", "ROLE", "WAREHOUSE")
_LISTED = {
    "ROLE": ("is_default", "is_current", "is_inherited", "assigned_to_users", "granted_to_roles", "granted_roles"),
    "WAREHOUSE": ("state", "type", "size", "auto_suspend", "auto_resume", "is_default", "is_current"),
    "USER": (
        "login_name", "display_name", "email", "default_warehouse", "default_namespace", "default_role",
        "disabled", "has_password", "has_rsa_public_key", "type",
    ),
}  # fmt: skip


def _create(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("CREATE")
    replace = tokens.skip("OR", "REPLACE")
    kind = tokens.until(*KINDS) or tokens.peek()
    tokens.expect(kind)
    if_not_exists = tokens.skip("IF", "NOT", "EXISTS")
    name, given = tokens.name(), tokens.properties()
    enforcement.demand(session, on_account(f"CREATE {kind}"))
    with session.ddl():
        if principal_table.properties(session.store, kind, name) is not None and not replace:
            if if_not_exists:
                return ResultSet.status(f"{name} already exists, statement succeeded.")
            raise duplicate(name)
        principal_table.keep(session.store, kind, name, session.role, _checked(given))
        session.account.grants.own(kind, name, session.role)
        if kind == "WAREHOUSE":
            session.account.meter.configure(name, given)
            if given.get("INITIALLY_SUSPENDED") is not True:
                session.account.meter.resume(name)
    return ResultSet.status(f"{kind.capitalize()} {name} successfully created.")


def _alter(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("ALTER")
    kind = tokens.peek()
    tokens.expect(kind)
    if_exists = tokens.skip("IF", "EXISTS")
    name = tokens.name()
    with session.ddl():
        current = principal_table.properties(session.store, kind, name)
        if current is None:
            if if_exists:
                return ResultSet.status()
            raise missing(kind.capitalize(), name)
        enforcement.demand(session, Need(("MODIFY", "OPERATE") if kind == "WAREHOUSE" else ("OWNERSHIP",), kind, name))
        if kind == "WAREHOUSE" and _is_started_or_stopped(session, name, tokens):
            return ResultSet.status()
        altered = _altered(current, tokens, sql)
        principal_table.keep(session.store, kind, name, session.role, altered)
        if kind == "WAREHOUSE":
            session.account.meter.configure(name, altered)
        if kind == "USER" and altered.get("DISABLED") is True:
            session.account.locked_out[name] = time.monotonic()
    return ResultSet.status()


def _is_started_or_stopped(session: Session, name: str, tokens: Tokenizer) -> bool:
    """Whether it is ALTER WAREHOUSE ... SUSPEND or RESUME [IF SUSPENDED], which is then done."""
    meter = session.account.meter
    if tokens.skip("SUSPEND"):
        if not meter.suspend(name):
            raise sql_error(NOT_SUSPENDABLE, f"Invalid state. Warehouse '{name}' cannot be suspended.")
        return True
    if tokens.skip("RESUME"):
        if not meter.resume(name) and not tokens.skip("IF", "SUSPENDED"):
            raise sql_error(NOT_RESUMABLE, f"Invalid state. Warehouse '{name}' cannot be resumed.")
        return True
    return False


def _altered(current: dict[str, Any], tokens: Tokenizer, sql: str) -> dict[str, Any]:
    if tokens.skip("SET"):
        return current | _checked(tokens.properties())
    if tokens.skip("UNSET"):
        gone = tokens.names()
        return {k: v for k, v in current.items() if k not in gone and k.removesuffix("_FP") not in gone}
    if tokens.skip("ABORT"):
        return current
    raise unsupported(sql)


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """Properties as they are kept; a key that is not base64 of a public key is refused as Snowflake does."""
    for key in ("RSA_PUBLIC_KEY", "RSA_PUBLIC_KEY_2"):
        if key in given:
            try:
                given[f"{key}_FP"] = principal_table.fingerprint(str(given[key]))
            except ValueError:
                raise compilation_error(
                    (394200, "22023"), "New public key rejected by current policy. Reason: 'Invalid public key'"
                ) from None
    return {k: v for k, v in given.items() if k != "PASSWORD"} | ({"HAS_PASSWORD": True} if "PASSWORD" in given else {})


def _drop(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("DROP")
    kind = tokens.peek()
    tokens.expect(kind)
    if_exists = tokens.skip("IF", "EXISTS")
    name = tokens.name()
    with session.ddl():
        if not if_exists:
            principal_table.require(session.store, kind, name)
        elif enforcement.holds_nothing(session, kind, name):
            return ResultSet.status("Drop statement executed successfully.")
        enforcement.demand(session, Need(("OWNERSHIP",), kind, name))
        principal_table.remove(session.store, kind, name)
        session.account.grants.forget_principal(kind, name)
        if kind == "WAREHOUSE":
            session.account.meter.forget(name)
    return ResultSet.status(f"{name} successfully dropped.")


def _show(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("SHOW")
    tokens.skip("TERSE")
    kind = tokens.peek().removesuffix("S")
    tokens.expect(f"{kind}S")
    like = tokens.like()
    found = principal_table.rows(session.store, kind)
    if kind == "WAREHOUSE":
        found = [row for row in found if not enforcement.holds_nothing(session, kind, row[0])]
    if kind == "ROLE":
        known = {row[0] for row in found}
        absent = [name for name in principal_table.SYSTEM_ROLES if name not in known]
        found += [(name, datetime.fromtimestamp(0, UTC), "", {}) for name in absent]
    rows = [_row(session, kind, *row) for row in found if like is None or like.fullmatch(row[0])]
    columns = [("created_on", TIME), ("name", TEXT), *text_columns(*_LISTED[kind], "owner", "comment")]
    return ResultSet(columns, rows)


def _row(
    session: Session, kind: str, name: str, created: datetime, owner: str | None, given: dict[str, Any]
) -> tuple[Any, ...]:
    derived = {
        "state": _state(session, name) if kind == "WAREHOUSE" else "",
        "auto_suspend": "600",
        "auto_resume": "true",
        "type": given.get("TYPE") or given.get("WAREHOUSE_TYPE") or ("STANDARD" if kind == "WAREHOUSE" else ""),
        "size": given.get("WAREHOUSE_SIZE", "X-Small"),
        "login_name": name,
        "display_name": name,
        "has_rsa_public_key": str("RSA_PUBLIC_KEY" in given).lower(),
        "is_current": "Y" if name in (session.role, session.warehouse) else "N",
        "is_default": "N",
    }
    values = [str(given.get(c.upper(), derived.get(c, ""))) for c in _LISTED[kind]]
    return (created, name, *values, owner or "", str(given.get("COMMENT", "")))


def _state(session: Session, name: str) -> str:
    return "STARTED" if session.account.meter.is_started(name) else "SUSPENDED"


def _describe_user(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.skip("DESC")
    tokens.skip("DESCRIBE")
    tokens.expect("USER")
    name = tokens.name()
    kept = principal_table.properties(session.store, "USER", name)
    if kept is None or (name != session.user and enforcement.holds_nothing(session, "USER", name)):
        raise missing("User", name)
    shown = {"NAME": name, "LOGIN_NAME": name, "RSA_PUBLIC_KEY_FP": None, "RSA_PUBLIC_KEY_2_FP": None} | kept
    rows = [(key, None if value is None else str(value), "", "") for key, value in shown.items()]
    return ResultSet(text_columns("property", "value", "default", "description"), rows)


FAMILY = Family(
    commands={
        **{("CREATE", kind): _create for kind in KINDS},
        **{("CREATE", "OR", "REPLACE", kind): _create for kind in KINDS},
        **{("ALTER", kind): _alter for kind in KINDS},
        **{("DROP", kind): _drop for kind in KINDS},
        **{("SHOW", f"{kind}S"): _show for kind in KINDS},
        **{("SHOW", "TERSE", f"{kind}S"): _show for kind in KINDS},
        ("DESC", "USER"): _describe_user,
        ("DESCRIBE", "USER"): _describe_user,
    },
)
