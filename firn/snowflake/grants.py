"""What a role may do in Snowflake: its grants, those of the roles granted to it, and the GRANT for what is missing.

Not for deciding what a sink needs. SHOW GRANTS: https://docs.snowflake.com/en/sql-reference/sql/show-grants;
privileges: https://docs.snowflake.com/en/user-guide/security-access-control-privileges.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from snowflake.connector import SnowflakeConnection

from firn.errors import PrivilegeError, TerminalError
from firn.snowflake.connection import query
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import written

_PART = re.compile(r'"((?:[^"]|"")*)"|([^.]+)')
_ROLE_KINDS = {"ROLE": "ROLE", "DATABASE_ROLE": "DATABASE ROLE"}

Name = tuple[str, ...]


@dataclass(frozen=True)
class Privilege:
    """A privilege on an object; `name` holds the parts of its full name as Snowflake stores them."""

    privilege: str
    kind: str
    name: Name

    def grant(self, role: str) -> str:
        """The statement that grants it; who owns an object takes it over with what others may do with it."""
        keeping = " COPY CURRENT GRANTS" if self.privilege == "OWNERSHIP" else ""
        return f"GRANT {self.privilege} ON {self.kind} {written(self.name)} TO ROLE {written((role,))}{keeping};"


@dataclass(frozen=True)
class Held:
    """What a session may do: with its primary role alone (which must hold the right to CREATE), and in all."""

    primary: frozenset[Privilege]
    all: frozenset[Privilege]

    def allows(self, wanted: Privilege) -> bool:
        """Whether it holds the privilege, or owns the object."""
        held = self.primary if wanted.privilege.startswith("CREATE ") else self.all
        return wanted in held or Privilege("OWNERSHIP", wanted.kind, wanted.name) in held

    def missing(self, wanted: Iterable[Privilege]) -> list[Privilege]:
        """Those that it does not hold, in order."""
        return [each for each in wanted if not self.allows(each)]


def held_privileges(connection: SnowflakeConnection, role: str) -> Held:
    """The privileges of a session with this primary role (its stored name). Raises the errors of `connection`."""
    primary = _closure(connection, [("ROLE", (role,)), ("ROLE", ("PUBLIC",))])
    secondary = [("ROLE", (name,)) for name in _secondary_roles(connection)]
    return Held(primary, primary | _closure(connection, secondary))


def _secondary_roles(connection: SnowflakeConnection) -> list[str]:
    """The secondary roles of the session, active ones only; a server without the function has none."""
    try:
        (row,) = query(connection, "SELECT CURRENT_SECONDARY_ROLES() AS ROLES")
    except TerminalError:
        return []
    names = str(json.loads(row["ROLES"] or "{}").get("roles") or "")
    return [name_parts(name.strip())[0] for name in names.split(",") if name.strip()]


def _closure(connection: SnowflakeConnection, roles: Sequence[tuple[str, Name]]) -> frozenset[Privilege]:
    """The privileges of these roles and of all that are granted to them, directly or not."""
    waiting, seen, held = list(roles), set(roles), set()
    while waiting:
        kind, name = waiting.pop()
        for privilege in _grants(connection, kind, name):
            held.add(privilege)
            inherited = (_ROLE_KINDS.get(privilege.kind, ""), privilege.name)
            if inherited[0] and privilege.privilege == "USAGE" and inherited not in seen:
                seen.add(inherited)
                waiting.append(inherited)
    return frozenset(held)


def _grants(connection: SnowflakeConnection, kind: str, name: Name) -> list[Privilege]:
    """What is granted to one role; nothing for a role that this session may not look at."""
    try:
        rows = query(connection, f"SHOW GRANTS TO {kind} {written(name)}")
    except (MissingObjectError, PrivilegeError):
        return []
    return [Privilege(str(r["privilege"]), str(r["granted_on"]), name_parts(str(r["name"]))) for r in rows]


def name_parts(name: str) -> Name:
    """The parts of a name as SHOW GRANTS prints it: `DB.SCHEMA."mixed case"`."""
    return tuple(quoted.replace('""', '"') if quoted else plain for quoted, plain in _PART.findall(name))
