"""DATEADD and DATE_TRUNC as Snowflake types them: a DATE stays a DATE where the unit is a day or longer.

Source: https://docs.snowflake.com/en/sql-reference/functions/dateadd and date_trunc.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import Expr, exp

from firn_local.snowflake.functions.macros import call
from firn_local.snowflake.functions.variants import as_type, is_variant

_INTERVALS = {
    "YEAR": ("to_years", 1), "QUARTER": ("to_months", 3), "MONTH": ("to_months", 1), "WEEK": ("to_days", 7),
    "DAY": ("to_days", 1), "HOUR": ("to_hours", 1), "MINUTE": ("to_minutes", 1), "SECOND": ("to_seconds", 1),
    "MILLISECOND": ("to_milliseconds", 1), "MICROSECOND": ("to_microseconds", 1),
}  # fmt: skip
_DAYS = {"YEAR", "QUARTER", "MONTH", "WEEK", "DAY"}


def added(node: exp.DateAdd) -> Expr | None:
    """DATEADD(unit, count, date or time)."""
    unit = node.text("unit").upper()
    if unit not in _INTERVALS or isinstance(node.this, exp.Null):
        return None
    function, factor = _INTERVALS[unit]
    count: Expr = exp.cast(_round(node.expression), "INT" if unit in _DAYS else "BIGINT")
    if factor != 1:
        count = count * exp.Literal.number(factor)
    interval = exp.Anonymous(this=function, expressions=[count])
    value = _value(node.this)
    if unit in _DAYS:
        return call("plus", value, interval)
    if isinstance(value, exp.Literal):
        value = call("moment", value)
    return exp.paren(exp.Add(this=value, expression=interval))


def _round(count: Expr) -> Expr:
    """A count of units: fractions are rounded."""
    return count.copy() if isinstance(count, (exp.Literal, exp.Neg)) else exp.func("round", count.copy())


def _value(value: Expr) -> Expr:
    return as_type(value, "TIMESTAMP") if is_variant(value) else value.copy()


def truncated(node: exp.TimestampTrunc | exp.DateTrunc) -> Expr | None:
    """DATE_TRUNC(unit, date or time) and TRUNC(date, unit)."""
    unit = node.text("unit").upper()
    if unit not in _DAYS or isinstance(node.this, exp.Null):
        return None
    return call("truncated", _value(node.this), exp.Literal.string(unit))


BY_NODE: dict[type[Expr], Callable[..., Expr | None]] = {
    exp.DateAdd: added,
    exp.TimestampTrunc: truncated,
    exp.DateTrunc: truncated,
}
