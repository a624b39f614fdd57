"""GRANT, REVOKE and SHOW GRANTS, kept durably and shown back, and who owns what. Nothing is enforced here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlglot import exp

from firn.local.snowflake import principals
from firn.local.snowflake.answers import TEXT, TIME, Answer, text_columns
from firn.local.snowflake.words import Words

if TYPE_CHECKING:
    from firn.local.snowflake.engine import Engine
    from firn.local.snowflake.session import Session
    from firn.local.snowflake.statements import Statement

_COLUMNS = [
    ("created_on", TIME), ("privilege", TEXT), ("granted_on", TEXT), ("name", TEXT), ("granted_to", TEXT),
    ("grantee_name", TEXT), ("grant_option", TEXT), ("granted_by", TEXT),
]  # fmt: skip
_SELECT = (
    "SELECT created_on, privilege, granted_on, name, to_kind, grantee, grant_option, granted_by "
    "FROM _fs_global._firn.grants"
)


_DISOWN = "DELETE FROM _fs_global._firn.grants WHERE privilege = 'OWNERSHIP' AND granted_on = ? AND name = ?"
_OWNED = {"TABLE", "VIEW", "STAGE", "SCHEMA"}


def create_tables(engine: Engine) -> None:
    """Make the table of grants; run at every start."""
    engine.duck_conn.execute(
        "CREATE TABLE IF NOT EXISTS _fs_global._firn.grants (created_on TIMESTAMPTZ, privilege VARCHAR, "
        "granted_on VARCHAR, "
        "name VARCHAR, to_kind VARCHAR, grantee VARCHAR, grant_option VARCHAR, granted_by VARCHAR, "
        "PRIMARY KEY (privilege, granted_on, name, to_kind, grantee))"
    )


def record_owner(session: Session, statement: Statement) -> None:
    """What a CREATE made belongs to the session's role, unless somebody owns it already (IF NOT EXISTS)."""
    create = statement.expression
    if not isinstance(create, exp.Create) or create.kind not in _OWNED or create.find(exp.TemporaryProperty):
        return
    for target in statement.targets():
        name = target.rstrip(".")  # a schema has no third part
        held = "SELECT 1 FROM _fs_global._firn.grants WHERE privilege = 'OWNERSHIP' AND granted_on = ? AND name = ?"
        if not session.shared.engine.query(held, [create.kind, name]):
            _store(session, "OWNERSHIP", create.kind, name, "ROLE", session.role, "true")


def forget(engine: Engine, kind: str, name: str) -> None:
    """An object that is gone has no grants; those inside a schema or database go with it."""
    inside = f"{name}." if kind in {"SCHEMA", "DATABASE"} else None
    engine.query(
        "DELETE FROM _fs_global._firn.grants WHERE (granted_on = ? AND name = ?) OR starts_with(name, ?)",
        [kind, name, inside],
    )


def _store(session: Session, privilege: str, kind: str, name: str, to_kind: str, grantee: str, option: str) -> None:
    values = [datetime.now(UTC), privilege, kind, name, to_kind, grantee, option, session.role or ""]
    session.shared.engine.query(
        "INSERT OR REPLACE INTO _fs_global._firn.grants VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values
    )


def _grant(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("GRANT")
    privileges, kind, name = _subject(session, words, "TO")
    to_kind, grantee = _grantee(session, words)
    option = str(words.skip("WITH", "GRANT", "OPTION")).lower()
    words.until()
    with session.ddl():
        if privileges == ["OWNERSHIP"]:
            session.shared.engine.query(_DISOWN, [kind, name])
        for privilege in privileges:
            _store(session, privilege, kind, name, to_kind, grantee, option)
    return Answer.status()


def _revoke(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("REVOKE")
    words.skip("GRANT", "OPTION", "FOR")
    privileges, kind, name = _subject(session, words, "FROM")
    to_kind, grantee = _grantee(session, words)
    with session.ddl():
        for privilege in privileges:
            session.shared.engine.query(
                "DELETE FROM _fs_global._firn.grants WHERE privilege = ? AND granted_on = ? AND name = ? "
                "AND to_kind = ? AND grantee = ?",
                [privilege, kind, name, to_kind, grantee],
            )
    return Answer.status()


def _subject(session: Session, words: Words, preposition: str) -> tuple[list[str], str, str]:
    """(privileges, kind of object, its name) up to and including TO or FROM; a granted role is USAGE on that role."""
    if words.skip("ROLE"):
        role = principals.require(session, "ROLE", words.name())
        words.expect(preposition)
        return ["USAGE"], "ROLE", role
    privileges = [p.strip() for p in words.until("ON").split(",")]
    words.expect("ON")
    if words.peek() in {"ALL", "FUTURE"}:
        scope = words.until("IN")
        words.expect("IN")
        kind, name = f"{scope} IN {words.until_name()}", words.name()
    else:
        kind = words.until_name()
        name = "ACCOUNT" if kind == "ACCOUNT" else words.name()
    words.expect(preposition)
    return privileges, kind, _qualified(session, kind, name)


def _qualified(session: Session, kind: str, name: str) -> str:
    """Full name of an object in a schema or database, from the session's current ones."""
    if kind in {"ACCOUNT", "DATABASE", "WAREHOUSE", "ROLE", "USER", "INTEGRATION"} or kind.endswith("IN DATABASE"):
        return name
    if kind == "SCHEMA" or kind.endswith("IN SCHEMA"):
        return name if "." in name else f"{session.database}.{name}"
    return session.full_name(name)


def _grantee(session: Session, words: Words) -> tuple[str, str]:
    kind = "USER" if words.skip("USER") else "ROLE"
    words.skip("ROLE")
    return kind, principals.require(session, kind, words.name())


def _show(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("SHOW", "GRANTS")
    query = session.shared.engine.query
    if words.skip("OF", "ROLE"):
        role = words.name()
        rows = query(
            "SELECT created_on, name, to_kind, grantee, granted_by FROM _fs_global._firn.grants "
            "WHERE granted_on = 'ROLE' AND name = ?",
            [role],
        )
        return Answer([("created_on", TIME), *text_columns("role", "granted_to", "grantee_name", "granted_by")], rows)
    if words.skip("ON"):
        kind = words.until_name()
        name = _qualified(session, kind, "ACCOUNT" if kind == "ACCOUNT" else words.name())
        return Answer(_COLUMNS, query(f"{_SELECT} WHERE granted_on = ? AND name = ? ORDER BY 1, 2", [kind, name]))
    kind, grantee = ("USER", session.user) if not words.skip("TO") else _grantee(session, words)
    return Answer(_COLUMNS, query(f"{_SELECT} WHERE to_kind = ? AND grantee = ? ORDER BY 1, 2", [kind, grantee]))


COMMANDS = {("GRANT",): _grant, ("REVOKE",): _revoke, ("SHOW", "GRANTS"): _show}
