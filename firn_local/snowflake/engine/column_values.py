"""What a column takes: texts no longer than declared, whole numbers rounded, and a VARIANT's value as of its type.

INSERT, UPDATE, MERGE and COPY with a transformation are checked; COPY with MATCH_BY_COLUMN_NAME is not. Source:
https://docs.snowflake.com/en/sql-reference/data-types-text and data-type-conversion. Numbers and NULLs DuckDB checks
itself; codes are in `errors`.
"""

from __future__ import annotations

from sqlglot import Expr, exp

from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.sql import data_types
from firn_local.snowflake.sql.statement import Statement
from firn_local.snowflake.store import table_annotations
from firn_local.snowflake.store.table_annotations import KnownColumn

SHOWN = 200
"""Characters of a long text that its error repeats, as on Snowflake."""


def fitted(session: Session, expression: Expr, targets: Statement) -> Expr:
    """The statement (changed in place) with each value as its column takes it; `targets`: before names were pointed
    to temporary tables.
    """
    if not isinstance(expression, (exp.Insert, exp.Copy, exp.Update, exp.Merge)):
        return expression
    for full_name in targets.targets():
        columns = {column.name: column for column in _columns(session, full_name)}
        if isinstance(expression, exp.Update):
            _fit_update(expression, columns)
        elif isinstance(expression, exp.Merge):
            _fit_merge(expression, columns)
        else:
            _fit_rows(expression, columns)
    return expression


def short_casts(expression: Expr) -> Expr:
    """Casts to a VARCHAR(n) of less than the default (changed in place): a longer text is an error, not cut."""
    if isinstance(expression, exp.Create):  # fakesnow reads lengths of columns off the casts of CREATE TABLE AS
        return expression
    for cast in list(expression.find_all(exp.Cast)):
        if (limit := _cast_length(cast)) < data_types.LONGEST_TEXT:
            cast.replace(_no_longer(exp.cast(cast.this.copy(), exp.DataType.Type.TEXT), limit))
    return expression


def _fit_update(update: exp.Update, columns: dict[str, KnownColumn]) -> None:
    for each in update.expressions:
        column = columns.get(_name(each.this)) if isinstance(each, exp.EQ) else None
        if column is not None:
            each.set("expression", _taken(each.expression, column))


def _fit_merge(merge: exp.Merge, columns: dict[str, KnownColumn]) -> None:
    """WHEN MATCHED THEN UPDATE SET c = v, and WHEN NOT MATCHED THEN INSERT (c) VALUES (v)."""
    for when in merge.args["whens"].expressions:
        then = when.args["then"]
        if isinstance(then, exp.Update):
            for each in then.expressions:
                if isinstance(each, exp.EQ) and isinstance(each.this, exp.Column):
                    each.set("this", exp.column(each.this.this.copy()))  # DuckDB takes no `t.` in front of it
            _fit_update(then, columns)
        elif isinstance(then, exp.Insert) and isinstance(then.expression, exp.Tuple):
            names = [_name(c) for c in then.this.expressions] if isinstance(then.this, exp.Tuple) else list(columns)
            _fit_row(then.expression.expressions, [columns.get(name) for name in names])


def _fit_rows(insert: exp.Insert | exp.Copy, columns: dict[str, KnownColumn]) -> None:
    target = insert.this
    names = [_name(c) for c in target.expressions] if isinstance(target, exp.Schema) else list(columns)
    by_position = [columns.get(name) for name in names]
    if not any(by_position):
        return
    source = insert.args["files"][0] if isinstance(insert, exp.Copy) else insert.expression
    query = source.unnest() if isinstance(source, exp.Subquery) else source
    if isinstance(query, exp.Values):
        rows = [row.expressions for row in query.expressions if isinstance(row, exp.Tuple)]
    elif isinstance(query, exp.Select) and not query.is_star:
        rows = [query.selects]
    elif isinstance(query, exp.Query) and isinstance(insert, exp.Insert):
        insert.set("expression", _fitted_query(query, by_position))
        return
    else:
        return
    for row in rows:
        _fit_row(row, by_position)


