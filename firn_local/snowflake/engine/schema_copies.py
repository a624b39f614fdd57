"""CREATE SCHEMA ... CLONE: a schema with copies of another one's tables and views.

Source: https://docs.snowflake.com/en/sql-reference/sql/create-clone. Differs from Snowflake: rows are copied; views
read what the views that they are copies of read; stages, pipes, streams, tasks and tags are not copied.
"""

from __future__ import annotations

import sqlglot
from sqlglot import exp

from firn_local.snowflake.engine import table_copies
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement, ownership
from firn_local.snowflake.privileges.requirements import Need
from firn_local.snowflake.sql.sql_errors import missing, unsupported
from firn_local.snowflake.sql.statement import Statement

_IS_SCHEMA = "SELECT 1 FROM duckdb_schemas() WHERE database_name = ? AND schema_name = ?"
_TABLES = (
    "SELECT table_name FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND NOT internal "
    "ORDER BY table_name"
)
_VIEWS = (
    "SELECT view_name, sql FROM duckdb_views() WHERE database_name = ? AND schema_name = ? AND NOT internal "
    "ORDER BY view_oid"
)


def source_of(session: Session, statement: Statement) -> str | None:
    """DATABASE.SCHEMA behind CLONE; None where nothing is cloned. Raises LocalError where there is none to be seen."""
    clone = statement.expression.args.get("clone")
    if clone is None:
        return None
    if clone.this.args.get("when") is not None:
        raise unsupported(statement.sql, "CLONE of a schema as it was: no Time Travel")
    source = statement.object_name(clone.this, "SCHEMA")
    if not is_there(session, source):
        raise missing("Schema", source)
    enforcement.demand(session, Need(("USAGE", "OWNERSHIP"), "SCHEMA", source))
    return source


def is_there(session: Session, schema: str) -> bool:
    """Whether there is such a DATABASE.SCHEMA."""
    return session.store.query(_IS_SCHEMA, schema.split(".", 1)) != []


def copy_into(session: Session, source: str, made: str) -> None:
    """Fill the schema `made`; its objects belong to the session's role, and have the future grants of their place."""
    origin, target = source.split(".", 1), made.split(".", 1)
    for (name,) in session.duck.execute(_TABLES, origin).fetchall():
        table_copies.cloned(session, (origin[0], origin[1], name), (target[0], target[1], name))
        ownership.record_owner(session.role_grants, session.role, "TABLE", f"{made}.{name}", replaced=True)
    for name, sql in session.duck.execute(_VIEWS, origin).fetchall():
        session.duck.execute(_view(sql, target, name))
        ownership.record_owner(session.role_grants, session.role, "VIEW", f"{made}.{name}", replaced=True)


def _view(sql: str, target: list[str], name: str) -> str:
    """The statement that makes a view with the query of another one."""
    create = sqlglot.parse_one(sql, dialect="duckdb")
    table = create.this.this if isinstance(create.this, exp.Schema) else create.this
    table.replace(exp.table_(name, db=target[1], catalog=target[0], quoted=True))
    return create.sql(dialect="duckdb")
