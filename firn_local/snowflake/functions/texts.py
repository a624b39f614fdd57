"""Functions that make or measure texts, where DuckDB has others: TO_VARCHAR, OCTET_LENGTH.

Source: https://docs.snowflake.com/en/sql-reference/functions/to_char, .../sql-reference/sql-format-models,
.../functions/octet_length. Formats of dates and times, and of BINARY; those of numbers are refused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable

from sqlglot import Expr, exp

from firn_local.snowflake.functions.variants import text
from firn_local.snowflake.sql.sql_errors import compilation_error, unsupported

_DATES = {"YYYY": "%Y", "YY": "%y", "MMMM": "%B", "MON": "%b", "MM": "%m", "DD": "%d", "DY": "%a"}
_TIMES = {"HH24": "%H", "HH12": "%I", "MI": "%M", "SS": "%S", "AM": "%p", "PM": "%p"}
_OF_BYTES = {"HEX": "hex", "BASE64": "to_base64", "UTF-8": "decode"}
_ZONES = {"TZH:TZM": "+00:00", "TZHTZM": "+0000"}  # sessions are in UTC
_NAMED = "|".join((*_DATES, *_TIMES, *_ZONES))
_ELEMENT = re.compile(rf'{_NAMED}|FF[0-9]?|"[^"]*"|[^A-Za-z"]|[TUCZ]', re.IGNORECASE)
# What sqlglot makes of a format where it knows that the value is a time.
_PARSED = {
    **{text: name for name, text in {**_DATES, **_TIMES}.items()},
    **{"%f_zero": "FF0", "%f_three": "FF3", "%f": "FF6", "%f_nine": "FF9", "%:z": "TZH:TZM", "%z": "TZHTZM"},
}
_PARSED_ELEMENT = re.compile(rf"%f_[a-z]+|%:z|%.|{_NAMED}|[^%]", re.IGNORECASE)
_DIGITS, _KNOWN_DIGITS = 9, 6


def written(node: exp.ToChar | exp.TimeToStr) -> Expr:
    """TO_VARCHAR and TO_CHAR; a format is a constant."""
    given = node.args.get("format")
    if given is None:
        return text(node.this)
    given = _constant(given)
    node.set("format", given)
    if not isinstance(given, exp.Literal):
        raise unsupported("TO_VARCHAR", "a format that is not a constant text")
    if (function := _OF_BYTES.get(given.name.upper())) is not None:
        return exp.Anonymous(this=function, expressions=[node.this.copy()])
    return _formatted(node.this.copy(), _elements(node))


def _constant(given: Expr) -> Expr:
    """A format, also one that is put together of constant texts (dbt's catalog has such)."""
    if isinstance(given, exp.DPipe):
        left, right = _constant(given.left), _constant(given.right)
        if isinstance(left, exp.Literal) and isinstance(right, exp.Literal):
            return exp.Literal.string(left.name + right.name)
    return given


def octets(node: exp.ByteLength) -> Expr:
    """OCTET_LENGTH."""
    return exp.Anonymous(this="strlen", expressions=[text(node.this)])


def _elements(node: exp.ToChar | exp.TimeToStr) -> list[str]:
    """The elements of the format under Snowflake's names; constant texts are in quotes."""
    model = node.args["format"].name
    if isinstance(node, exp.TimeToStr):
        found = _PARSED_ELEMENT.findall(model)
        elements = [_PARSED.get(each, "" if each.startswith("%") else _plain(each)) for each in found]
    else:
        elements = _ELEMENT.findall(model)
        elements = elements if "".join(elements) == model else []
    if not all(elements) or not any(each.upper() in {**_DATES, **_TIMES} for each in elements):
        raise compilation_error((2, "0A000"), f"Unsupported feature 'TO_VARCHAR format {model}' (local Snowflake).")
    return elements


def _plain(each: str) -> str:
    """An element that sqlglot did not know, or a text."""
    return each if each.upper() in {**_DATES, **_TIMES, **_ZONES} else f'"{each}"'


def _formatted(value: Expr, elements: list[str]) -> Expr:
    if any(each.upper() in _DATES for each in elements):
        moment: Expr = exp.cast(value, "timestamp")
    else:  # a TIME, to which DuckDB's strftime needs a day
        day = exp.cast(exp.Literal.string("1970-01-01"), "date")
        moment = exp.paren(exp.Add(this=day, expression=exp.cast(value, "time")))
    parts = [_element(moment, each) for each in elements]
    return exp.paren(functools.reduce(lambda left, right: exp.DPipe(this=left, expression=right), parts))


def _element(moment: Expr, element: str) -> Expr:
    """One element's text: DuckDB's strftime spoils what stands behind digits of a second, so each is on its own."""
    name = element.upper()
    if name in _DATES or name in _TIMES:
        return _strftime(moment, {**_DATES, **_TIMES}[name])
    if name.startswith("FF"):
        digits = int(name[2:] or _DIGITS)
        known = exp.Left(this=_strftime(moment, "%f"), expression=exp.Literal.number(min(digits, _KNOWN_DIGITS)))
        return exp.DPipe(this=known, expression=exp.Literal.string("0" * max(0, digits - _KNOWN_DIGITS)))
    return exp.Literal.string(_ZONES.get(name, element.strip('"')))


def _strftime(moment: Expr, text: str) -> Expr:
    return exp.Anonymous(this="strftime", expressions=[moment.copy(), exp.Literal.string(text)])


BY_NODE: dict[type[Expr], Callable[..., Expr | None]] = {
    exp.ToChar: written,
    exp.TimeToStr: written,
    exp.ByteLength: octets,
}
