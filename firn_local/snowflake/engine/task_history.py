"""INFORMATION_SCHEMA.TASK_HISTORY(...): the runs of tasks that the role may see, over what the scheduler writes.

Source: https://docs.snowflake.com/en/sql-reference/functions/task_history. It has what ran, runs and was asked for, not
the next time of a schedule.
"""

from __future__ import annotations

from sqlglot import Expr, exp

from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement
from firn_local.snowflake.sql.sql_errors import SYNTAX, compilation_error
from firn_local.snowflake.tasks.task_table import FAILED, RUN_COLUMNS, RUNS

_ARGUMENTS = (
    "SCHEDULED_TIME_RANGE_START", "SCHEDULED_TIME_RANGE_END", "RESULT_LIMIT", "TASK_NAME", "ERROR_ONLY", "ROOT_TASK_ID",
)  # fmt: skip
_DEFAULT_LIMIT = 100


def resolved(session: Session, tree: Expr) -> Expr:
    """The statement (changed in place) with a query in the place of each call."""
    for node in list(tree.find_all(exp.TableFromRows)):
        dot = node.this
        if not isinstance(dot, exp.Dot) or not isinstance(dot.expression, exp.Anonymous):
            continue
        if dot.this.name.upper() == "INFORMATION_SCHEMA" and dot.expression.name.upper() == "TASK_HISTORY":
            alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier("TASK_HISTORY"))
            node.replace(exp.Subquery(this=_query(session, dot.expression), alias=alias))
    return tree


def _query(session: Session, call: exp.Anonymous) -> exp.Select:
    seen = enforcement.visible(session, "TASK", [task.name for task in session.account.tasks.all()])
    parts = [exp.column(name) for name in ("DATABASE_NAME", "SCHEMA_NAME", "NAME")]
    full_name = exp.func("CONCAT_WS", exp.Literal.string("."), *parts)
    columns = [exp.alias_(exp.column(name.upper()), name.upper()) for name in RUN_COLUMNS]
    query = exp.select(*columns).from_(exp.to_table(RUNS))
    if not enforcement.held(session).everything:
        query = query.where(full_name.isin(*(exp.Literal.string(name) for name in sorted(seen) or [""])))
    limit: Expr = exp.Literal.number(_DEFAULT_LIMIT)
    for position, given in enumerate(call.expressions):
        named = isinstance(given, exp.Kwarg)
        argument = given.this.name.upper() if named else _ARGUMENTS[min(position, len(_ARGUMENTS) - 1)]
        value = given.expression if named else given
        if argument == "RESULT_LIMIT":
            limit = value
        elif (condition := _condition(argument, value)) is not None:
            query = query.where(condition)
    return query.order_by("SCHEDULED_TIME DESC", "RUN_ID DESC", "QUERY_START_TIME DESC").limit(limit)


def _condition(argument: str, value: Expr) -> Expr | None:
    match argument:
        case "SCHEDULED_TIME_RANGE_START":
            return exp.GTE(this=exp.column("SCHEDULED_TIME"), expression=value)
        case "SCHEDULED_TIME_RANGE_END":
            return exp.LTE(this=exp.column("SCHEDULED_TIME"), expression=value)
        case "TASK_NAME":
            return exp.func("UPPER", exp.column("NAME")).eq(exp.func("UPPER", value))
        case "ROOT_TASK_ID":
            return exp.column("ROOT_TASK_ID").eq(value)
        case "ERROR_ONLY":
            wanted = isinstance(value, exp.Boolean) and bool(value.this)
            return exp.column("STATE").eq(exp.Literal.string(FAILED)) if wanted else None
    raise compilation_error(SYNTAX, f"TASK_HISTORY takes {', '.join(_ARGUMENTS)}.")
