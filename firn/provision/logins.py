"""Logins of their own for dbt and `firn sql`: do they work, and may dbt's role build models. It only looks.

The sinks' own login is looked at by `snowflake`; what a sink's role needs, by `firn sink validate --live`.
"""

from __future__ import annotations

from firn.provision.findings import Finding
from firn.provision.snowflake import Session, look_for_objects, session_of
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin, connect
from firn.snowflake.grants import Privilege, held_privileges
from firn.snowflake.identifiers import stored, written
from firn.snowflake.logins import dbt_login, sql_login


def check_own_logins(settings: Settings) -> list[Finding]:
    """Findings of the logins that have a secret of their own; none where all is done with the sinks'."""
    findings: list[Finding] = []
    if settings.dbt_secret_id:
        login = dbt_login(settings)
        source = settings.snowflake_database, settings.snowflake_schema
        findings += _checked(login, "dbt login", needed_by_dbt(login, source))
    if settings.sql_secret_id:
        findings += _checked(sql_login(settings), "sql login", [])
    return findings


def needed_by_dbt(login: SnowflakeLogin, source: tuple[str, str]) -> list[Privilege]:
    """What dbt's role needs beside SELECT on the sinks' tables. source: their database and schema."""
    models = stored(login.database), stored(login.schema)
    tables = stored(source[0]), stored(source[1])
    return [
        *(Privilege("USAGE", "DATABASE", (name,)) for name in dict.fromkeys((models[0], tables[0]))),
        *(Privilege("USAGE", "SCHEMA", name) for name in dict.fromkeys((models, tables))),
        Privilege("CREATE TABLE", "SCHEMA", models),
        Privilege("CREATE VIEW", "SCHEMA", models),
        Privilege("USAGE", "WAREHOUSE", (stored(login.warehouse),)),
    ]


def _checked(login: SnowflakeLogin, kind: str, needed: list[Privilege]) -> list[Finding]:
    with connect(login) as connection:
        who: Session = session_of(connection)
        missing = held_privileges(connection, who.role).missing(needed) if needed else []
        objects = look_for_objects(connection, login)
    findings = [Finding(kind, login.user, "ok", str(who))]
    findings += [each for each in objects if each.state != "ok"]
    findings += [
        Finding("privilege", f"{each.privilege} on {written(each.name)}", "missing", each.grant(who.role))
        for each in missing
    ]
    return findings
