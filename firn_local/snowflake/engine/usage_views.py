"""Snowflake's views and table functions of usage, over the tables that the meter writes.

SNOWFLAKE.ACCOUNT_USAGE has those that `metering.history` names; INFORMATION_SCHEMA has QUERY_HISTORY and
WAREHOUSE_METERING_HISTORY as table functions. Source: their pages in Snowflake's SQL reference. They are never late.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import Expr, exp

from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.metering import history
from firn_local.snowflake.privileges import enforcement
from firn_local.snowflake.privileges.requirements import ACCOUNT, Need, is_usage_view
from firn_local.snowflake.sql.sql_errors import SYNTAX, compilation_error

_ARGUMENTS = {
    "QUERY_HISTORY": ("END_TIME_RANGE_START", "END_TIME_RANGE_END", "RESULT_LIMIT"),
    "WAREHOUSE_METERING_HISTORY": ("DATE_RANGE_START", "DATE_RANGE_END", "WAREHOUSE_NAME"),
}
_CONDITIONS: dict[str, tuple[str, type[exp.Binary]]] = {
    "END_TIME_RANGE_START": ("END_TIME", exp.GTE),
    "END_TIME_RANGE_END": ("END_TIME", exp.LTE),
    "DATE_RANGE_START": ("START_TIME", exp.GTE),
    "DATE_RANGE_END": ("START_TIME", exp.LTE),
    "WAREHOUSE_NAME": ("WAREHOUSE_NAME", exp.EQ),
}
_DEFAULT_LIMIT = 100


def resolved(session: Session, tree: Expr) -> Expr:
    """The statement (changed in place) with what stands for these views and functions, which are then up to date."""
    views = [table for table in tree.find_all(exp.Table) if is_usage_view(table)]
    functions = [(node, call) for node in tree.find_all(exp.TableFromRows) if (call := _call(node)) is not None]
    if views or functions:
        session.account.meter.write()
    for table in views:
        _take_place(table, _view(table.name))
    for node, call in functions:
        _take_place(node, _rows_of(session, call))
    return tree


def _take_place(source: Expr, query: exp.Select) -> None:
    """Put a query where a source of rows stands, under the same alias."""
    alias = source.args.get("alias") or exp.TableAlias(this=exp.to_identifier(source.name.upper() or "USAGE"))
    source.replace(exp.Subquery(this=query, alias=alias))


def _view(name: str) -> exp.Select:
    if name.upper() not in history.VIEWS:
        raise compilation_error(
            SYNTAX, f"View 'SNOWFLAKE.ACCOUNT_USAGE.{name.upper()}' is not there (local Snowflake)."
        )
    return exp.select("*").from_(exp.to_table(f"{history.PLACE}.{name.upper()}"))


def _call(node: exp.TableFromRows) -> exp.Anonymous | None:
    """The function of TABLE([db.]INFORMATION_SCHEMA.<function>(...)) if it is one of these."""
    dot = node.this
    if not isinstance(dot, exp.Dot) or not isinstance(dot.expression, exp.Anonymous):
        return None
    of_schema = dot.this.name.upper() == "INFORMATION_SCHEMA"
    return dot.expression if of_schema and dot.expression.name.upper() in _ARGUMENTS else None


def _rows_of(session: Session, call: exp.Anonymous) -> exp.Select:
    name = call.name.upper()
    query = _view(name)
    limit: Expr = exp.Literal.number(_DEFAULT_LIMIT)
    for argument, value in _arguments(name, call):
        if argument == "RESULT_LIMIT":
            limit = value
        else:
            column, compare = _CONDITIONS[argument]
            wanted = exp.func("UPPER", value) if argument == "WAREHOUSE_NAME" else value
            query = query.where(compare(this=exp.column(column), expression=wanted))
    if name == "WAREHOUSE_METERING_HISTORY":
        enforcement.demand(session, Need(("MONITOR USAGE",), ACCOUNT, ACCOUNT))
        return query.order_by("WAREHOUSE_NAME", "START_TIME")
    if not enforcement.held(session).everything:  # others see their own statements
        query = query.where(exp.column("USER_NAME").eq(exp.Literal.string(session.user)))
    return query.order_by("END_TIME DESC").limit(limit)


def _arguments(name: str, call: exp.Anonymous) -> Iterator[tuple[str, Expr]]:
    """(name, value) of the arguments, which are given by name or in their order."""
    for position, given in enumerate(call.expressions):
        if isinstance(given, exp.Kwarg):
            argument, value = given.this.name.upper(), given.expression
        else:
            argument, value = (*_ARGUMENTS[name], "")[min(position, len(_ARGUMENTS[name]))], given
        if argument not in _ARGUMENTS[name]:
            raise compilation_error(SYNTAX, f"{name} takes {', '.join(_ARGUMENTS[name])} (local Snowflake).")
        yield argument, value
