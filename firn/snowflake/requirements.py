"""Privileges that a job requires of its role: which of them are missing, and the GRANT for each.

What is required, the caller says in values. Not for what a role holds (`firn.snowflake.grants`). Privileges:
https://docs.snowflake.com/en/user-guide/security-access-control-privileges.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from snowflake.connector import SnowflakeConnection

from firn.errors import PrivilegeError
from firn.snowflake.grants import Privilege, held_privileges
from firn.snowflake.identifiers import FullName
from firn.snowflake.tables import named_table_exists

OTHER_ROLE = "Or correct snowflake.role.name (`role` in the Snowflake secret)."


@dataclass(frozen=True)
class Requirement:
    """A privilege that is required.

    instead: what to grant instead of a right to CREATE, where the object exists and the role does not see it: Snowflake
    does not say which is the case. alternative: another way out, as a sentence.
    """

    privilege: Privilege
    instead: tuple[Privilege, ...] = ()
    alternative: str = ""

    def __str__(self) -> str:
        named = self.privilege
        return f"{named.privilege} on {named.kind.lower()} {'.'.join(named.name)}"

    def fix(self, role: str) -> str:
        """The GRANT, and what helps instead of it."""
        hidden = [
            f"If {each.name[-1]} exists, hidden from this role, instead: {each.grant(role)}" for each in self.instead
        ]
        return " ".join(filter(None, [self.privilege.grant(role), *hidden, self.alternative]))


@dataclass(frozen=True)
class RequiredTable:
    """A table that a job uses, and what it requires on it once it exists.

    created: whether the job creates it where it is absent. alternative: see `Requirement`, for OWNERSHIP.
    """

    name: FullName
    privileges: tuple[str, ...]
    created: bool = True
    alternative: str = ""


def table_requirements(connection: SnowflakeConnection, table: RequiredTable) -> Iterator[Requirement]:
    """What a table requires as it is now: its privileges, or the right to create it."""
    yield Requirement(Privilege("USAGE", "DATABASE", table.name[:1]))
    yield Requirement(Privilege("USAGE", "SCHEMA", table.name[:2]))
    if named_table_exists(connection, table.name):
        for name in table.privileges:
            alternative = table.alternative if name == "OWNERSHIP" else ""
            yield Requirement(Privilege(name, "TABLE", table.name), alternative=alternative)
    elif table.created:
        hidden = Privilege(", ".join(table.privileges), "TABLE", table.name)
        yield Requirement(Privilege("CREATE TABLE", "SCHEMA", table.name[:2]), instead=(hidden,))


def merged(requirements: Iterable[Requirement]) -> list[Requirement]:
    """Each privilege once, in order, with all that may be granted instead."""
    found: dict[Privilege, Requirement] = {}
    for each in requirements:
        before = found.get(each.privilege, Requirement(each.privilege))
        instead = tuple(dict.fromkeys((*before.instead, *each.instead)))
        found[each.privilege] = Requirement(each.privilege, instead, before.alternative or each.alternative)
    return list(found.values())


def missing_requirements(
    connection: SnowflakeConnection, role: str, requirements: Iterable[Requirement]
) -> list[Requirement]:
    """Those that a session with this primary role does not meet, in order."""
    held = held_privileges(connection, role)
    return [each for each in requirements if not held.allows(each.privilege)]


def check_requirements(
    connection: SnowflakeConnection, role: str, requirements: Iterable[Requirement], *, where: str
) -> None:
    """Raise PrivilegeError, with every GRANT that is missing, unless the session meets all. where: whose they are."""
    required = merged(requirements)
    if missing := missing_requirements(connection, role, required):
        raise PrivilegeError(
            f"Insufficient privileges: role {role} lacks {len(missing)} of the {len(required)} that are required:\n"
            + "\n".join(f"  {each}" for each in missing),
            where=where,
            next_step=" ".join([*(each.fix(role) for each in missing), OTHER_ROLE]),
        )
