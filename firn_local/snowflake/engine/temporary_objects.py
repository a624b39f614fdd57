"""Temporary tables and views: DuckDB keeps them in `temp.main` of the session, Snowflake in a schema of a database.

A statement that names DB.SCHEMA.T is pointed to `temp.main.T` while the session has a temporary T in that schema.
Differs from Snowflake: two temporary objects of one session with the same name in different schemas collide.
"""

from __future__ import annotations

from fakesnow.info_schema import SQL_CREATE_LOAD_HISTORY_TABLE
from sqlglot import Expr, exp

from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.sql.statement import Statement

HISTORY = "temp.main._fs_load_history"
"""The load history of a session's temporary tables."""
_MAKE_HISTORY = SQL_CREATE_LOAD_HISTORY_TABLE.template.replace(
    "create table if not exists ${catalog}._fs_information_schema._fs_load_history",
    f"CREATE TEMPORARY TABLE IF NOT EXISTS {HISTORY}",
)


def make_history(session: Session) -> None:
    """Make the session's load history, unless it is there."""
    session.duck.execute(_MAKE_HISTORY)


def localise(session: Session, expression: Expr) -> Expr:
    """Point names of temporary objects to where DuckDB has them; a temporary object about to be made, too."""
    statement = Statement("", expression, session.database, session.schema)
    made = _made(expression)
    for table in list(expression.find_all(exp.Table)):
        if not isinstance(table.this, exp.Identifier):
            continue
        name = statement.full_name(table)
        if table is made:
            # Without a qualifier: fakesnow looks for its own tables beside a qualified one.
            expression.set("_temporary", name)
            table.set("catalog", None)
            table.set("db", None)
        elif name in session.temporary:
            table.set("catalog", exp.to_identifier("temp"))
            table.set("db", exp.to_identifier("main"))
    if isinstance(expression, exp.Drop):
        expression.set("_dropped", statement.targets())
    return expression


def remember(session: Session, expression: Expr) -> None:
    """After it ran: what was made or dropped; neither has loaded a file."""
    made = expression.args.get("_temporary")
    gone = session.temporary & expression.args.get("_dropped", frozenset())
    if made or gone:
        make_history(session)
        names = [name.rpartition(".")[2] for name in (made, *gone) if name]
        session.duck.execute(f"DELETE FROM {HISTORY} WHERE list_contains(?, TABLE_NAME)", [names])  # noqa: S608
    if made:
        session.temporary.add(made)
    session.temporary -= gone


def _made(expression: Expr) -> exp.Table | None:
    if not (isinstance(expression, exp.Create) and expression.find(exp.TemporaryProperty)):
        return None
    this = expression.this.this if isinstance(expression.this, exp.Schema) else expression.this
    return this if isinstance(this, exp.Table) and expression.kind in {"TABLE", "VIEW"} else None
