"""Functions on VARIANT, OBJECT and ARRAY: what a value is, what is in it, objects and arrays made of others.

Source: https://docs.snowflake.com/en/sql-reference/functions-semistructured and the page of each function.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import Expr, exp

from firn_local.snowflake.functions.macros import call
from firn_local.snowflake.functions.variants import is_variant, text
from firn_local.snowflake.sql.sql_errors import SYNTAX, compilation_error

_NUMBERS = ("INTEGER", "DECIMAL", "DOUBLE")
_KINDS: dict[str, tuple[str, ...]] = {
    "ARRAY": ("ARRAY",), "OBJECT": ("OBJECT",), "BOOLEAN": ("BOOLEAN",), "BINARY": ("BINARY",), "DATE": ("DATE",),
    "DATE_VALUE": ("DATE",), "TIME": ("TIME",), "CHAR": ("VARCHAR",), "VARCHAR": ("VARCHAR",), "INTEGER": ("INTEGER",),
    "DECIMAL": ("INTEGER", "DECIMAL"), "NUMBER": ("INTEGER", "DECIMAL"), "DOUBLE": _NUMBERS, "REAL": _NUMBERS,
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ",), "TIMESTAMP_LTZ": ("TIMESTAMP_LTZ", "TIMESTAMP_TZ"),
    "TIMESTAMP_TZ": ("TIMESTAMP_TZ",),
}  # fmt: skip
"""What IS_<type> takes and AS_<type> returns, by what TYPEOF tells."""
_RETURNED = {
    "BOOLEAN": "BOOLEAN", "BINARY": "BLOB", "DATE": "DATE", "TIME": "TIME", "CHAR": "TEXT", "VARCHAR": "TEXT",
    "INTEGER": "HUGEINT", "DOUBLE": "DOUBLE", "REAL": "DOUBLE", "TIMESTAMP_NTZ": "TIMESTAMP",
    "TIMESTAMP_LTZ": "TIMESTAMPTZ", "TIMESTAMP_TZ": "TIMESTAMPTZ",
}  # fmt: skip


def _bare(value: Expr) -> Expr:
    """The value that a cast to VARIANT wraps: JSON would forget that it was a date."""
    return value.this.copy() if isinstance(value, exp.ToVariant) else value.copy()


def type_of(node: Expr) -> Expr:
    """TYPEOF(v)."""
    return call("type_of", _bare(node.this))


def _is(kinds: tuple[str, ...], value: Expr) -> Expr:
    return exp.In(this=call("type_of", _bare(value)), expressions=[exp.Literal.string(kind) for kind in kinds])


def _is_kind(kind: str) -> Callable[[Expr], Expr]:
    return lambda node: exp.paren(_is(_KINDS[kind], _first(node)))


def _as_kind(kind: str) -> Callable[[Expr], Expr]:
    def as_kind(node: Expr) -> Expr:
        value, *sizes = node.expressions
        returned: Expr
        if kind in {"ARRAY", "OBJECT"}:
            returned = exp.cast(value.copy(), "JSON")
        elif kind in {"DECIMAL", "NUMBER"}:
            precision, scale = (*[size.name for size in sizes], "38", "0")[:2] if sizes else ("38", "0")
            returned = exp.cast(text(_bare(value)), exp.DataType.build(f"DECIMAL({precision}, {scale})"))
        else:
            to = exp.DataType.build(_RETURNED[kind], dialect="duckdb")
            returned = exp.cast(text(_bare(value)), to)
        return exp.Case(ifs=[exp.If(this=_is(_KINDS[kind], value), true=returned)])

    return as_kind


def _first(node: Expr) -> Expr:
    first: Expr = node.expressions[0] if isinstance(node, exp.Anonymous) else node.this
    return first


def is_null_value(node: Expr) -> Expr:
    """IS_NULL_VALUE(v): JSON null is TRUE, NULL is NULL."""
    return exp.paren(_is(("NULL_VALUE",), node.this))


def object_construct(node: exp.Struct | exp.JSONObject) -> Expr | None:
    """OBJECT_CONSTRUCT and `{...}` leave out NULL, OBJECT_CONSTRUCT_KEEP_NULL has it as JSON null; no key is NULL."""
    if any(each.is_star for each in node.expressions):
        return None  # fakesnow's
    pair = "kept_pair" if isinstance(node, exp.JSONObject) else "pair"
    pairs = [call(pair, _key(each.this), each.expression.copy()) for each in node.expressions]
    inside = exp.Anonymous(this="concat_ws", expressions=[exp.Literal.string(","), *pairs])
    parts = [exp.Literal.string("{"), *([inside] if pairs else []), exp.Literal.string("}")]
    return exp.cast(exp.Anonymous(this="concat", expressions=parts), "JSON")


def _key(key: Expr) -> Expr:
    return exp.Literal.string(key.name) if isinstance(key, exp.Identifier) else key.copy()


def object_insert(node: exp.ObjectInsert) -> Expr:
    """OBJECT_INSERT(o, key, value [, update])."""
    renews = node.args.get("update_flag") or exp.false()
    return call("object_insert", node.this, node.args["key"], node.args["value"], renews)


def _with_keys(name: str) -> Callable[[Expr], Expr]:
    """OBJECT_PICK and OBJECT_DELETE: keys, or an array of them."""

    def with_keys(node: Expr) -> Expr:
        value, *keys = node.expressions
        if not keys:
            raise compilation_error(SYNTAX, f"not enough arguments for function [{name.upper()}], expected 2, got 1")
        listed = call("strings", keys[0]) if is_variant(keys[0]) else exp.func("list_value", *keys)
        return call(name, value, listed)

    return with_keys


def array(node: exp.Array) -> Expr:
    """ARRAY_CONSTRUCT and `[...]`."""
    return exp.Anonymous(this="json_array", expressions=[each.copy() for each in node.expressions])


def compact_array(node: exp.ArrayConstructCompact) -> Expr:
    """ARRAY_CONSTRUCT_COMPACT: without NULL."""
    return call("array_compact", exp.Anonymous(this="json_array", expressions=[e.copy() for e in node.expressions]))


def concatenated(node: exp.ArrayConcat) -> Expr:
    """ARRAY_CAT(a, b)."""
    return call("array_cat", node.this, *node.expressions)


def intersection(node: exp.ArrayIntersect) -> Expr:
    """ARRAY_INTERSECTION(a, b)."""
    return call("array_intersection", *node.expressions)


def sorted_array(node: exp.SortArray) -> Expr:
    """ARRAY_SORT(a [, ascending [, nulls first]]): NULL is the largest value unless it is said."""
    ascends = node.args.get("asc") or exp.true()
    first = node.args.get("nulls_first")
    return call("array_sort", node.this, ascends, first if first is not None else exp.not_(ascends.copy()))


def zipped(node: exp.ArraysZip) -> Expr:
    """ARRAYS_ZIP: DuckDB's lists, made of the arrays."""
    node.set("expressions", [call("elements", each) for each in node.expressions])
    return exp.Anonymous(this="to_json", expressions=[node.copy()])


