"""Temporary tables and views: DuckDB keeps them in `temp.main` of the session, Snowflake in a schema of a database.

A statement that names DB.SCHEMA.T is pointed to `temp.main.T` while the session has a temporary T in that schema.
Differs from Snowflake: two temporary objects of one session with the same name in different schemas collide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import Expr, exp

from firn.local.snowflake.statements import Statement

if TYPE_CHECKING:
    from firn.local.snowflake.session import Session


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
    """After it ran: what was made or dropped."""
    if name := expression.args.get("_temporary"):
        session.temporary.add(name)
    session.temporary -= expression.args.get("_dropped", frozenset())


def _made(expression: Expr) -> exp.Table | None:
    if not (isinstance(expression, exp.Create) and expression.find(exp.TemporaryProperty)):
        return None
    this = expression.this.this if isinstance(expression.this, exp.Schema) else expression.this
    return this if isinstance(this, exp.Table) and expression.kind in {"TABLE", "VIEW"} else None
