"""Casts, TO_ and TRY_TO_ functions: VARIANTs by their value, numbers rounded half away from zero, times of numbers.

Source: https://docs.snowflake.com/en/sql-reference/data-type-conversion, functions/to_timestamp, to_date, to_decimal,
try_cast, and date-time-input-output (of the formats that are found without being named, the common ones).
"""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import Expr, exp

from firn_local.snowflake.functions.macros import call
from firn_local.snowflake.functions.variants import SEMI_STRUCTURED, TEXTS, is_variant, text
from firn_local.snowflake.sql.sql_errors import unsupported

_T = exp.DataType.Type
_WHOLE = {_T.INT, _T.BIGINT, _T.SMALLINT, _T.TINYINT, _T.INT128}
_CLOCKS = {_T.TIMESTAMP, _T.TIMESTAMPNTZ, _T.DATETIME}
_ZONED = {_T.TIMESTAMPTZ, _T.TIMESTAMPLTZ}
_FLOATS = {_T.FLOAT, _T.DOUBLE}
_GROUPED = re.compile(r"\$?[9,0.GD]+")
# Elements of date formats in those cases that sqlglot leaves as they are.
_ELEMENTS = {"MMMM": "%B", "MON": "%b", "DY": "%a", "AM": "%p", "PM": "%p"}
_ELEMENT = re.compile(r"(?<!%)(MMMM|MON|DY|AM|PM)", re.IGNORECASE)


def cast(node: exp.Cast) -> Expr | None:
    """CAST, `::` and TRY_CAST."""
    kind = node.to.this
    tries = "try_" if isinstance(node, exp.TryCast) else ""
    if kind in SEMI_STRUCTURED or isinstance(node.this, (exp.Null, exp.Placeholder)):
        return None
    if kind in {*_CLOCKS, *_ZONED, _T.DATE}:
        return _moment(node.this, "day" if kind is _T.DATE else "zoned" if kind in _ZONED else "moment", tries=tries)
    if kind in TEXTS:
        return _text_cast(node)
    return _whole(node) if kind in _WHOLE and not tries else _plain(node)


def _text_cast(node: exp.Cast) -> Expr | None:
    if is_variant(node.this) or isinstance(node.this, exp.Column):
        node.set("this", text(node.this))
    return None


def _plain(node: exp.Cast) -> Expr | None:
    """A cast to another type. Whether a column is a VARIANT is known as DuckDB plans."""
    if is_variant(node.this):
        node.set("this", text(node.this))
    elif isinstance(node.this, exp.Column):
        of_text = node.copy()
        of_text.set("this", call("text", node.this.copy()))
        is_json = exp.Anonymous(this="typeof", expressions=[node.this.copy()]).eq(exp.Literal.string("JSON"))
        return exp.Case(ifs=[exp.If(this=is_json, true=of_text)], default=node.copy())
    return None


def _whole(node: exp.Cast) -> Expr | None:
    """A cast to whole numbers: half away from zero, also from FLOAT, which DuckDB rounds to the even number."""
    value = node.this.unnest()
    if isinstance(value, exp.Column):
        node.set("this", call("rounded", value))
    elif is_variant(value):
        node.set("this", text(value))
    elif isinstance(value, (exp.Div, exp.Mul, exp.Avg)) or (isinstance(value, exp.Cast) and value.to.this in _FLOATS):
        node.set("this", exp.Anonymous(this="round", expressions=[value.copy()]))
    if node.to.this is _T.INT128 and not isinstance(value, exp.Literal):
        return call("within", node.copy())
    return None


def _moment(value: Expr, kind: str, *, tries: str, scale: Expr | None = None) -> Expr:
    """TO_<kind> or TRY_TO_<kind> of a value; `tries`: what the names of macros that try begin with, or nothing."""
    is_literal = isinstance(value, exp.Literal)
    if scale is None and not (is_literal and not value.is_string):
        if not is_literal:
            return call(f"{tries}to_{kind}", value)
        # The type of a literal is known; DuckDB would evaluate its other casts beforehand.
        function = f"{tries}zoned" if kind == "zoned" else f"{tries}moment"
        made = call(function, value if kind == "zoned" else call("clock", value))
    else:
        number = exp.cast(text(value), exp.DataType.build("DECIMAL(38, 9)"))
        made = call("of_number", number, scale.copy() if scale is not None else exp.Literal.number(0))
    return exp.cast(made, {"zoned": _T.TIMESTAMPTZ, "day": _T.DATE, "moment": _T.TIMESTAMP}[kind])