def _over_elements(node: Expr) -> Expr:
    """TRANSFORM and FILTER: DuckDB's functions over the elements of the array; an element is a VARIANT."""
    node.set("this", call("elements", node.this))
    function = node.args["expression"]
    if isinstance(node, exp.Transform) and isinstance(function.this, (exp.Add, exp.Sub, exp.Mul, exp.Div)):
        function.set("this", call("plain", function.this))
    return exp.Anonymous(this="to_json", expressions=[node.copy()])


def _reduced(node: exp.Reduce) -> Expr:
    node.set("this", call("elements", node.this))
    return node


def as_array(node: Expr) -> Expr:
    """A function of DuckDB whose list is an ARRAY."""
    return exp.Anonymous(this="to_json", expressions=[node.copy()])


def _args(name: str, *keys: str) -> Callable[[Expr], Expr]:
    """A macro with these arguments of the node."""
    return lambda node: call(name, *(node.args[key] for key in keys))


def _positional(name: str) -> Callable[[Expr], Expr]:
    return lambda node: call(name, *node.expressions)


def objects_of_arrays(node: Expr) -> Expr:
    """ARRAYS_TO_OBJECT(keys, values)."""
    keys, values = node.expressions
    return call("object_of", call("strings", keys), call("elements", values))


BY_NODE: dict[type[Expr], Callable[..., Expr | None]] = {
    exp.Typeof: type_of,
    exp.IsNullValue: is_null_value,
    exp.IsArray: lambda node: exp.paren(_is(("ARRAY",), node.this)),
    exp.Struct: object_construct,
    exp.JSONObject: object_construct,
    exp.JSONKeys: _args("object_keys", "this"),
    exp.ObjectInsert: object_insert,
    exp.GetIgnoreCase: _args("get_ignore_case", "this", "expression"),
    exp.Array: array,
    exp.ArrayConstructCompact: compact_array,
    exp.ArrayAppend: _args("array_append", "this", "expression"),
    exp.ArrayPrepend: _args("array_prepend", "this", "expression"),
    exp.ArrayConcat: concatenated,
    exp.ArrayCompact: _args("array_compact", "this"),
    exp.ArrayContains: _args("array_contains", "this", "expression"),
    exp.ArrayDistinct: _args("array_distinct", "this"),
    exp.ArrayExcept: _args("array_except", "this", "expression"),
    exp.ArrayIntersect: intersection,
    exp.ArrayInsert: _args("array_insert", "this", "position", "expression"),
    exp.ArrayMax: _args("array_max", "this"),
    exp.ArrayMin: _args("array_min", "this"),
    exp.ArrayPosition: _args("array_position", "this", "expression"),
    exp.ArrayRemove: _args("array_remove", "this", "expression"),
    exp.ArrayRemoveAt: _args("array_remove_at", "this", "position"),
    exp.ArraySlice: _args("array_slice", "this", "start", "end"),
    exp.SortArray: sorted_array,
    exp.ArrayReverse: _args("array_reverse", "this"),
    exp.ArrayToString: _args("array_to_string", "this", "expression"),
    exp.ArrayOverlaps: _args("arrays_overlap", "this", "expression"),
    exp.Flatten: _args("array_flatten", "this"),
    exp.ToArray: _args("array_of", "this"),
    exp.ArraysZip: zipped,
    exp.Transform: _over_elements,
    exp.ArrayFilter: _over_elements,
    exp.Reduce: _reduced,
    exp.GenerateSeries: as_array,
    exp.StrtokToArray: as_array,
}
BY_NAME: dict[str, Callable[[Expr], Expr | None]] = {
    **{f"IS_{kind}": _is_kind(kind) for kind in _KINDS},
    **{f"AS_{kind}": _as_kind(kind) for kind in _KINDS if kind != "DATE_VALUE"},
    "OBJECT_PICK": _with_keys("object_pick"),
    "OBJECT_DELETE": _with_keys("object_delete"),
    "ARRAYS_TO_OBJECT": objects_of_arrays,
    "ARRAY_CONTAINS": lambda node: call("array_contains", node.expressions[1], node.expressions[0]),
}
