"""CREATE, USE and DROP DATABASE: a DuckDB file each, with schema PUBLIC made and entered as on Snowflake."""

from __future__ import annotations

import duckdb
from sqlglot import exp

from firn_local.snowflake.engine.family import Execution, Family, Handler
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement
from firn_local.snowflake.privileges.requirements import Need, on_account
from firn_local.snowflake.sql.result_set import ResultSet
from firn_local.snowflake.sql.sql_errors import LOCKED, duplicate, missing, sql_error, unsupported
from firn_local.snowflake.sql.statement import Kind, Statement


def _create(session: Session, statement: Statement, _: Execution) -> ResultSet:
    create = statement.expression
    if create.args.get("clone") or create.expression:
        raise unsupported(statement.sql)
    name = statement.object_name(create.this, "DATABASE")
    enforcement.demand(session, on_account("CREATE DATABASE"))
    with session.ddl():
        if _exists(session, name):
            if not create.args.get("replace"):
                return _already_there(name, bool(create.args.get("exists")))
            enforcement.demand(session, Need(("OWNERSHIP",), "DATABASE", name))
            _remove(session, name)
        store = session.store
        store.attach(name)
        store.prepare(name)
        store.duck_conn.execute(f'CREATE SCHEMA IF NOT EXISTS "{name}"."PUBLIC"')
        for kind, made in (("DATABASE", name), ("SCHEMA", f"{name}.PUBLIC")):
            session.account.grants.own(kind, made, session.role)
    session.use(name, "PUBLIC")
    return ResultSet.status(f"Database {name} successfully created.")


def _already_there(name: str, if_not_exists: bool) -> ResultSet:
    if not if_not_exists:
        raise duplicate(name)
    return ResultSet.status(f"{name} already exists, statement succeeded.")


def _drop(session: Session, statement: Statement, _: Execution) -> ResultSet:
    if_exists = statement.expression.args.get("exists")
    (name,) = statement.target_objects()
    if if_exists and enforcement.holds_nothing(session, "DATABASE", name):
        return ResultSet.status("Drop statement executed successfully.")
    enforcement.demand(session, Need(("OWNERSHIP",), "DATABASE", name))
    with session.ddl():
        if not _exists(session, name):
            if if_exists:
                return ResultSet.status("Drop statement executed successfully.")
            raise missing("Database", name)
        _remove(session, name)
    return ResultSet.status(f"{name} successfully dropped.")


def _remove(session: Session, name: str) -> None:
    if session.database == name:
        session.leave_database()
    try:
        session.store.remove(name)
    except duckdb.Error as error:
        raise sql_error(LOCKED, f"Database '{name}' is in use by another session (local Snowflake).") from error
    session.account.forget_inside("DATABASE", name)


def _use(session: Session, statement: Statement, _: Execution) -> ResultSet:
    name = statement.object_name(statement.expression.this, "DATABASE")
    if not _exists(session, name):
        raise missing("Database", name)
    enforcement.demand_use(session, "DATABASE", name)
    session.enter(name, "PUBLIC")
    return ResultSet.status()


def _exists(session: Session, name: str) -> bool:
    sql = "SELECT 1 FROM duckdb_databases() WHERE database_name = ? AND NOT internal"
    return session.store.query(sql, [name]) != []


FAMILY = Family(
    handlers={
        (exp.Create, "DATABASE"): Handler(_create, kind=Kind.SESSION),
        (exp.Drop, "DATABASE"): Handler(_drop, kind=Kind.SESSION),
        (exp.Use, "DATABASE"): Handler(_use),
    }
)
