"""GRANT, REVOKE and SHOW GRANTS. Kept by `privileges.grant_table`, enforced by `privileges.enforcement`.

Read by their tokens: sqlglot parses no grant of a role, on ALL or on FUTURE objects.
Source: the GRANT <privileges>, GRANT OWNERSHIP and GRANT ROLE pages of Snowflake's SQL reference.
"""

from __future__ import annotations

from dataclasses import dataclass

from firn_local.snowflake.engine.family import Family
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement, principal_table
from firn_local.snowflake.privileges.grant_table import IN_SCHEMA, Grant
from firn_local.snowflake.sql.result_set import TEXT, TIME, ResultSet, text_columns
from firn_local.snowflake.sql.sql_errors import missing
from firn_local.snowflake.sql.tokenizer import Tokenizer

_COLUMNS = [
    ("created_on", TIME), ("privilege", TEXT), ("granted_on", TEXT), ("name", TEXT), ("granted_to", TEXT),
    ("grantee_name", TEXT), ("grant_option", TEXT), ("granted_by", TEXT),
]  # fmt: skip
_WITH_OWNERS = {"DATABASE", "SCHEMA", "TABLE", "VIEW", "STAGE", "PIPE", "STREAM", "TASK", "TAG"}
_ALL = {
    "TABLE": ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES"),
    "VIEW": ("SELECT", "REFERENCES"),
    "STAGE": ("READ", "WRITE"),
    "PIPE": ("MONITOR", "OPERATE"),
    "STREAM": ("SELECT",),
    "TASK": ("MONITOR", "OPERATE"),
    "SCHEMA": ("USAGE", "MODIFY", "MONITOR", *(f"CREATE {kind}" for kind in IN_SCHEMA)),
    "DATABASE": ("USAGE", "MODIFY", "MONITOR", "CREATE SCHEMA"),
    "WAREHOUSE": ("USAGE", "OPERATE", "MODIFY", "MONITOR"),
}


@dataclass(frozen=True)
class _Subject:
    """What a GRANT or REVOKE is about: privileges on the objects of one kind."""

    privileges: list[str]
    kind: str
    names: list[str]

    def grants(self, to_kind: str, grantee: str, *, option: bool = False) -> list[Grant]:
        return [Grant(p, self.kind, name, to_kind, grantee, option) for name in self.names for p in self.privileges]


def _grant(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("GRANT")
    subject = _subject(session, tokens, "TO")
    to_kind, grantee = _grantee(session, tokens)
    option = tokens.skip("WITH", "GRANT", "OPTION")
    tokens.until()
    _demand(session, subject)
    table = session.account.grants
    with session.ddl():
        if subject.privileges == ["OWNERSHIP"] and not subject.kind.startswith("FUTURE "):
            for name in subject.names:
                table.own(subject.kind, name, grantee, granted_by=session.role)
        else:
            table.add(subject.grants(to_kind, grantee, option=option), session.role)
    return ResultSet.status()


def _revoke(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("REVOKE")
    only_option = tokens.skip("GRANT", "OPTION", "FOR")
    subject = _subject(session, tokens, "FROM")
    to_kind, grantee = _grantee(session, tokens)
    _demand(session, subject)
    with session.ddl():
        grants = subject.grants(to_kind, grantee)
        if only_option:
            held = session.role_grants.now()
            kept = [
                g for g in grants if any(h == Grant(**vars(g) | {"option": True}) for h in held.granted(g.kind, g.name))
            ]
            session.account.grants.add(kept, session.role)
        else:
            session.account.grants.remove(grants)
    return ResultSet.status()


def _demand(session: Session, subject: _Subject) -> None:
    now = session.role_grants.now()
    for name in subject.names:
        if subject.kind in _WITH_OWNERS and now.owner(subject.kind, name) is None:
            raise missing(subject.kind.capitalize(), name)
        if subject.kind.startswith("FUTURE "):  # the owner of the schema or database decides
            kind = subject.kind.rpartition(" ")[2]
            enforcement.demand_grantable(session, subject.privileges, kind, name)
        else:
            enforcement.demand_grantable(session, subject.privileges, subject.kind, name)


def _subject(session: Session, tokens: Tokenizer, preposition: str) -> _Subject:
    """Up to and including TO or FROM; a granted role is USAGE on that role."""
    if tokens.skip("ROLE"):
        role = principal_table.require(session.store, "ROLE", tokens.name())
        tokens.expect(preposition)
        return _Subject(["USAGE"], "ROLE", [role])
    privileges = [p.strip() for p in tokens.until("ON").split(",")]
    tokens.expect("ON")
    scope = tokens.until("IN") if tokens.peek() in {"ALL", "FUTURE"} else ""
    if scope:
        tokens.expect("IN")
        kind, name = f"{scope} IN {tokens.until_name()}", tokens.name()
    else:
        kind, name = _kind_and_name(session, tokens)
    tokens.expect(preposition)
    names = [_qualified(session, kind, name)]
    if scope.startswith("ALL "):
        kind = scope.removeprefix("ALL ").removesuffix("S")
        names = session.role_grants.now().objects(kind, names[0])
    return _Subject(_expanded(privileges, kind), kind, names)


def _kind_and_name(session: Session, tokens: Tokenizer) -> tuple[str, str]:
    """The kind and name behind ON; without a kind it is a table or view, as dbt writes it."""
    if tokens.skip("ACCOUNT"):
        return "ACCOUNT", "ACCOUNT"
    if tokens.is_named_object():
        return tokens.until_name(), tokens.name()
    name = tokens.name()
    is_view = session.role_grants.now().granted("VIEW", session.full_name(name)) != []
    return "VIEW" if is_view else "TABLE", name


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


def _grantee(session: Session, tokens: Tokenizer) -> tuple[str, str]:
    kind = "USER" if tokens.skip("USER") else "ROLE"
    tokens.skip("ROLE")
    return kind, principal_table.require(session.store, kind, tokens.name())


def _show(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("SHOW", "GRANTS")
    if tokens.skip("OF", "ROLE"):
        found = session.account.grants.rows("granted_on = 'ROLE' AND privilege = 'USAGE' AND name = ?", [tokens.name()])
        rows = [(created, name, to, grantee, by) for created, _, _, name, to, grantee, _, by in found]
        return ResultSet(
            [("created_on", TIME), *text_columns("role", "granted_to", "grantee_name", "granted_by")], rows
        )
    if tokens.skip("ON"):
        kind, name = _kind_and_name(session, tokens)
        name = _qualified(session, kind, name)
        return ResultSet(_COLUMNS, session.account.grants.rows("granted_on = ? AND name = ?", [kind, name]))
    kind, grantee = ("USER", session.user) if not tokens.skip("TO") else _grantee(session, tokens)
    return ResultSet(_COLUMNS, session.account.grants.rows("to_kind = ? AND grantee = ?", [kind, grantee]))


FAMILY = Family(commands={("GRANT",): _grant, ("REVOKE",): _revoke, ("SHOW", "GRANTS"): _show})
