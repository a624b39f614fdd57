"""The Snowflake side: does the login work, and do database, schema and warehouse exist for its role.

It only looks: these objects belong to Terraform (infra/) or to an administrator.
"""

from __future__ import annotations

from dataclasses import dataclass

from snowflake.connector import SnowflakeConnection

from firn.provision.findings import Finding
from firn.snowflake.connection import SnowflakeLogin, connect, query
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import text_literal


@dataclass(frozen=True)
class Session:
    """What a session says about itself."""

    user: str
    role: str
    version: str

    def __str__(self) -> str:
        return f"user {self.user}, role {self.role}, version {self.version}"


def check_snowflake(login: SnowflakeLogin) -> list[Finding]:
    """Log in and look for the objects. An absent one is a finding in state `missing`; a refused login raises."""
    with connect(login) as connection:
        who = session_of(connection)
        return [Finding("snowflake login", login.account, "ok", str(who)), *look_for_objects(connection, login)]


def session_of(connection: SnowflakeConnection) -> Session:
    """Who is logged in, with which role, and the version of Snowflake."""
    sql = "SELECT CURRENT_USER() AS LOGIN, CURRENT_ROLE() AS ROLE, CURRENT_VERSION() AS VERSION"
    (who,) = query(connection, sql)
    return Session(str(who["LOGIN"]), str(who["ROLE"]), str(who["VERSION"]))


def look_for_objects(connection: SnowflakeConnection, login: SnowflakeLogin) -> list[Finding]:
    """Whether database, schema and warehouse of the login are there for its role: `ok` or `missing`."""
    return [_database(connection, login), _schema(connection, login), _warehouse(connection, login)]


def _database(connection: SnowflakeConnection, login: SnowflakeLogin) -> Finding:
    rows = query(connection, f"SHOW DATABASES LIKE {text_literal(login.database)}")
    return _looked_up("database", login.database, rows, login, f"GRANT USAGE ON DATABASE {login.database}")


def _schema(connection: SnowflakeConnection, login: SnowflakeLogin) -> Finding:
    name = f"{login.database}.{login.schema}"
    try:
        rows = query(
            connection, f"SHOW SCHEMAS LIKE {text_literal(login.schema)} IN DATABASE {_identifier(login.database)}"
        )
    except MissingObjectError:
        rows = []
    found = _looked_up("schema", login.schema, rows, login, f"GRANT USAGE ON SCHEMA {name}")
    return Finding(found.kind, name, found.state, found.detail)


def _warehouse(connection: SnowflakeConnection, login: SnowflakeLogin) -> Finding:
    rows = query(connection, f"SHOW WAREHOUSES LIKE {text_literal(login.warehouse)}")
    return _looked_up("warehouse", login.warehouse, rows, login, f"GRANT USAGE ON WAREHOUSE {login.warehouse}")


def _looked_up(kind: str, name: str, rows: list[dict[str, object]], login: SnowflakeLogin, grant: str) -> Finding:
    if any(str(row["name"]).upper() == name.upper() for row in rows):
        return Finding(kind, name, "ok")
    detail = f"does not exist, or role {login.role} may not see it: make it, then {grant} TO ROLE {login.role}"
    return Finding(kind, name, "missing", detail)


def _identifier(name: str) -> str:
    """Quoted as Snowflake resolves an unquoted name: in capitals."""
    return '"' + name.upper().replace('"', '""') + '"'
