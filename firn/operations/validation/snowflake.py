"""Live checks of Snowflake: the login's database, schema and warehouse, and required privileges, with missing GRANTs.

What is required, the caller says in values (`firn.snowflake.requirements`). Nothing is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from snowflake.connector import SnowflakeConnection

from firn.operations.validation.live_check import LiveCheck
from firn.provision.snowflake import look_for_objects
from firn.snowflake.connection import SnowflakeLogin
from firn.snowflake.requirements import OTHER_ROLE, Requirement, merged, missing_requirements


def check_objects(connection: SnowflakeConnection, login: SnowflakeLogin) -> Iterator[LiveCheck]:
    """Whether database, schema and warehouse of the login exist for its role."""
    for finding in look_for_objects(connection, login):
        subject = f"{finding.kind} {finding.name}"
        if finding.state == "ok":
            yield LiveCheck(subject, "ok", "exists")
        else:
            what, _, step = finding.detail.partition(": ")
            yield LiveCheck(subject, "failed", what, step)


def check_privileges(
    connection: SnowflakeConnection, role: str, requirements: Iterable[Requirement]
) -> Iterator[LiveCheck]:
    """One failed check for each privilege that the role lacks, or one that says that it holds all."""
    required = merged(requirements)
    missing = missing_requirements(connection, role, required)
    for each in missing:
        step = f"{each.fix(role)} {OTHER_ROLE}"
        yield LiveCheck(f"privilege {each}", "failed", f"role {role} does not hold it", step)
    if not missing:
        yield LiveCheck("snowflake privileges", "ok", f"role {role} holds all {len(required)} that are needed")