def _fit_row(values: list[Expr], columns: list[KnownColumn | None]) -> None:
    for value, column in zip(list(values), columns, strict=False):
        inner = value.this if isinstance(value, exp.Alias) else value
        if column is not None and not isinstance(inner, (exp.Placeholder, exp.Parameter)):
            inner.replace(_taken(inner.copy(), column))


def _fitted_query(query: exp.Query, columns: list[KnownColumn | None]) -> exp.Query:
    """A query whose columns are not named one by one, in another that does so.

    The empty first branch of UNION ALL gives the columns names, and makes another number of them an error.
    """
    names = [f"firn_{number}" for number in range(len(columns))]
    values = [exp.column(name, quoted=True) for name in names]
    taken = [value if column is None else _taken(value, column) for value, column in zip(values, columns, strict=True)]
    if taken == values:
        return query
    none = exp.select(*(exp.alias_(exp.null(), name, quoted=True) for name in names)).where(exp.false())
    rows = exp.Union(this=none, expression=exp.Subquery(this=query.copy()), distinct=False)
    return exp.select(*taken).from_(exp.Subquery(this=rows, alias=exp.TableAlias(this=exp.to_identifier("firn_rows"))))


def _columns(session: Session, full_name: str) -> list[KnownColumn]:
    """The columns of a table, in order; kept until the next DDL."""
    place = session.place_of(full_name)
    if full_name in session.temporary:
        return table_annotations.columns(session.duck, place)
    known = session.account.columns
    if full_name not in known:
        # What is committed, not what an old snapshot of this session's transaction has.
        with session.store.duck_conn.cursor() as conn:
            known[full_name] = table_annotations.columns(conn, place)
    return known[full_name]


def _taken(value: Expr, column: KnownColumn) -> Expr:
    """`value` as the column takes it."""
    if column.is_whole and not isinstance(value, (exp.Literal, exp.Null)) and value.name.upper() != "DEFAULT":
        return exp.cast(value.copy(), exp.DataType.Type.INT128 if column.is_wide else exp.DataType.Type.BIGINT)
    if not column.is_semi_structured and _is_path(value):
        value = exp.cast(value.copy(), exp.DataType.Type.TEXT)
    if column.longest is None or _cast_length(value) <= column.longest:
        return value
    return _no_longer(value, column.longest)


def _no_longer(value: Expr, limit: int) -> Expr:
    text = exp.cast(value.copy(), exp.DataType.Type.TEXT)
    shown = exp.func("CONCAT", exp.func("LEFT", text.copy(), exp.Literal.number(SHOWN)), exp.Literal.string("..."))
    short = exp.func("LENGTH", text.copy()) <= exp.Literal.number(SHOWN)
    shown = exp.Case(ifs=[exp.If(this=short, true=text.copy())], default=shown)
    message = exp.func(
        "CONCAT", exp.Literal.string("String '"), shown, exp.Literal.string("' is too long and would be truncated")
    )
    too_long = exp.func("LENGTH", text) > exp.Literal.number(limit)
    fault = exp.Anonymous(this="error", expressions=[message])
    return exp.Case(ifs=[exp.If(this=too_long, true=fault)], default=value.copy())


def _cast_length(value: Expr) -> int:
    """Characters that a cast to text leaves at most."""
    longest = data_types.longest(data_types.text_of(value.to)) if type(value) is exp.Cast else None
    return longest or data_types.LONGEST_TEXT


def _is_path(value: Expr) -> bool:
    return isinstance(value, exp.JSONExtract) and isinstance(value.expression, exp.JSONPath)


def _name(column: Expr) -> str:
    identifier = column.this if isinstance(column, exp.Column) else column
    return identifier.name if identifier.args.get("quoted") else identifier.name.upper()
