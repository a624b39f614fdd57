"""Values that INSERT takes over into columns of another type: a VARIANT's text becomes the text, without quotes.

Source: https://docs.snowflake.com/en/sql-reference/data-type-conversion (coercion). Only paths (`x:a`) are known to be
VARIANTs before the statement runs; DuckDB itself takes the text of a JSON value with its quotes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlglot import Expr, exp

from firn.local.snowflake.statements import Statement

if TYPE_CHECKING:
    from firn.local.snowflake.session import Session

_TYPES = (
    "SELECT column_name, data_type FROM duckdb_columns() "
    "WHERE database_name = ? AND schema_name = ? AND table_name = ? ORDER BY column_index"
)


def inserted(session: Session, expression: Expr) -> Expr:
    """The statement (changed in place) with casts to text where INSERT puts a path into a column of text."""
    select = expression.args.get("expression")
    if not (isinstance(expression, exp.Insert) and isinstance(select, exp.Select)):
        return expression
    for selected, kind in zip(select.selects, _target_types(session, expression), strict=False):
        value = selected.unalias()
        if kind == "VARCHAR" and type(value) is exp.JSONExtract:
            value.replace(exp.cast(value.copy(), "text"))
    return expression


def _target_types(session: Session, insert: exp.Insert) -> list[str | None]:
    """DuckDB's types of the columns that an INSERT names, or of all."""
    statement = Statement("", insert, session.database, session.schema)
    place = next(iter(statement.targets()), "").split(".", 2)
    if place[:2] == ["TEMP", "MAIN"]:  # where `temporary` has pointed it to
        place[:2] = ["temp", "main"]
    types = dict(session.duck.execute(_TYPES, place).fetchall())
    if not isinstance(insert.this, exp.Schema):
        return list(types.values())
    named = [column.name if column.args.get("quoted") else column.name.upper() for column in insert.this.expressions]
    return [types.get(name) for name in named]
