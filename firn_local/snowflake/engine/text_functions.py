"""Functions that make or measure texts, where DuckDB has others: TO_VARCHAR with a format, OCTET_LENGTH, HASH.

Source: https://docs.snowflake.com/en/sql-reference/functions/to_char, .../sql-reference/sql-format-models,
.../functions/octet_length, .../functions/hash. Formats of dates and times, and of BINARY; those of numbers are refused.
"""

from __future__ import annotations

import functools
import re

from sqlglot import Expr, exp

from firn_local.snowflake.sql.sql_errors import compilation_error

_DATES = {"YYYY": "%Y", "MM": "%m", "DD": "%d"}
_TIMES = {"HH24": "%H", "MI": "%M", "SS": "%S"}
_ZONES = {"TZH:TZM": "+00:00", "TZHTZM": "+0000"}  # sessions are in UTC
_ELEMENT = re.compile(rf'{"|".join((*_DATES, *_TIMES, *_ZONES))}|FF[0-9]?|"[^"]*"|[^A-Za-z"]', re.IGNORECASE)
# What sqlglot makes of a format where it knows that the value is a time.
_PARSED = {
    **{text: name for name, text in {**_DATES, **_TIMES}.items()},
    **{"%f_zero": "FF0", "%f_three": "FF3", "%f": "FF6", "%f_nine": "FF9", "%:z": "TZH:TZM", "%z": "TZHTZM"},
}
_PARSED_ELEMENT = re.compile(r"%f_[a-z]+|%:z|%.|[^%]")
_SIGNED, _DIGITS, _KNOWN_DIGITS = 2**63, 9, 6


def texts(expression: Expr) -> Expr:
    """These functions as DuckDB has them (changed in place)."""
    for node in list(expression.find_all(exp.ToChar, exp.TimeToStr, exp.ByteLength, exp.Anonymous)):
        if isinstance(node, exp.ByteLength):
            node.replace(exp.Anonymous(this="strlen", expressions=[exp.cast(node.this.copy(), "text")]))
        elif isinstance(node, exp.ToChar | exp.TimeToStr) and isinstance(node.args.get("format"), exp.Literal):
            node.replace(_formatted(node.this.copy(), _elements(node)))
        elif isinstance(node, exp.Anonymous) and node.name.upper() == "HASH":
            unsigned = exp.Anonymous(this="hash", expressions=node.expressions)
            wide = exp.cast(unsigned, exp.DataType.Type.INT128)
            node.replace(exp.paren(exp.Sub(this=wide, expression=exp.Literal.number(_SIGNED))))
    return expression


def _elements(node: exp.ToChar | exp.TimeToStr) -> list[str]:
    """The elements of the format under Snowflake's names; constant texts are in quotes."""
    model = node.args["format"].name
    if model.upper() == "HEX":
        return [model.upper()]
    if isinstance(node, exp.TimeToStr):
        found = _PARSED_ELEMENT.findall(model)
        elements = [_PARSED.get(each, "" if each.startswith("%") else f'"{each}"') for each in found]
    else:
        elements = _ELEMENT.findall(model)
        elements = elements if "".join(elements) == model else []
    if not all(elements) or not any(each.upper() in {**_DATES, **_TIMES} for each in elements):
        raise compilation_error((2, "0A000"), f"Unsupported feature 'TO_VARCHAR format {model}' (local Snowflake).")
    return elements


def _formatted(value: Expr, elements: list[str]) -> Expr:
    if elements == ["HEX"]:
        return exp.Anonymous(this="hex", expressions=[value])
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
