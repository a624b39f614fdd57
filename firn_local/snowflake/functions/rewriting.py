"""The pass over a statement's tree that puts DuckDB's expressions in the place of Snowflake's functions.

What each function becomes is in the other modules, by node or by name. A column of a query keeps the name that
Snowflake gives it: the text of its expression in upper case.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import Expr, exp

from firn_local.snowflake.functions import aggregates, conversions, dates, flatten, semi_structured, texts, variants

Rewrite = Callable[..., Expr | None]
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Mod)
_OF_TEXTS = (
    exp.DPipe, exp.Concat, exp.ConcatWs, exp.Like, exp.ILike, exp.Upper, exp.Lower, exp.Initcap, exp.Trim, exp.Length,
    exp.RegexpLike, exp.RegexpReplace, exp.RegexpExtract, exp.Replace, exp.Substring, exp.Left, exp.Right, exp.Split,
    exp.SplitPart, exp.StartsWith, exp.EndsWith, exp.Contains, exp.StrPosition, exp.Pad,
)  # fmt: skip
_BY_NODE: dict[type[Expr], Rewrite] = {
    **dict.fromkeys(_COMPARISONS, variants.compared),
    **dict.fromkeys((exp.In, exp.Between), variants.compared_with_all),
    **dict.fromkeys(_ARITHMETIC, variants.computed),
    **dict.fromkeys(_OF_TEXTS, variants.joined),
    **dict.fromkeys((exp.Max, exp.Min), variants.extreme),
    exp.Ordered: variants.ordered,
    **semi_structured.BY_NODE,
    **aggregates.BY_NODE,
    **flatten.BY_NODE,
    **conversions.BY_NODE,
    **dates.BY_NODE,
    **texts.BY_NODE,
}
_BY_NAME: dict[str, Rewrite] = {**semi_structured.BY_NAME, **aggregates.BY_NAME, **conversions.BY_NAME}


def rewritten(tree: Expr) -> Expr:
    """The tree (changed in place) with functions as DuckDB has them; of DDL only the query of a table or view."""
    if isinstance(tree, (exp.Create, exp.Alter)):
        query = tree.args.get("expression")
        if isinstance(tree, exp.Create) and isinstance(query, exp.Query):
            tree.set("expression", _rewritten(query))
        return tree
    return _rewritten(tree)


def _rewritten(tree: Expr) -> Expr:
    """What is inside comes first."""
    found = [(node, rewrite) for node in tree.walk(bfs=False) if (rewrite := _rewrite_of(node)) is not None]
    names = _names_of_columns(node for node, _ in found)
    for node, rewrite in reversed(found):
        new = rewrite(node)
        if new is not None and new is not node:
            if node is tree:
                tree = new
            else:
                node.replace(new)
    for select, index, name in names:
        column = select.expressions[index]
        if not isinstance(column, (exp.Alias, exp.Column)):
            column.replace(exp.alias_(column.copy(), name, quoted=True))
    return tree


def _rewrite_of(node: Expr) -> Rewrite | None:
    if isinstance(node, exp.Anonymous):
        return _BY_NAME.get(node.name.upper())
    return _BY_NODE.get(type(node))


def _names_of_columns(nodes: Iterable[Expr]) -> list[tuple[exp.Select, int, str]]:
    """(query, position, name) of the columns without a name of their own in which one of the nodes stands."""
    names: dict[tuple[int, int], tuple[exp.Select, int, str]] = {}
    for node in nodes:
        inside = node
        while inside.parent is not None and not (
            isinstance(inside.parent, exp.Select) and inside.arg_key == "expressions"
        ):
            inside = inside.parent
        select = inside.parent
        if isinstance(select, exp.Select) and not isinstance(inside, exp.Alias) and inside.index is not None:
            key = (id(select), inside.index)
            if key not in names:
                names[key] = (select, inside.index, inside.sql(dialect="snowflake").upper())
    return list(names.values())
