"""Functions about the session (CURRENT_TRANSACTION) and objects (SYSTEM$...), filled in before a query runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from sqlglot import Expr, exp

from firn_local.snowflake.engine import change_times, stream_reads
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.sql.tokenizer import Tokenizer

REGION = "LOCAL"


def _transaction(session: Session) -> str | None:
    current = session.transactions.current
    return current.id if current else None


def _secondary_roles(session: Session) -> str:
    value = "ALL" if session.secondary else ""
    return json.dumps({"roles": ",".join(sorted(session.secondary_roles())), "value": value}, separators=(",", ":"))


_FUNCTIONS: dict[str, Callable[[Session], str | None]] = {
    "CURRENT_TRANSACTION": _transaction,
    "LAST_TRANSACTION": lambda s: s.transactions.last_id,
    "CURRENT_ROLE": lambda s: s.role,
    "CURRENT_SECONDARY_ROLES": _secondary_roles,
    "CURRENT_USER": lambda s: s.user,
    "CURRENT_WAREHOUSE": lambda s: s.warehouse,
    "CURRENT_SESSION": lambda s: str(s.id),
    "CURRENT_ACCOUNT": lambda s: s.account_name,
    "CURRENT_ACCOUNT_NAME": lambda s: s.account_name,
    "CURRENT_REGION": lambda _: REGION,
    "CURRENT_DATABASE": lambda s: s.database,
    "CURRENT_SCHEMA": lambda s: s.schema,
    "LAST_QUERY_ID": lambda s: s.last_query_id,
}


_OF_OBJECTS: dict[str, Callable[[Session, Any], Expr]] = {
    "SYSTEM$STREAM_HAS_DATA": lambda s, name: exp.Boolean(this=stream_reads.has_data(s, name)),
    "SYSTEM$LAST_CHANGE_COMMIT_TIME": lambda s, name: exp.Literal.number(change_times.last_change(s, name)),
}


def variants(expression: Expr) -> Expr:
    """`x::VARIANT` wraps any value; DuckDB's cast to JSON would parse a text instead."""
    for cast in list(expression.find_all(exp.Cast)):
        if cast.to.is_type("variant"):
            cast.replace(exp.ToVariant(this=cast.this))
    return expression


def wide_numbers(expression: Expr) -> Expr:
    """NUMBER and NUMBER(38,0) as 128 bits wide (changed in place); fakesnow would take 64. INT and its like stay so."""
    for kind in expression.find_all(exp.DataType):
        sizes = [size.name for size in kind.expressions]
        if kind.this is exp.DataType.Type.DECIMAL and sizes in ([], ["38"], ["38", "0"]):
            kind.replace(exp.DataType(this=exp.DataType.Type.INT128, nested=False))
    return expression


def of_objects(session: Session, expression: Expr) -> Expr:
    """System functions about a stream, table or view as their values (changed in place)."""
    for node in list(expression.find_all(exp.Anonymous)):
        if node.name.upper() not in _OF_OBJECTS or len(node.expressions) != 1:
            continue
        value = _OF_OBJECTS[node.name.upper()](session, Tokenizer(node.expressions[0].name).name())
        projected = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
        shown = node.sql(dialect="snowflake")
        node.replace(exp.alias_(value, shown, quoted=True) if projected else value)
    return expression


def fill_in(session: Session, expression: Expr) -> Expr:
    """Replace the session's functions by their values; a column of a query keeps the function's name."""
    for node in list(expression.find_all(exp.Func)):
        name = (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).upper()
        if name not in _FUNCTIONS or (node.expressions and name != "LAST_QUERY_ID"):
            continue
        value = _FUNCTIONS[name](session)
        literal = exp.cast(exp.null(), "text") if value is None else exp.Literal.string(value)
        projected = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
        node.replace(exp.alias_(literal, f"{name}()", quoted=True) if projected else literal)
    return expression
