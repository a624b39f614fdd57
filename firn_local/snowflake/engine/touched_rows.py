"""Which rows of its table an UPDATE, DELETE or MERGE may touch, found before it runs: for the log of tracked tables.

Never too few: where the same condition could come out otherwise a second time (RANDOM, LIMIT, window functions), or
holds bound values, all rows count as touched. Too many cost time only.
"""

from __future__ import annotations

from sqlglot import Expr, exp

from firn_local.snowflake.sql.statement import Statement

_UNSURE = (exp.Placeholder, exp.Parameter, exp.Limit, exp.Fetch, exp.TableSample, exp.Window, exp.Rand, exp.Uuid)
_VOLATILE = {"RANDOM", "UNIFORM", "RANDSTR", "UUID_STRING", "NEXTVAL", "SEQ1", "SEQ2", "SEQ4", "SEQ8", "NORMAL"}


def query(statement: Statement) -> exp.Select | None:
    """A query for the DuckDB rowids of the rows; None for all of them."""
    change = statement.expression
    target = change.this
    if not isinstance(target, exp.Table) or change.args.get("with_") is not None or _is_unsure(change):
        return None
    match change:
        case exp.Update():
            from_ = change.args.get("from_")
            return _where(target, [from_.this] if from_ is not None else [], change.args.get("where"))
        case exp.Delete():
            return _where(target, change.args.get("using") or [], change.args.get("where"))
        case exp.Merge():
            using = change.args["using"]
            return _where(target, [using], exp.Where(this=change.args["on"]))
    return None


def updates(statement: Statement) -> bool:
    """Whether rows may stay and change."""
    return isinstance(statement.expression, (exp.Update, exp.Merge))


def set_columns(statement: Statement) -> frozenset[str]:
    """The quoted names of the columns that an UPDATE sets; none for another statement."""
    change = statement.expression
    if not isinstance(change, exp.Update):
        return frozenset()
    set_ = [each.this for each in change.expressions if isinstance(each, exp.EQ)]
    named = (column.this for column in set_ if isinstance(column, exp.Column))
    return frozenset(f'"{name.name if name.quoted else name.name.upper()}"' for name in named)


def _where(target: exp.Table, sources: list[Expr], where: exp.Where | None) -> exp.Select | None:
    if where is None:
        return None
    rows = exp.Select(expressions=[exp.column("ROWID", table=target.alias_or_name)]).from_(target.copy())
    if not sources:
        return rows.where(where.this.copy())
    matching = exp.Select(expressions=[exp.Literal.number(1)]).from_(sources[0].copy())
    for source in sources[1:]:
        matching = matching.join(source.copy(), join_type="cross")
    return rows.where(exp.Exists(this=matching.where(where.this.copy())))


def _is_unsure(change: Expr) -> bool:
    if change.find(*_UNSURE) is not None:
        return True
    return any(function.name.upper() in _VOLATILE for function in change.find_all(exp.Anonymous))
