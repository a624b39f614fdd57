"""Aggregates that DuckDB has otherwise: ARRAY_AGG, ARRAY_UNIQUE_AGG, LISTAGG; HASH and HASH_AGG.

ARRAY_AGG leaves NULL out, and an empty group gives an empty array; LISTAGG of an empty group gives an empty text.
Source: https://docs.snowflake.com/en/sql-reference/functions/array_agg, array_unique_agg, listagg, hash, hash_agg. The
values of HASH are DuckDB's: equal for equal values, and others than Snowflake's.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import Expr, exp

from firn_local.snowflake.functions.macros import call
from firn_local.snowflake.functions.variants import as_type, is_variant, text


def array_agg(node: exp.ArrayAgg) -> Expr | None:
    """ARRAY_AGG([DISTINCT] x) [WITHIN GROUP (ORDER BY ...)] [OVER (...)]."""
    outer, order = _around(node)
    value = node.this
    named = value.expressions[0] if isinstance(value, exp.Distinct) else value
    listed: Expr = value.copy()
    if order is not None:
        listed = exp.Order(this=listed, expressions=[each.copy() for each in order.expressions])
    present = exp.Where(this=exp.not_(exp.Is(this=named.copy(), expression=exp.null())))
    aggregate: Expr = exp.Filter(this=exp.Anonymous(this="list", expressions=[listed]), expression=present)
    if isinstance(outer, exp.Window):
        outer.set("this", aggregate)
        aggregate = outer.copy()
    empty = exp.cast(exp.Literal.string("[]"), "JSON")
    made = exp.func("coalesce", exp.Anonymous(this="to_json", expressions=[aggregate]), empty)
    return _replaced(node, outer, made)


def array_unique_agg(node: exp.ArrayUniqueAgg) -> Expr:
    """ARRAY_UNIQUE_AGG(x)."""
    return array_agg(exp.ArrayAgg(this=exp.Distinct(expressions=[node.this.copy()]))) or node


def listagg(node: exp.GroupConcat) -> Expr | None:
    """LISTAGG: '' for no rows; its values are texts."""
    outer, order = _around(node)
    value = node.this
    if isinstance(value, exp.Order):
        value.set("this", _text_of(value.this))
    else:
        node.set("this", _text_of(value))
    if order is not None:
        node.set("this", exp.Order(this=node.this, expressions=[each.copy() for each in order.expressions]))
    aggregate: Expr = node.copy()
    if isinstance(outer, exp.Window):
        outer.set("this", aggregate)
        aggregate = outer.copy()
    return _replaced(node, outer, exp.func("coalesce", aggregate, exp.Literal.string("")))


def _text_of(value: Expr) -> Expr:
    if isinstance(value, exp.Distinct):  # an order must name the same expression, so only what is surely no text
        return exp.Distinct(expressions=[text(each) if is_variant(each) else each for each in value.expressions])
    return text(value)


def _around(node: Expr) -> tuple[Expr, exp.Order | None]:
    """The outermost of WITHIN GROUP and OVER around an aggregate, and its order."""
    outer, order = node, None
    if isinstance(outer.parent, exp.WithinGroup):
        outer = outer.parent
        order = outer.args["expression"]
    if isinstance(outer.parent, exp.Window) and outer.arg_key == "this":
        outer = outer.parent
    return outer, order


def _replaced(node: Expr, outer: Expr, made: Expr) -> Expr | None:
    """`made` for the aggregate; it takes the place of what stands around it too."""
    if outer is node:
        return made
    outer.replace(made)
    return None


def hash_of(node: Expr) -> Expr:
    """HASH(x [, ...]) or HASH(*): a signed number of 64 bits, never NULL."""
    return call("signed", _hash(node.expressions))


def hash_agg(node: Expr) -> Expr:
    """HASH_AGG: the same whatever the order of the rows; 0 for none."""
    values = node.expressions if isinstance(node, exp.Anonymous) else [node.this, *node.expressions]
    total = exp.Sum(this=exp.cast(_hash(values), exp.DataType.build("INT128")))
    return exp.func("coalesce", exp.cast(total % exp.Literal.number(2**62), "BIGINT"), exp.Literal.number(0))


def _hash(values: list[Expr]) -> Expr:
    """Of each value, then of these hashes; DuckDB's UNPACK makes arguments of the columns of a star."""
    hashed: list[Expr] = []
    for value in values:
        if value.is_star:
            columns = exp.Anonymous(this="columns", expressions=[value.copy()])
            hashed.append(exp.Anonymous(this="unpack", expressions=[call("hashed", columns)]))
        else:
            hashed.append(call("hashed", value.copy()))
    return exp.Anonymous(this="hash", expressions=hashed)


def md5(node: Expr) -> Expr:
    """MD5 and SHA of any value: of its text."""
    if not isinstance(node.this, exp.Literal):
        node.set("this", text(node.this))
    elif not node.this.is_string:
        node.set("this", exp.Literal.string(node.this.name))
    return node


def total(node: exp.Sum) -> Expr:
    """SUM keeps the type of its numbers; fakesnow would make FLOAT of all."""
    value = as_type(node.this, "DOUBLE") if is_variant(node.this) else node.this.copy()
    return exp.Anonymous(this="sum", expressions=[value])


BY_NODE: dict[type[Expr], Callable[..., Expr | None]] = {
    exp.ArrayAgg: array_agg,
    exp.ArrayUniqueAgg: array_unique_agg,
    exp.GroupConcat: listagg,
    exp.HashAgg: hash_agg,
    exp.Sum: total,
    exp.MD5: md5,
    exp.SHA: md5,
    exp.SHA2: md5,
}
BY_NAME: dict[str, Callable[[Expr], Expr | None]] = {"HASH": hash_of, "HASH_AGG": hash_agg}
