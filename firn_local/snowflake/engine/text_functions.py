"""Functions that make or measure texts, where DuckDB has others: TO_VARCHAR with a format, OCTET_LENGTH, HASH.

Source: https://docs.snowflake.com/en/sql-reference/functions/to_char, .../sql-reference/sql-format-models,
.../functions/octet_length, .../functions/hash. Formats of dates and times, and of BINARY; those of numbers are refused.
"""

from __future__ import annotations

import re

from sqlglot import Expr, exp

from firn_local.snowflake.sql.sql_errors import compilation_error

# DuckDB has microseconds; its own %n spoils what stands behind it.
_ELEMENTS = {
    "YYYY": "%Y", "MM": "%m", "DD": "%d", "HH24": "%H", "MI": "%M", "SS": "%S",
    "FF9": "%f000", "FF": "%f000", "FF6": "%f", "FF3": "%g", "FF0": "",
    "TZH:TZM": "+00:00", "TZHTZM": "+0000",
}  # fmt: skip
_TOKEN = re.compile(rf'{"|".join(_ELEMENTS)}|"[^"]*"|[^A-Za-z"]', re.IGNORECASE)
_DATES = ("YYYY", "MM", "DD")
_SIGNED = 2**63


def texts(expression: Expr) -> Expr:
    """These functions as DuckDB has them (changed in place)."""
    for node in list(expression.find_all(exp.ToChar, exp.ByteLength, exp.Anonymous)):
        if isinstance(node, exp.ByteLength):
            node.replace(exp.Anonymous(this="strlen", expressions=[exp.cast(node.this.copy(), "text")]))
        elif isinstance(node, exp.ToChar) and isinstance(node.args.get("format"), exp.Literal):
            node.replace(_formatted(node.this.copy(), node.args["format"].name))
        elif isinstance(node, exp.Anonymous) and node.name.upper() == "HASH":
            unsigned = exp.Anonymous(this="hash", expressions=node.expressions)
            wide = exp.cast(unsigned, exp.DataType.Type.INT128)
            node.replace(exp.paren(exp.Sub(this=wide, expression=exp.Literal.number(_SIGNED))))
    return expression


def _formatted(value: Expr, model: str) -> Expr:
    if model.upper() == "HEX":
        return exp.Anonymous(this="hex", expressions=[value])
    parts = _TOKEN.findall(model)
    if "".join(parts) != model:
        raise compilation_error((2, "0A000"), f"Unsupported feature 'TO_VARCHAR format {model}' (local Snowflake).")
    text = "".join(part.strip('"') if part.startswith('"') else _ELEMENTS.get(part.upper(), part) for part in parts)
    if any(part.upper() in _DATES for part in parts):
        moment: Expr = exp.cast(value, "timestamp")
    else:  # a TIME, to which DuckDB's strftime needs a day
        moment = exp.Add(this=exp.cast(exp.Literal.string("1970-01-01"), "date"), expression=exp.cast(value, "time"))
    return exp.Anonymous(this="strftime", expressions=[moment, exp.Literal.string(text)])
