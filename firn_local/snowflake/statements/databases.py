"""CREATE, USE and DROP DATABASE: a DuckDB file each, with schema PUBLIC made and entered as on Snowflake."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb

from firn_local.snowflake.privileges import enforcement, grant_table
from firn_local.snowflake.privileges.requirements import Need, on_account
from firn_local.snowflake.sql.errors import LOCKED, duplicate, missing, sql_error
from firn_local.snowflake.sql.result_set import Answer
from firn_local.snowflake.sql.tokenizer import Words
from firn_local.snowflake.store import residue

if TYPE_CHECKING:
    from firn_local.snowflake.engine.session import Session


def _create(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("CREATE")
    replace = words.skip("OR", "REPLACE")
    words.skip("TRANSIENT")
    words.expect("DATABASE")
    if_not_exists = words.skip("IF", "NOT", "EXISTS")
    name = words.name()
    words.properties()
    enforcement.demand(session, on_account("CREATE DATABASE"))
    with session.ddl():
        if _exists(session, name):
            if not replace:
                return _already_there(name, if_not_exists)
            enforcement.demand(session, Need(("OWNERSHIP",), "DATABASE", name))
            _remove(session, name)
        engine = session.shared.engine
        engine.attach(name)
        engine.prepare(name)
        engine.duck_conn.execute(f'CREATE SCHEMA IF NOT EXISTS "{name}"."PUBLIC"')
        for kind, made in (("DATABASE", name), ("SCHEMA", f"{name}.PUBLIC")):
            grant_table.own(engine, kind, made, session.role)
    session.use(name, "PUBLIC")
    return Answer.status(f"Database {name} successfully created.")


def _already_there(name: str, if_not_exists: bool) -> Answer:
    if not if_not_exists:
        raise duplicate(name)
    return Answer.status(f"{name} already exists, statement succeeded.")


def _drop(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("DROP", "DATABASE")
    if_exists = words.skip("IF", "EXISTS")
    name = words.name()
    if if_exists and enforcement.holds_nothing(session, "DATABASE", name):
        return Answer.status("Drop statement executed successfully.")
    enforcement.demand(session, Need(("OWNERSHIP",), "DATABASE", name))
    with session.ddl():
        if not _exists(session, name):
            if if_exists:
                return Answer.status("Drop statement executed successfully.")
            raise missing("Database", name)
        _remove(session, name)
    return Answer.status(f"{name} successfully dropped.")


def _remove(session: Session, name: str) -> None:
    if session.database == name:
        session.leave_database()
    try:
        session.shared.engine.remove(name)
    except duckdb.Error as error:
        raise sql_error(LOCKED, f"Database '{name}' is in use by another session (local Snowflake).") from error
    residue.forget(session.shared.engine, name)


def _use(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("USE", "DATABASE")
    name = words.name()
    if not _exists(session, name):
        raise missing("Database", name)
    enforcement.demand_use(session, "DATABASE", name)
    session.enter(name, "PUBLIC")
    return Answer.status()


def _exists(session: Session, name: str) -> bool:
    sql = "SELECT 1 FROM duckdb_databases() WHERE database_name = ? AND NOT internal"
    return session.shared.engine.query(sql, [name]) != []


COMMANDS = {
    ("CREATE", "DATABASE"): _create,
    ("CREATE", "TRANSIENT", "DATABASE"): _create,
    ("CREATE", "OR", "REPLACE", "DATABASE"): _create,
    ("CREATE", "OR", "REPLACE", "TRANSIENT", "DATABASE"): _create,
    ("DROP", "DATABASE"): _drop,
    ("USE", "DATABASE"): _use,
}
