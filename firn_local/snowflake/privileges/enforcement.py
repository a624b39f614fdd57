"""Refusing what a session's roles may not do, with Snowflake's errors. What a statement needs is in `requirements`.

A role that holds nothing on an object is told that it does not exist, as everywhere in Snowflake; one that holds
something else is told what it may not operate on. ACCOUNTADMIN may do everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Protocol

from firn_local.snowflake.privileges.requirements import ACCOUNT, Need, Needs
from firn_local.snowflake.privileges.role_grants import Held, RoleGrants
from firn_local.snowflake.sql.full_names import own_name
from firn_local.snowflake.sql.sql_errors import compilation_error, missing, sql_error

INSUFFICIENT = (3001, "42501")
NOT_ASSIGNED = (3013, "42501")
NO_WAREHOUSE = (606, "57P03")
UNSEEN = (3041, "42710")
CANNOT_PERFORM = (2043, "02000")
_EVERYTHING = Held(frozenset(), everything=True)
_ON_ITS_OWN = {ACCOUNT, "DATABASE", "WAREHOUSE", "ROLE", "USER", "INTEGRATION"}


class Actor(Protocol):
    """A session, as far as its rights go."""

    @property
    def user(self) -> str:
        """Who is logged in."""

    @property
    def role(self) -> str:
        """Its primary role."""

    @property
    def warehouse(self) -> str | None:
        """Its current warehouse."""

    @property
    def is_serverless(self) -> bool:
        """Whether it computes without a warehouse of its own, as a serverless task does."""

    @property
    def is_restricted(self) -> bool:
        """Whether its rights are checked at all."""

    @property
    def temporary(self) -> AbstractSet[str]:
        """Full names of its temporary tables and views."""

    @property
    def role_grants(self) -> RoleGrants:
        """The grants of its account."""

    @property
    def account_name(self) -> str:
        """Its account."""

    def secondary_roles(self) -> frozenset[str]:
        """The user's other roles, where they count."""


def held(session: Actor) -> Held:
    """What the session may do: its primary role, and the user's other roles where secondary roles are on."""
    if not session.is_restricted:
        return _EVERYTHING
    return session.role_grants.now().held({session.role, *session.secondary_roles()})


def check(session: Actor, needs: Needs) -> None:
    """Raise Snowflake's error for the first privilege that is missing."""
    mine = held(session)
    if mine.everything:
        return
    for need in needs.objects:
        _check(session, mine, need)
    if needs.warehouse:
        _check_warehouse(session, mine)


def demand(session: Actor, *needs: Need) -> None:
    """The same for a statement that says itself what it needs."""
    check(session, Needs(needs))


def holds_nothing(session: Actor, kind: str, name: str) -> bool:
    """Whether an object is as good as absent for the session."""
    mine = held(session)
    if mine.everything or name in session.temporary:
        return False
    return not (_reaches(mine, kind, name) and mine.on(kind, name))


def visible(session: Actor, kind: str, names: Iterable[str]) -> set[str]:
    """Those objects that SHOW may list."""
    return {name for name in names if not holds_nothing(session, kind, name)}


def demand_grantable(session: Actor, privileges: Iterable[str], kind: str, name: str) -> None:
    """Who may GRANT and REVOKE: the owner, who holds MANAGE GRANTS, or the privilege WITH GRANT OPTION."""
    mine = held(session)
    if mine.everything or "MANAGE GRANTS" in mine.on(ACCOUNT, ACCOUNT):
        return
    if "OWNERSHIP" in mine.on(kind, name) or set(privileges) <= mine.with_option(kind, name):
        return
    if holds_nothing(session, kind, name):
        raise _absent(kind, name)
    raise _insufficient(session, kind, name)


def demand_role(session: Actor, role: str) -> None:
    """USE ROLE takes roles of the user only."""
    if session.is_restricted and not session.role_grants.now().may_take(session.user, role):
        raise sql_error(
            NOT_ASSIGNED,
            f"SQL access control error:\nRequested role '{role}' is not assigned to the executing user. "
            "Specify another role to activate.",
        )


def demand_use(session: Actor, kind: str, name: str) -> None:
    """USE DATABASE, SCHEMA and WAREHOUSE want some privilege on it."""
    if holds_nothing(session, kind, name):
        raise compilation_error(CANNOT_PERFORM, "Object does not exist, or operation cannot be performed.")


def refuse_unseen(session: Actor, kind: str, name: str) -> None:
    """CREATE of what exists already, for a role that may not see it."""
    if holds_nothing(session, kind, name):
        raise compilation_error(
            UNSEEN,
            f"Object '{name}' already exists, but current role has no privileges on it. If this is unexpected and you "
            "cannot resolve this problem, contact your system administrator. ACCOUNTADMIN role may be required to "
            "manage the privileges on the object.",
        )


def _check(session: Actor, mine: Held, need: Need) -> None:
    kind, name = need.kind, need.name
    if name in session.temporary or name.startswith(".") or ".." in name:
        return  # its own, or a name that lacks the current database: another error says so
    if not _reaches(mine, kind, name):
        raise _absent(kind, name)
    privileges = mine.on(kind, name)
    if need.creates and session.secondary_roles():
        privileges = session.role_grants.now().held({session.role}).on(kind, name)
    if kind == ACCOUNT:
        if not privileges.intersection(need.any_of):
            raise _insufficient(session, kind, name)
    elif not privileges or (need.creates and not mine.on(kind, name) & {"USAGE", "OWNERSHIP"}):
        raise _absent(kind, name)
    elif "OWNERSHIP" not in privileges and need.any_of != ("*",) and not privileges.intersection(need.any_of):
        raise _insufficient(session, kind, name)


def _reaches(mine: Held, kind: str, name: str) -> bool:
    """Whether the database and schema around an object may be used."""
    if kind in _ON_ITS_OWN:
        return True
    database, _, rest = name.partition(".")
    if not mine.on("DATABASE", database) & {"USAGE", "OWNERSHIP"}:
        return False
    if kind == "SCHEMA":
        return True
    return bool(mine.on("SCHEMA", f"{database}.{rest.partition('.')[0]}") & {"USAGE", "OWNERSHIP"})


def _check_warehouse(session: Actor, mine: Held) -> None:
    name = session.warehouse
    if session.is_serverless:
        return
    if name is None or not mine.on("WAREHOUSE", name) & {"USAGE", "OPERATE", "OWNERSHIP"}:
        raise sql_error(
            NO_WAREHOUSE,
            "No active warehouse selected in the current session.  Select an active warehouse with the 'use warehouse' "
            "command.",
        )


def _absent(kind: str, name: str) -> Exception:
    if kind in {"DATABASE", "SCHEMA", "STAGE", "PIPE", "STREAM", "TASK"}:
        return compilation_error((2003, "02000"), f"{kind.capitalize()} '{name}' does not exist or not authorized.")
    return missing("Object" if kind in {"TABLE", "VIEW"} else kind.capitalize(), name)


def _insufficient(session: Actor, kind: str, name: str) -> Exception:
    what = "account" if kind == ACCOUNT else kind.lower()
    shown = session.account_name if kind == ACCOUNT else own_name(name)
    return sql_error(
        INSUFFICIENT, f"SQL access control error:\nInsufficient privileges to operate on {what} '{shown}'."
    )
