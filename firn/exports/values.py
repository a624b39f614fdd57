"""How a column's value is written into a VARIANT so that none of it is lost, as SQL. Pure.

Many readers of JSON keep 15 digits of a number, and a VARIANT holds a date or a time as text anyway. So: whole numbers
of up to 15 digits as numbers; other numbers as text, a FLOAT as Snowflake prints it; dates and times as ISO texts with
9 digits behind the second; BINARY as hexadecimal digits; VARIANT, ARRAY, OBJECT as they are. Sources: TO_VARCHAR and
its formats (https://docs.snowflake.com/en/sql-reference/functions/to_char, .../sql-reference/sql-format-models),
HEX_ENCODE (.../functions/hex_encode), OBJECT_CONSTRUCT_KEEP_NULL (.../functions/object_construct_keep_null).
"""

from __future__ import annotations

from collections.abc import Iterable

from firn.exports.columns import SourceColumn
from firn.snowflake.columns import ColumnType, Kind
from firn.snowflake.identifiers import always_quoted, text_literal

SAFE_DIGITS = 15
"""Digits of a whole number that every reader of JSON keeps."""
_DATE, _TIME = "YYYY-MM-DD", "HH24:MI:SS.FF9"
_FORMATS = {
    Kind.DATE: _DATE,
    Kind.TIME: _TIME,
    Kind.TIMESTAMP_NTZ: f'{_DATE}"T"{_TIME}',
    Kind.TIMESTAMP_LTZ: f'{_DATE}"T"{_TIME}TZH:TZM',
    Kind.TIMESTAMP_TZ: f'{_DATE}"T"{_TIME}TZH:TZM',
}
_AS_THEY_ARE = (Kind.VARIANT, Kind.OBJECT, Kind.ARRAY, Kind.BOOLEAN, Kind.VARCHAR)


def is_text(type_: ColumnType) -> bool:
    """Whether the value of such a column is a text in the payload, whatever its type."""
    if type_.kind is Kind.NUMBER:
        return type_.scale != 0 or type_.size > SAFE_DIGITS
    return type_.kind not in (Kind.VARIANT, Kind.OBJECT, Kind.ARRAY, Kind.BOOLEAN, Kind.OTHER)


def exact(expression: str, type_: ColumnType) -> str:
    """The expression of a value as the payload holds it; SQL's NULL stays NULL."""
    if type_.kind in _FORMATS:
        return f"TO_VARCHAR({expression}, {text_literal(_FORMATS[type_.kind])})"
    if type_.kind is Kind.BINARY:
        return f"HEX_ENCODE({expression})"
    if type_.kind is Kind.FLOAT or (type_.kind is Kind.NUMBER and is_text(type_)):
        return f"TO_VARCHAR({expression})"
    if type_.kind is Kind.NUMBER:
        return f"{expression}::INTEGER"
    if type_.kind in _AS_THEY_ARE:
        return expression
    return f"TO_VARIANT({expression})"


def row_object(columns: Iterable[SourceColumn], alias: str) -> str:
    """An OBJECT of these columns' exact values by their names; a NULL is JSON's null."""
    members = [
        f"{text_literal(column.name)}, {exact(f'{alias}.{always_quoted(column.name)}', column.parsed)}"
        for column in columns
    ]
    return f"OBJECT_CONSTRUCT_KEEP_NULL({', '.join(members)})"


def back(expression: str, type_: ColumnType) -> str:
    """The typed value of an exact text: what `exact` wrote, as it was. expression: a VARCHAR."""
    return f"TO_BINARY({expression}, 'HEX')" if type_.kind is Kind.BINARY else f"{expression}::{type_}"