def of_number(node: exp.UnixToTime) -> Expr | None:
    """TO_TIMESTAMP[_x](value [, scale])."""
    kind = "zoned" if _is_zoned(node) else "moment"
    return _moment(node.this, kind, tries="", scale=node.args.get("scale"))


def _is_zoned(node: Expr) -> bool:
    target = node.args.get("target_type")
    return target is not None and target.this in _ZONED


def of_format(node: exp.StrToTime) -> Expr:
    """TO_TIMESTAMP[_x](text, format) and TRY_TO_TIMESTAMP[_x]."""
    name = "try_strptime" if node.args.get("safe") else "strptime"
    return exp.cast(_parsed(node, name), _T.TIMESTAMPTZ if _is_zoned(node) else _T.TIMESTAMP)


def _parsed(node: Expr, name: str) -> Expr:
    return exp.Anonymous(this=name, expressions=[text(node.this), _format(node.args["format"])])


def _format(value: Expr) -> Expr:
    """A format with the elements that sqlglot does not know."""
    if not isinstance(value, exp.Literal):
        raise unsupported("a format that is not a constant text")
    return exp.Literal.string(_ELEMENT.sub(lambda found: _ELEMENTS[found[1].upper()], value.name))


def to_day(node: exp.TsOrDsToDate) -> Expr | None:
    """TO_DATE, DATE, TRY_TO_DATE."""
    if node.args.get("format"):
        return exp.cast(_parsed(node, "try_strptime" if node.args.get("safe") else "strptime"), _T.DATE)
    return _moment(node.this, "day", tries="try_" if node.args.get("safe") else "")


def to_number(node: exp.ToNumber) -> Expr | None:
    """TO_NUMBER and TRY_TO_NUMBER: a format may say where `$` and `,` stand."""
    given = node.args.get("format")
    if given is not None and given.is_string:
        if not _GROUPED.fullmatch(given.name):
            raise unsupported(f"TO_NUMBER(..., '{given.name}')", "formats other than of 9, 0, $, comma and point")
        plain = exp.Anonymous(
            this="regexp_replace",
            expressions=[text(node.this), *map(exp.Literal.string, ("[$,]", "", "g"))],
        )
        node.set("this", plain)
        node.set("format", None)
    elif is_variant(node.this) or isinstance(node.this, exp.Column):
        node.set("this", text(node.this))
    return node


def _named(kind: str, tries: str = "") -> Callable[[Expr], Expr | None]:
    """A function that sqlglot does not know by its name."""

    def named(node: Expr) -> Expr | None:
        value, *rest = node.expressions
        return _moment(value, kind, tries=tries, scale=rest[0] if rest else None)

    return named


def of_text(node: Expr) -> Expr | None:
    """A conversion that takes the text of a VARIANT."""
    if is_variant(node.this) or isinstance(node.this, exp.Column):
        node.set("this", text(node.this))
    return None


def divided(node: exp.Div) -> Expr | None:
    """Division by zero is an error."""
    divisor = node.expression.unnest()
    if (isinstance(divisor, exp.Literal) and divisor.name.strip("0.")) or isinstance(divisor, exp.Nullif):
        return None
    node.set("expression", call("divisor", node.expression))
    return None


BY_NODE: dict[type[Expr], Callable[..., Expr | None]] = {
    exp.Cast: cast,
    exp.TryCast: cast,
    exp.UnixToTime: of_number,
    exp.StrToTime: of_format,
    exp.TsOrDsToDate: to_day,
    exp.ToNumber: to_number,
    exp.ToDouble: of_text,
    exp.ToBoolean: of_text,
    exp.TsOrDsToTime: of_text,
    exp.Div: divided,
}
BY_NAME: dict[str, Callable[[Expr], Expr | None]] = {
    **{f"TO_TIMESTAMP{suffix}": _named("moment") for suffix in ("", "_NTZ")},
    **{f"TRY_TO_TIMESTAMP{suffix}": _named("moment", "try_") for suffix in ("", "_NTZ")},
    "TO_DATE": _named("day"),
    "TRY_TO_DATE": _named("day", "try_"),
    **{f"TO_TIMESTAMP{suffix}": _named("zoned") for suffix in ("_LTZ", "_TZ")},
    **{f"TRY_TO_TIMESTAMP{suffix}": _named("zoned", "try_") for suffix in ("_LTZ", "_TZ")},
}
