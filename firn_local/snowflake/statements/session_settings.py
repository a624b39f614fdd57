"""A session's own state: ALTER SESSION, SHOW PARAMETERS, USE. SET and UNSET of variables are fakesnow's."""

from __future__ import annotations

from typing import Any

from sqlglot import Expr, exp

from firn_local.snowflake.engine.family import Execution, Family, Handler, as_it_is
from firn_local.snowflake.engine.login_session import DEFAULTS, Session
from firn_local.snowflake.privileges import enforcement, principal_table, requirements
from firn_local.snowflake.sql.result_set import ResultSet, text_columns
from firn_local.snowflake.sql.sql_errors import unsupported
from firn_local.snowflake.sql.statement import Kind, Statement
from firn_local.snowflake.sql.tokenizer import Tokenizer


def _alter(session: Session, statement: Statement, _: Execution) -> ResultSet:
    for action in statement.expression.args["actions"]:
        names = {item.this.name if action.args.get("unset") else item.this.this.name for item in action.expressions}
        if action.args.get("unset"):
            _unset(session, {name.upper() for name in names})
        else:
            session.set_parameters({i.this.this.name: _value(i.this.expression) for i in action.expressions})
    return ResultSet.status()


def _unset(session: Session, names: set[str]) -> None:
    for name in names:
        session.parameters.pop(name, None)
        if name in DEFAULTS:
            session.set_parameters({name: DEFAULTS[name]})


def _value(tree: Expr) -> Any:
    if isinstance(tree, exp.Boolean):
        return bool(tree.this)
    return tree.sql(dialect="snowflake") if isinstance(tree, exp.Neg) else tree.name


def _show_parameters(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    tokens.expect("SHOW", "PARAMETERS")
    like = tokens.like()
    rows = [
        (name, str(value).lower() if isinstance(value, bool) else str(value), str(DEFAULTS.get(name, "")), "", "", "")
        for name, value in sorted(session.parameters.items())
        if like is None or like.fullmatch(name)
    ]
    return ResultSet(text_columns("key", "value", "default", "level", "description", "type"), rows)


def _use_role(session: Session, statement: Statement, _: Execution) -> ResultSet:
    role = principal_table.require(session.store, "ROLE", _used(statement))
    enforcement.demand_role(session, role)
    session.role = role
    return ResultSet.status()


def _use_warehouse(session: Session, statement: Statement, _: Execution) -> ResultSet:
    name = principal_table.require(session.store, "WAREHOUSE", _used(statement))
    enforcement.demand_use(session, "WAREHOUSE", name)
    session.warehouse = name
    return ResultSet.status()


def _use_secondary_roles(session: Session, statement: Statement, _: Execution) -> ResultSet:
    which = statement.expression.name.upper()
    if which not in {"ALL", "NONE"}:
        raise unsupported(statement.sql)
    session.secondary = which == "ALL"
    return ResultSet.status()


def _used(statement: Statement) -> str:
    """The name behind USE ROLE or WAREHOUSE, upper case where not quoted."""
    return statement.object_name(statement.expression.this, "DATABASE")


FAMILY = Family(
    commands={("SHOW", "PARAMETERS"): _show_parameters},
    handlers={
        (exp.Alter, "SESSION"): Handler(_alter, kind=Kind.SESSION),
        (exp.Use, "ROLE"): Handler(_use_role),
        (exp.Use, "WAREHOUSE"): Handler(_use_warehouse),
        (exp.Use, "SECONDARY ROLES"): Handler(_use_secondary_roles),
        (exp.Use, ""): Handler(as_it_is, requirements.to_use),
        (exp.Command, "SET"): Handler(as_it_is),
        (exp.Command, "UNSET"): Handler(as_it_is),
    },
)
