"""What the roles of a session hold together: their own grants and those of every role granted to them.

Not for what a statement needs (`requirements`) or for refusing it (`enforcement`). Source:
https://docs.snowflake.com/en/user-guide/security-access-control-overview (role hierarchy and inheritance).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from firn_local.snowflake.privileges.grant_table import Grant, GrantTable

ADMIN = "ACCOUNTADMIN"
ACCOUNT = "ACCOUNT"
# Tables, views and streams share their names, and a SELECT does not say which of them it reads.
_RELATIONS = {
    "VIEW": "TABLE",
    "STREAM": "TABLE",
    "MATERIALIZED VIEW": "TABLE",
    "EXTERNAL TABLE": "TABLE",
    "DYNAMIC TABLE": "TABLE",
}
_OF_THE_SYSTEM = {
    "SYSADMIN": ("CREATE DATABASE", "CREATE WAREHOUSE"),
    "SECURITYADMIN": ("MANAGE GRANTS", "CREATE USER", "CREATE ROLE"),
    "USERADMIN": ("CREATE USER", "CREATE ROLE"),
}
_INHERITED = {"SECURITYADMIN": {"USERADMIN"}}

Place = tuple[str, str]
_NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Held:
    """What a set of roles may do; `everything` for ACCOUNTADMIN."""

    roles: frozenset[str]
    everything: bool = False
    by_place: dict[Place, frozenset[str]] = field(default_factory=dict)
    grantable: dict[Place, frozenset[str]] = field(default_factory=dict)

    def on(self, kind: str, name: str) -> frozenset[str]:
        """The privileges held on an object."""
        return self.by_place.get(place(kind, name), _NOTHING)

    def with_option(self, kind: str, name: str) -> frozenset[str]:
        """Those of them that may be granted on to others."""
        return self.grantable.get(place(kind, name), _NOTHING)


def place(kind: str, name: str) -> Place:
    """What an object is found by: views count as tables."""
    return _RELATIONS.get(kind, kind), name


class RoleGrants:
    """The newest `Snapshot` of the table of grants: it is read again after each change of it."""

    def __init__(self, table: GrantTable) -> None:
        self.table = table
        self._version: object = None
        self._snapshot = Snapshot([])

    def now(self) -> Snapshot:
        """Every grant as it is."""
        version = self.table.version
        if version is not self._version:
            # In this order: a thread that comes between finds the new version only with the new grants.
            self._snapshot = Snapshot(self.table.load())
            self._version = version
        return self._snapshot


class Snapshot:
    """Every grant at one moment, and what was worked out of it."""

    def __init__(self, grants: list[Grant]) -> None:
        self._grants: defaultdict[Place, list[Grant]] = defaultdict(list)
        self._owners: dict[Place, str] = {}
        self._held: dict[frozenset[str], Held] = {}
        self._every = grants
        for grant in grants:
            self._grants[grant.to_kind, grant.grantee].append(grant)
            if grant.privilege == "OWNERSHIP":
                self._owners[place(grant.kind, grant.name)] = grant.grantee

    def held(self, roles: Iterable[str]) -> Held:
        """What these roles, those granted to them, and PUBLIC hold."""
        wanted = frozenset(roles)
        found = self._held.get(wanted)
        if found is None:
            found = self._held[wanted] = self._together(self._closure(wanted))
        return found

    def roles_of(self, user: str) -> frozenset[str]:
        """The roles granted to a user, and PUBLIC."""
        return self._granted_to("USER", user) | {"PUBLIC"}

    def may_take(self, user: str, role: str) -> bool:
        """Whether a user may make `role` its own: granted to the user, or to a role of the user."""
        roles = self._closure(self.roles_of(user))
        return role in roles or ADMIN in roles

    def objects(self, kind: str, inside: str) -> list[str]:
        """Full names of the objects of a kind in a schema or database: each has an owner."""
        owned = {g.name for g in self._every if g.privilege == "OWNERSHIP" and g.kind == kind}
        return sorted(name for name in owned if name.startswith(f"{inside}."))

    def owner(self, kind: str, name: str) -> str | None:
        """The role that owns an object; None for an object that does not exist."""
        return self._owners.get(place(kind, name))

    def granted(self, kind: str, name: str) -> list[Grant]:
        """What is granted on an object or scope, to whomever; the oldest first."""
        return [g for g in self._every if (g.kind, g.name) == (kind, name)]

    def _granted_to(self, kind: str, grantee: str) -> frozenset[str]:
        """Roles granted to a role or user; to own a role is not to have it."""
        grants = self._grants.get((kind, grantee), [])
        return frozenset(g.name for g in grants if g.kind == "ROLE" and g.privilege == "USAGE")

    def _closure(self, roles: Iterable[str]) -> frozenset[str]:
        waiting, seen = list(roles), {"PUBLIC", *roles}
        while waiting:
            role = waiting.pop()
            below = (self._granted_to("ROLE", role) | _INHERITED.get(role, set())) - seen
            seen |= below
            waiting += below
        return frozenset(seen)

    def _together(self, roles: frozenset[str]) -> Held:
        by_place: dict[Place, set[str]] = defaultdict(set)
        grantable: dict[Place, set[str]] = defaultdict(set)
        for role in roles:
            by_place[ACCOUNT, ACCOUNT].update(_OF_THE_SYSTEM.get(role, ()))
            for grant in self._grants.get(("ROLE", role), []):
                by_place[place(grant.kind, grant.name)].add(grant.privilege)
                if grant.option:
                    grantable[place(grant.kind, grant.name)].add(grant.privilege)
        return Held(roles, ADMIN in roles, _frozen(by_place), _frozen(grantable))


def _frozen(sets: dict[Place, set[str]]) -> dict[Place, frozenset[str]]:
    return {where: frozenset(privileges) for where, privileges in sets.items()}
