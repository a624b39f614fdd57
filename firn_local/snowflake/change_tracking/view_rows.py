"""A view's query with a name for each of its rows, made of the names of the rows that it comes from.

What a stream on a view may be: projections, filters, inner and cross joins, UNION ALL, subqueries in FROM, and views of
such. Source: https://docs.snowflake.com/en/user-guide/streams-intro (streams on views). Works on DuckDB's text of the
view, in which names without a schema are the view's neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import duckdb
import sqlglot
from sqlglot import Expr, exp

from firn_local.snowflake.sql.sql_errors import UNSUPPORTED, compilation_error
from firn_local.snowflake.store.table_annotations import Place

ID = "$id"
_VIEW = "SELECT sql FROM duckdb_views() WHERE database_name = ? AND schema_name = ? AND view_name = ?"
_CLAUSES = {
    "group": "GROUP BY", "having": "HAVING", "qualify": "QUALIFY", "distinct": "DISTINCT", "limit": "LIMIT",
    "offset": "OFFSET", "windows": "WINDOW", "laterals": "LATERAL", "pivots": "PIVOT",
}  # fmt: skip
RowsOf = Callable[[Place], str]
"""The quoted name of something that has `$id` and the columns of a table."""


class ViewRows:
    """Reads views by a connection and rewrites their queries."""

    def __init__(self, conn: duckdb.DuckDBPyConnection) -> None:
        self._conn = conn

    def query(self, view: Place) -> exp.Query | None:
        """The query of a view with full names and without common table expressions; None if there is no such view."""
        found = self._conn.execute(_VIEW, list(view)).fetchall()
        if not found:
            return None
        create = sqlglot.parse_one(found[0][0], read="duckdb")
        query = create.expression
        if not isinstance(query, exp.Query):
            raise _refused("its text")
        return self._named(query, view, {})

    def bases(self, view: Place) -> list[Place]:
        """The tables whose rows a view has, each once, in the order of its text. Raises where no stream may be."""
        found: list[Place] = []

        def remember(table: Place) -> str:
            found.append(table)
            return '"x"'

        self.with_ids(view, remember)
        return list(dict.fromkeys(found))

    def with_ids(self, view: Place, rows_of: RowsOf) -> str:
        """The view's query over other tables, with a column `$id` in front."""
        query = self.query(view)
        if query is None:
            raise _refused("an object that is no view")
        return self._identified(query, rows_of).sql(dialect="duckdb")

    def _named(self, query: exp.Query, view: Place, around: dict[str, exp.Query]) -> exp.Query:
        """`query` (changed in place) with CTEs put in where they are named, and full names."""
        known = dict(around)
        if (clause := query.args.get("with_")) is not None:
            if clause.recursive:
                raise _refused("a recursive common table expression")
            for cte in clause.expressions:
                known[cte.alias.upper()] = self._named(cte.this, view, known)
            query.set("with_", None)
        for select in query.find_all(exp.Select):
            _unwrap_joins(select)
        for table in list(query.find_all(exp.Table)):
            if not isinstance(table.this, exp.Identifier):
                raise _refused("a table function")
            if not table.db and (cte_query := known.get(table.name.upper())) is not None:
                alias = exp.TableAlias(this=exp.to_identifier(table.alias_or_name, quoted=True))
                table.replace(exp.Subquery(this=cte_query.copy(), alias=alias))
            else:
                _qualify(table, view)
        return query

    def _identified(self, query: Expr, rows_of: RowsOf) -> exp.Query:
        if isinstance(query, exp.Subquery):
            return self._identified(query.unnest(), rows_of)
        if isinstance(query, exp.Union):
            return self._union(query, rows_of)
        if not isinstance(query, exp.Select):
            raise _refused(type(query).__name__.upper())
        _check(query)
        names = []
        for number, source in enumerate(_sources(query)):
            name = f"$id{number}"
            source.replace(self._source(source, name, rows_of))
            names.append(name)
        _hide(query, names)
        parts = [exp.column(exp.to_identifier(name, quoted=True)) for name in names]
        together = parts[0] if len(parts) == 1 else exp.func("CONCAT_WS", exp.Literal.string("/"), *parts)
        query.set("expressions", [exp.alias_(together, ID, quoted=True), *query.expressions])
        return query

    def _union(self, union: exp.Union, rows_of: RowsOf) -> exp.Query:
        if union.args.get("distinct"):
            raise _refused("UNION without ALL")
        sides = []
        for number, side in enumerate((union.left, union.right)):
            inner = self._identified(side.copy(), rows_of).sql(dialect="duckdb")
            sides.append(f'SELECT \'{number}|\' || "{ID}" AS "{ID}", * EXCLUDE ("{ID}") FROM ({inner})')
        return sqlglot.parse_one(" UNION ALL ".join(sides), read="duckdb")  # type: ignore[return-value]

    def _source(self, source: Expr, name: str, rows_of: RowsOf) -> Expr:
        alias = source.alias_or_name
        if isinstance(source, exp.Table):
            place = (source.catalog, source.db, source.name)
            nested = self.query(place)
            inner = self._identified(nested, rows_of).sql(dialect="duckdb") if nested is not None else None
        elif isinstance(source, exp.Subquery):
            inner = self._identified(source.unnest(), rows_of).sql(dialect="duckdb")
        else:
            raise _refused(type(source).__name__.upper())
        rows = f"({inner})" if inner is not None else rows_of(place)
        text = f'SELECT "{ID}" AS "{name}", * EXCLUDE ("{ID}") FROM {rows}'
        columns = source.args["alias"].args.get("columns") if source.args.get("alias") else None
        if columns:
            raise _refused("names of columns behind a table's alias")
        return exp.Subquery(
            this=sqlglot.parse_one(text, read="duckdb"),
            alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)) if alias else None,
        )


