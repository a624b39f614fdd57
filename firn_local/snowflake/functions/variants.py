"""Which expressions are VARIANTs as far as a tree tells, and such values as text or numbers where one is wanted.

Snowflake converts a VARIANT to the type of what it is compared or computed with; DuckDB would convert the other side to
JSON. A column may be of any type: that DuckDB decides as it plans. Source:
https://docs.snowflake.com/en/sql-reference/data-type-conversion and .../data-types-semistructured.
"""

from __future__ import annotations

from sqlglot import Expr, exp

from firn_local.snowflake.functions.macros import call, is_call

_T = exp.DataType.Type
TEXTS = exp.DataType.TEXT_TYPES
SEMI_STRUCTURED = {_T.VARIANT, _T.OBJECT, _T.ARRAY, _T.JSON}
_MAKES_VARIANT = (
    exp.JSONExtract, exp.GetExtract, exp.GetIgnoreCase, exp.ParseJSON, exp.ToVariant, exp.ArrayAgg, exp.ObjectAgg,
    exp.Struct, exp.JSONObject, exp.StarMap, exp.Array,
)  # fmt: skip
_CALLS = frozenset({
    "field", "get_ignore_case", "object_keys", "object_pick", "object_delete", "object_insert", "array_of",
    "array_sort", "array_max", "array_min", "array_append", "array_prepend", "array_cat", "array_compact",
    "array_distinct", "array_except", "array_intersection", "array_insert", "array_remove", "array_remove_at",
    "array_slice", "array_reverse", "array_flatten",
})  # fmt: skip
_FLATTENED = frozenset({"flatten_each", "flatten_all"})
_TEXT_LIKE = (exp.Concat, exp.DPipe, exp.Upper, exp.Lower, exp.Trim, exp.Substring)
_ANY_OF = (exp.Coalesce, exp.Case, exp.If, exp.Nullif, exp.Max, exp.Min, exp.AnyValue)


def is_variant(node: Expr) -> bool:
    """Whether it is surely a VARIANT, OBJECT or ARRAY."""
    if isinstance(node, exp.Paren):
        return is_variant(node.this)
    if isinstance(node, exp.Cast):
        return node.to.this in SEMI_STRUCTURED
    if isinstance(node, _ANY_OF):
        return any(is_variant(value) for value in _values_of(node))
    if isinstance(node, exp.Identifier):
        return _is_element(node)
    if isinstance(node, exp.Column):
        return _is_flattened(node)
    if isinstance(node, exp.Anonymous) and node.name == "json_array":
        return True
    return isinstance(node, _MAKES_VARIANT) or is_call(node, _CALLS)


def _values_of(node: Expr) -> list[Expr]:
    """What an expression may return as it is."""
    if isinstance(node, exp.Coalesce):
        return [node.this, *node.expressions]
    if isinstance(node, exp.If):
        return [each for each in (node.args.get("true"), node.args.get("false")) if each is not None]
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        return [each.args["true"] for each in node.args["ifs"]] + ([default] if default is not None else [])
    return [node.this]


def _is_element(name: exp.Identifier) -> bool:
    """Whether it is the parameter of a lambda function: an element of an array."""
    function = name.find_ancestor(exp.Lambda)
    return function is not None and any(each.name == name.name for each in function.expressions)


def _is_flattened(column: exp.Column) -> bool:
    """Whether it is VALUE or THIS of a FLATTEN of its query."""
    select = column.find_ancestor(exp.Select)
    if column.name.upper() not in {"VALUE", "THIS"} or select is None:
        return False
    sources = [join.this for join in select.args.get("joins") or []] + (select.args.get("laterals") or [])
    if (first := select.args.get("from_")) is not None:
        sources.append(first.this)
    flattened = [each for each in sources if is_call(each.this, _FLATTENED) or isinstance(each.this, exp.Explode)]
    return any(not column.table or column.table.upper() == each.alias_or_name.upper() for each in flattened)


def text(value: Expr) -> Expr:
    """The text of a value of any type; that of a VARIANT without quotes."""
    if isinstance(value, exp.JSONExtract) and isinstance(value.expression, exp.JSONPath):
        return exp.JSONExtractScalar(this=value.this.copy(), expression=value.expression.copy())
    return call("text", value.copy())


def as_type(value: Expr, kind: str) -> Expr:
    """A VARIANT as a value of a type."""
    return exp.cast(text(value), exp.DataType.build(kind, dialect="duckdb"))


def alike(value: Expr, other: Expr) -> Expr:
    """A VARIANT as it is compared with `other`; itself where nothing is known of that."""
    other = other.unnest()
    if isinstance(other, exp.Literal):
        return text(value) if other.is_string else as_type(value, "DECIMAL(38, 9)")
    if isinstance(other, exp.Boolean):
        return as_type(value, "BOOLEAN")
    if isinstance(other, _TEXT_LIKE):
        return text(value)
    if isinstance(other, exp.Neg):
        return alike(value, other.this)
    if type(other) is exp.Cast and other.to.this not in SEMI_STRUCTURED:
        return text(value) if other.to.this in TEXTS else exp.cast(text(value), other.to.copy())
    return value


def compared(node: exp.Binary) -> Expr | None:
    """A comparison with a VARIANT on one side; not what an UPDATE sets."""
    if isinstance(node.parent, exp.Update) and node.arg_key == "expressions":
        return None
    left, right = is_variant(node.left), is_variant(node.right)
    if left == right:
        return None
    if isinstance(node, (exp.EQ, exp.NEQ)) and isinstance(node.right if left else node.left, exp.Column):
        node.set("this", text(node.left))  # whatever type the column has
        node.set("expression", text(node.right))
        return node
    if left:
        node.set("this", alike(node.left, node.right))
    else:
        node.set("expression", alike(node.right, node.left))
    return node


def compared_with_all(node: exp.In | exp.Between) -> Expr | None:
    """IN and BETWEEN of a VARIANT."""
    others = node.expressions if isinstance(node, exp.In) else [node.args["low"]]
    if others and is_variant(node.this):
        node.set("this", alike(node.this, others[0]))
    return node


def computed(node: exp.Binary) -> Expr | None:
    """Arithmetic with a VARIANT, which is a number there."""
    for place in ("this", "expression"):
        if is_variant(node.args[place]):
            node.set(place, as_type(node.args[place], "DOUBLE"))
    return node


def joined(node: Expr) -> Expr | None:
    """`||`, CONCAT, LIKE and text functions of a VARIANT."""
    for key, value in list(node.args.items()):
        if isinstance(value, Expr) and is_variant(value):
            node.set(key, text(value))
        elif isinstance(value, list):
            node.set(key, [text(each) if isinstance(each, Expr) and is_variant(each) else each for each in value])
    return node


def ordered(node: exp.Ordered) -> Expr | None:
    """ORDER BY a VARIANT: numbers as numbers, in front of texts."""
    select = node.find_ancestor(exp.Select)
    if not is_variant(node.this) or (select is not None and select.args.get("distinct")):
        return None
    node.set("this", rank(node.this))
    return node


def rank(value: Expr) -> Expr:
    """What VARIANTs are ordered by."""
    number = exp.TryCast(this=text(value), to=exp.DataType.build("DOUBLE"))
    return exp.func("row", number, text(value))


def extreme(node: exp.Max | exp.Min) -> Expr | None:
    """MAX and MIN of a VARIANT."""
    if not is_variant(node.this):
        return None
    return exp.Anonymous(
        this="max_by" if isinstance(node, exp.Max) else "min_by", expressions=[node.this.copy(), rank(node.this)]
    )
