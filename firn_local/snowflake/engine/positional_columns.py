"""Columns by their position (`$1`, `t.$2`) in queries on tables, and paths into them (`$1:a.b`, `$1['x']`).

Source: https://docs.snowflake.com/en/sql-reference/sql/select ($<n>) and
https://docs.snowflake.com/en/user-guide/querying-semistructured (traversing). Not for COPY from a
stage or TABLE(DATA_SOURCE(...)): there `$1` is a whole row of the file or stream.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import Expr, exp

from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.sql.sql_errors import INVALID_IDENTIFIER, compilation_error
from firn_local.snowflake.sql.statement import Statement

_COLUMN = (
    "SELECT column_name FROM duckdb_columns() "
    "WHERE database_name = ? AND schema_name = ? AND table_name = ? ORDER BY column_index LIMIT 1 OFFSET ?"
)
_SCOPES = (exp.Select, exp.Update, exp.Delete)


def named(session: Session, expression: Expr) -> Expr:
    """The statement (changed in place) with the names of the columns that it gives by position."""
    if isinstance(expression, (exp.Copy, exp.Command)):
        return expression
    for parameter in list(expression.find_all(exp.Parameter)):
        if isinstance(parameter.this, exp.Literal) and parameter.this.is_int and not _is_streamed(parameter):
            column = parameter.parent if isinstance(parameter.parent, exp.Column) else None
            (column or parameter).replace(_named(session, parameter, column.table if column else ""))
    return expression


def paths(expression: Expr) -> Expr:
    """The statement (changed in place) with `x['a'][0]` as the path `x:a[0]`: a cast then sees text as text."""
    for bracket in list(expression.find_all(exp.Bracket)):
        step = _step(bracket)
        if step is None:
            continue
        of = bracket.this
        if isinstance(of, exp.JSONExtract) and isinstance(of.expression, exp.JSONPath):
            of.expression.append("expressions", step)
            bracket.replace(of)
        else:
            path = exp.JSONPath(expressions=[exp.JSONPathRoot(), step])
            bracket.replace(exp.JSONExtract(this=of.copy(), expression=path, variant_extract=True, requires_json=True))
    return expression


def _step(bracket: exp.Bracket) -> Expr | None:
    index = bracket.expressions[0] if len(bracket.expressions) == 1 else None
    if not isinstance(index, exp.Literal):
        return None
    return (
        exp.JSONPathKey(this=index.name, quoted=True) if index.is_string else exp.JSONPathSubscript(this=index.to_py())
    )


def _is_streamed(parameter: exp.Parameter) -> bool:
    scope = parameter.find_ancestor(*_SCOPES)
    return any(isinstance(source, exp.TableFromRows) for source in (_sources(scope) if scope is not None else ()))


def _named(session: Session, parameter: exp.Parameter, qualifier: str) -> exp.Column:
    number = int(parameter.this.name)
    scope = parameter.find_ancestor(*_SCOPES)
    for source in _sources(scope) if scope is not None else ():
        if qualifier and source.alias_or_name.upper() != qualifier.upper():
            continue
        if name := _column(session, source, number):
            return exp.column(exp.to_identifier(name, quoted=True), _alias(source))
        break
    raise compilation_error(INVALID_IDENTIFIER, f"error line 1 at position 0\ninvalid identifier '${number}'")


def _alias(source: Expr) -> exp.Identifier | None:
    """What a source is called in its query; None for one without a name."""
    alias = source.args.get("alias")
    found = alias.this if isinstance(alias, exp.TableAlias) and alias.this else source.this
    return found.copy() if isinstance(found, exp.Identifier) else None


def _sources(scope: Expr) -> Iterator[Expr]:
    """What the rows come from, in order; Snowflake counts from the first one where a position is not qualified."""
    from_ = scope.args.get("from_")
    if from_ is not None:
        yield from_.this
    elif isinstance(scope.this, exp.Table):
        yield scope.this
    for join in scope.args.get("joins") or []:
        yield join.this


def _column(session: Session, source: Expr, number: int) -> str | None:
    if isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier):
        query = _cte(source)
        if query is not None:
            return _projected(query, number)
        place = Statement("", source, session.database, session.schema).full_name(source).split(".", 2)
        if place[:2] == ["TEMP", "MAIN"]:  # where `temporary_objects` has pointed it to
            place[:2] = ["temp", "main"]
        rows = session.duck.execute(_COLUMN, [*place, number - 1]).fetchall()
        return str(rows[0][0]) if rows else None
    if isinstance(source, exp.Subquery):
        return _projected(source.this, number)
    return f"COLUMN{number}" if isinstance(source, exp.Values) else None


def _cte(table: exp.Table) -> Expr | None:
    """The query of the common table expression that a name stands for."""
    inside: Expr | None = table
    while not table.db and inside is not None:
        with_ = inside.args.get("with_")
        for cte in with_.expressions if with_ is not None else []:
            if cte.alias.upper() == table.name.upper():
                query: Expr = cte.this
                return query
        inside = inside.parent
    return None


def _projected(query: Expr, number: int) -> str | None:
    """The name of a query's column; one without a name of its own cannot be given by position here."""
    if not isinstance(query, exp.Query):
        return None
    names = query.named_selects
    name = names[number - 1] if number <= len(names) else ""
    if name in ("", "*"):
        return None
    selected = query.selects[number - 1]
    return name if _quoted(selected) else name.upper()


def _quoted(selected: Expr) -> bool:
    alias = selected.args.get("alias") if isinstance(selected, exp.Alias) else selected.this
    return isinstance(alias, exp.Identifier) and bool(alias.quoted)