def _unwrap_joins(select: exp.Select) -> None:
    """`FROM (a JOIN b ...)`, as DuckDB writes joins, as `FROM a JOIN b ...` (changed in place)."""
    from_ = select.args.get("from_")
    while from_ is not None and isinstance(from_.this, exp.Subquery) and not from_.this.alias:
        inner = from_.this.this
        if not isinstance(inner, (exp.Table, exp.Subquery)):
            return
        joins = inner.args.get("joins") or []
        outer = from_.this.args.get("joins") or []
        inner.set("joins", None)
        from_.set("this", inner)
        select.set("joins", [*joins, *outer, *(select.args.get("joins") or [])])


def _qualify(table: exp.Table, view: Place) -> None:
    if not table.db:
        table.set("db", exp.to_identifier(view[1], quoted=True))
    if not table.catalog:
        table.set("catalog", exp.to_identifier(view[0], quoted=True))


def _sources(query: exp.Select) -> Iterator[Expr]:
    from_ = query.args.get("from_")
    if from_ is None:
        raise _refused("a query without FROM")
    yield from_.this
    for join in query.args.get("joins") or []:
        if join.side or join.kind.upper() not in {"", "INNER", "CROSS"}:
            raise _refused(f"{join.side} {join.kind}".strip().upper() + " JOIN")
        yield join.this


def _check(query: exp.Select) -> None:
    """Refuse what streams on views do not support."""
    for key, clause in _CLAUSES.items():
        if query.args.get(key):
            raise _refused(clause)
    outside = [*query.expressions, query.args.get("where"), *(j.args.get("on") for j in query.args.get("joins") or [])]
    for tree in outside:
        if tree is None:
            continue
        if tree.find(exp.Query) is not None:
            raise _refused("a subquery outside of FROM")
        if tree.find(exp.AggFunc, exp.Window) is not None:
            raise _refused("an aggregate or window function")


def _hide(query: exp.Select, names: list[str]) -> None:
    """`*` and `t.*` stand for what they did."""
    for number, selected in enumerate(query.expressions):
        star = selected if isinstance(selected, exp.Star) else selected.this
        if isinstance(star, exp.Star):
            qualifier = selected.table if isinstance(selected, exp.Column) else ""
            hidden = names if not qualifier else _of_source(query, qualifier, names)
            old = star.args.get("except_") or []
            star.set("except_", [*old, *(exp.column(exp.to_identifier(name, quoted=True)) for name in hidden)])
            query.expressions[number] = selected


def _of_source(query: exp.Select, qualifier: str, names: list[str]) -> list[str]:
    with suppress(StopIteration):
        sources = list(_sources(query))
        at = next(i for i, source in enumerate(sources) if source.alias_or_name.upper() == qualifier.upper())
        return [names[at]]
    return []


def _refused(what: str) -> Exception:
    return compilation_error(UNSUPPORTED, f"Change tracking is not supported on views with {what}.")
