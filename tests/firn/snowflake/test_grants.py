"""What a role may do: inherited grants, ownership, secondary roles, and the statement for what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from firn.errors import TerminalError
from firn.snowflake import grants
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.grants import Held, Privilege, held_privileges

TABLE = ("DB", "S", "T")


@pytest.fixture
def role_with(monkeypatch: pytest.MonkeyPatch):
    """The privileges of role R when SHOW GRANTS answers with these rows by role."""

    def ask(shown: dict[str, list[tuple[str, str, str]]], secondary: str | None = None) -> Held:
        def answer(_connection: object, sql: str, *_: object) -> list[dict[str, Any]]:
            if "SECONDARY" in sql:
                if secondary is None:
                    raise TerminalError("Unknown function")
                return [{"ROLES": secondary}]
            role = sql.removeprefix("SHOW GRANTS TO ")
            if role not in shown:
                raise MissingObjectError("not authorized")
            return [dict(zip(("privilege", "granted_on", "name"), row, strict=True)) for row in shown[role]]

        monkeypatch.setattr(grants, "query", answer)
        return held_privileges(None, "R")  # type: ignore[arg-type]

    return ask


def test_roles_of_roles_count_also_in_a_circle(role_with):
    held = role_with(
        {
            "ROLE R": [("USAGE", "ROLE", "A"), ("SELECT", "TABLE", "DB.S.T")],
            "ROLE A": [("USAGE", "ROLE", "R"), ("USAGE", "DATABASE_ROLE", "DB.DEEPER")],
            "DATABASE ROLE DB.DEEPER": [("INSERT", "TABLE", "DB.S.T")],
            "ROLE PUBLIC": [("USAGE", "DATABASE", "DB")],
        }
    )
    assert held.missing([Privilege("SELECT", "TABLE", TABLE), Privilege("INSERT", "TABLE", TABLE)]) == []
    assert held.allows(Privilege("USAGE", "DATABASE", ("DB",)))
    assert held.missing([Privilege("UPDATE", "TABLE", TABLE)]) == [Privilege("UPDATE", "TABLE", TABLE)]
    assert not held.allows(Privilege("SELECT", "TABLE", ("DB", "S", "OTHER")))


def test_a_grant_on_a_role_that_is_no_usage_inherits_nothing(role_with):
    held = role_with({"ROLE R": [("OWNERSHIP", "ROLE", "A")], "ROLE A": [("SELECT", "TABLE", "DB.S.T")]})
    assert not held.allows(Privilege("SELECT", "TABLE", TABLE))


def test_an_owner_may_do_everything(role_with):
    held = role_with({"ROLE R": [("OWNERSHIP", "TABLE", "DB.S.T"), ("OWNERSHIP", "SCHEMA", "DB.S")]})
    assert held.allows(Privilege("UPDATE", "TABLE", TABLE))
    assert held.allows(Privilege("CREATE STAGE", "SCHEMA", ("DB", "S")))
    assert not held.allows(Privilege("UPDATE", "STAGE", TABLE))


def test_secondary_roles_count_but_for_creating(role_with):
    held = role_with(
        {"ROLE R": [], "ROLE B": [("INSERT", "TABLE", "DB.S.T"), ("CREATE TABLE", "SCHEMA", "DB.S")]},
        secondary='{"roles":"B","value":"ALL"}',
    )
    assert held.allows(Privilege("INSERT", "TABLE", TABLE))
    assert not held.allows(Privilege("CREATE TABLE", "SCHEMA", ("DB", "S")))


def test_names_are_read_and_written_as_snowflake_quotes_them(role_with):
    odd = Privilege("INSERT", "TABLE", ("DB", "S", 'my "odd".table'))
    held = role_with({"ROLE R": [("INSERT", "TABLE", 'DB.S."my ""odd"".table"')]})
    assert held.allows(odd)
    assert odd.grant("R") == 'GRANT INSERT ON TABLE DB.S."my ""odd"".table" TO ROLE R;'
    assert Privilege("USAGE", "WAREHOUSE", ("WH",)).grant("my role") == 'GRANT USAGE ON WAREHOUSE WH TO ROLE "my role";'
