"""GRANT, REVOKE and SHOW GRANTS, and who owns what a CREATE made. Kept by `grant_table`, enforced by `enforce`.

Source: the GRANT <privileges>, GRANT OWNERSHIP and GRANT ROLE pages of Snowflake's SQL reference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from firn_local.snowflake.privileges import enforcement, grant_table
from firn_local.snowflake.privileges.grant_table import Grant
from firn_local.snowflake.sql.errors import missing
from firn_local.snowflake.sql.result_set import TEXT, TIME, Answer, text_columns
from firn_local.snowflake.sql.tokenizer import Words
from firn_local.snowflake.statements import principals

if TYPE_CHECKING:
    from firn_local.snowflake.engine.session import Session
    from firn_local.snowflake.sql.statement import Statement

_COLUMNS = [
    ("created_on", TIME), ("privilege", TEXT), ("granted_on", TEXT), ("name", TEXT), ("granted_to", TEXT),
    ("grantee_name", TEXT), ("grant_option", TEXT), ("granted_by", TEXT),
]  # fmt: skip
_SELECT = (
    "SELECT created_on, privilege, granted_on, name, to_kind, grantee, grant_option, granted_by "
    "FROM _fs_global._firn.grants"
)
_OWNED = {"TABLE", "VIEW", "STAGE", "SCHEMA", "FILE FORMAT", "SEQUENCE", "FUNCTION"}
_WITH_OWNERS = {"DATABASE", "SCHEMA", "TABLE", "VIEW", "STAGE", "PIPE"}
_CREATABLE = ("TABLE", "VIEW", "STAGE", "FILE FORMAT", "SEQUENCE", "FUNCTION", "PROCEDURE", "PIPE", "STREAM", "TASK")
_ALL = {
    "TABLE": ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES"),
    "VIEW": ("SELECT", "REFERENCES"),
    "STAGE": ("READ", "WRITE"),
    "PIPE": ("MONITOR", "OPERATE"),
    "SCHEMA": ("USAGE", "MODIFY", "MONITOR", *(f"CREATE {kind}" for kind in _CREATABLE)),
    "DATABASE": ("USAGE", "MODIFY", "MONITOR", "CREATE SCHEMA"),
    "WAREHOUSE": ("USAGE", "OPERATE", "MODIFY", "MONITOR"),
}


def record_change(session: Session, statement: Statement) -> None:
    """After DDL: what was made belongs to the session's role, and a renamed object keeps its grants."""
    change = statement.expression
    kind = str(change.args.get("kind"))
    if isinstance(change, exp.Create) and kind in _OWNED and not change.find(exp.TemporaryProperty):
        for name in statement.target_objects():
            record_owner(session, kind, name, replaced=bool(change.args.get("replace")))
    for action in change.args.get("actions") or []:
        if isinstance(action, exp.AlterRename):
            (old,) = statement.targets()
            grant_table.rename(session.shared.engine, kind, old, statement.full_name(action.this))


def record_owner(session: Session, kind: str, name: str, *, replaced: bool) -> None:
    """What was made belongs to the session's role, and has the future grants of its place."""
    engine, holdings = session.shared.engine, session.shared.holdings
    if replaced:
        grant_table.forget(engine, kind, name)
    if holdings.now().owner(kind, name) is not None:
        return
    grant_table.own(engine, kind, name, session.role)
    schema = name.rpartition(".")[0]
    future = holdings.now().granted(f"FUTURE {kind}S IN SCHEMA", schema) if kind != "SCHEMA" else []
    future = future or holdings.now().granted(f"FUTURE {kind}S IN DATABASE", name.partition(".")[0])
    for grant in future:
        if grant.privilege == "OWNERSHIP":
            grant_table.own(engine, kind, name, grant.grantee)
        else:
            made = Grant(grant.privilege, kind, name, grant.to_kind, grant.grantee, grant.option)
            grant_table.store(engine, [made], session.role)


@dataclass(frozen=True)
class _Subject:
    """What a GRANT or REVOKE is about: privileges on the objects of one kind."""

    privileges: list[str]
    kind: str
    names: list[str]

    def grants(self, to_kind: str, grantee: str, *, option: bool = False) -> list[Grant]:
        return [Grant(p, self.kind, name, to_kind, grantee, option) for name in self.names for p in self.privileges]


def _grant(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("GRANT")
    subject = _subject(session, words, "TO")
    to_kind, grantee = _grantee(session, words)
    option = words.skip("WITH", "GRANT", "OPTION")
    words.until()
    _demand(session, subject)
    engine = session.shared.engine
    with session.ddl():
        if subject.privileges == ["OWNERSHIP"] and not subject.kind.startswith("FUTURE "):
            for name in subject.names:
                grant_table.own(engine, subject.kind, name, grantee, granted_by=session.role)
        else:
            grant_table.store(engine, subject.grants(to_kind, grantee, option=option), session.role)
    return Answer.status()


def _revoke(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("REVOKE")
    only_option = words.skip("GRANT", "OPTION", "FOR")
    subject = _subject(session, words, "FROM")
    to_kind, grantee = _grantee(session, words)
    _demand(session, subject)
    with session.ddl():
        grants = subject.grants(to_kind, grantee)
        if only_option:
            held = session.shared.holdings.now()
            kept = [
                g for g in grants if any(h == Grant(**vars(g) | {"option": True}) for h in held.granted(g.kind, g.name))
            ]
            grant_table.store(session.shared.engine, kept, session.role)
        else:
            grant_table.remove(session.shared.engine, grants)
    return Answer.status()


def _demand(session: Session, subject: _Subject) -> None:
    now = session.shared.holdings.now()
    for name in subject.names:
        if subject.kind in _WITH_OWNERS and now.owner(subject.kind, name) is None:
            raise missing(subject.kind.capitalize(), name)
        if subject.kind.startswith("FUTURE "):  # the owner of the schema or database decides
            kind = subject.kind.rpartition(" ")[2]
            enforcement.demand_grantable(session, subject.privileges, kind, name)
        else:
            enforcement.demand_grantable(session, subject.privileges, subject.kind, name)


def _subject(session: Session, words: Words, preposition: str) -> _Subject:
    """Up to and including TO or FROM; a granted role is USAGE on that role."""
    if words.skip("ROLE"):
        role = principals.require(session, "ROLE", words.name())
        words.expect(preposition)
        return _Subject(["USAGE"], "ROLE", [role])
    privileges = [p.strip() for p in words.until("ON").split(",")]
    words.expect("ON")
    scope = words.until("IN") if words.peek() in {"ALL", "FUTURE"} else ""
    if scope:
        words.expect("IN")
        kind, name = f"{scope} IN {words.until_name()}", words.name()
    else:
        kind = words.until_name()
        name = "ACCOUNT" if kind == "ACCOUNT" else words.name()
    words.expect(preposition)
    names = [_qualified(session, kind, name)]
    if scope.startswith("ALL "):
        kind = scope.removeprefix("ALL ").removesuffix("S")
        names = session.shared.holdings.now().objects(kind, names[0])
    return _Subject(_expanded(privileges, kind), kind, names)


def _expanded(privileges: list[str], kind: str) -> list[str]:
    """ALL PRIVILEGES as those of the kind of object."""
    if privileges not in (["ALL"], ["ALL PRIVILEGES"]):
        return privileges
    singular = kind.removeprefix("FUTURE ").partition(" IN ")[0]
    return list(_ALL.get(kind) or _ALL.get(singular.removesuffix("S")) or ("USAGE",))


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
            "WHERE granted_on = 'ROLE' AND privilege = 'USAGE' AND name = ?",
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
