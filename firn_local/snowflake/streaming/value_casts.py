"""A JSON value as a column takes it, in DuckDB's SQL: how the default pipe fills typed columns.

As a VARIANT is cast to the column's type: https://docs.snowflake.com/en/sql-reference/data-type-conversion. A value
that cannot be cast is an error of DuckDB, which rejects its row. JSON null is NULL. Text longer than its column is
refused. Not for pipes with a SELECT, whose casts are those of a query.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from firn_local.snowflake.sql import data_types
from firn_local.snowflake.store.table_annotations import KnownColumn

REFUSED = "refused: "
"""What stands in front of the reason in the error of `refusal`."""
_INTEGER = "'-?[0-9]+'"
# Where TO_TIMESTAMP takes an integer for seconds, milliseconds, microseconds or nanoseconds.
_SECONDS, _MILLISECONDS, _MICROSECONDS = 31_536_000_000, 31_536_000_000_000, 31_536_000_000_000_000
_OFFSET = r"'(:[0-9]{2}(?:\.[0-9]+)?) ?(?:Z|[+-][0-9]{2}:?[0-9]{2})$'"


def cast(value: str, column: KnownColumn) -> str:
    """The expression for a value (an expression of type JSON) as `column` takes it."""
    if column.is_semi_structured:
        return value
    text = f"({value} ->> '$')"
    declared = column.annotation.get("type") or data_types.of_duckdb(column.duck_type)
    kind = re.split(r"[( ]", str(declared))[0]
    return _CASTS.get(kind, _plainly)(value, text, column)


def refusal(reason: str) -> str:
    """A text that cannot be: evaluating it is an error with this reason. Unlike error(), TRY can catch it."""
    return f"CAST(CAST('{REFUSED}' || {reason} AS INTEGER) AS VARCHAR)"


def reason_of(message: str) -> str | None:
    """The reason in an error that `refusal` made."""
    found = re.search(rf"{REFUSED}(.*)' to INT32", message, re.DOTALL)
    return found[1] if found else None


def _plainly(_: str, text: str, column: KnownColumn) -> str:
    return f"CAST({text} AS {column.duck_type})"


def _text(_: str, text: str, column: KnownColumn) -> str:
    if column.longest is None:
        return text
    shown = f"left({text}, 200)"
    reason = refusal(f"'String ''' || {shown} || ''' is too long and would be truncated'")
    return f"CASE WHEN length({text}) > {column.longest} THEN {reason} ELSE {text} END"


def _number(value: str, text: str, column: KnownColumn) -> str:
    truth = f"CASE {text} WHEN 'true' THEN '1' ELSE '0' END"
    digits = f"CASE WHEN json_type({value}) = 'BOOLEAN' THEN {truth} ELSE trim({text}) END"
    return f"CAST({digits} AS {column.duck_type})"


def _boolean(value: str, text: str, _: KnownColumn) -> str:
    word = f"lower(trim({text}))"
    said = f"CASE {word} WHEN 'on' THEN true WHEN 'off' THEN false ELSE CAST({word} AS BOOLEAN) END"
    is_number = f"json_type({value}) IN ('BIGINT', 'UBIGINT', 'HUGEINT', 'DOUBLE')"
    return f"CASE WHEN {is_number} THEN CAST({text} AS DOUBLE) <> 0 ELSE {said} END"


def _moment(text: str) -> str:
    """A timestamp in UTC of an integer in text."""
    number = f"CAST({text} AS BIGINT)"
    return (
        f"CASE WHEN abs({number}) < {_SECONDS} THEN make_timestamp({number} * 1000000) "
        f"WHEN abs({number}) < {_MILLISECONDS} THEN make_timestamp({number} * 1000) "
        f"WHEN abs({number}) < {_MICROSECONDS} THEN make_timestamp({number}) "
        f"ELSE make_timestamp({number} // 1000) END"
    )


def _wall_clock(text: str) -> str:
    """A timestamp without a zone: an offset is dropped, and the clock stays what it shows."""
    said = rf"CAST(regexp_replace({text}, {_OFFSET}, '\1') AS TIMESTAMP)"
    return f"CASE WHEN regexp_full_match({text}, {_INTEGER}) THEN {_moment(text)} ELSE {said} END"


def _timestamp(_: str, text: str, column: KnownColumn) -> str:
    return f"CAST({_wall_clock(text)} AS {column.duck_type})"


def _date(_: str, text: str, __: KnownColumn) -> str:
    return f"CAST({_wall_clock(text)} AS DATE)"


def _zoned(_: str, text: str, column: KnownColumn) -> str:
    number = f"CAST({_moment(text)} AS TIMESTAMPTZ)"
    said = f"CAST({text} AS TIMESTAMPTZ)"
    return f"CAST(CASE WHEN regexp_full_match({text}, {_INTEGER}) THEN {number} ELSE {said} END AS {column.duck_type})"


def _time(_: str, text: str, column: KnownColumn) -> str:
    number = f"CAST({_moment(text)} AS TIME)"
    said = f"CAST({text} AS {column.duck_type})"
    return f"CASE WHEN regexp_full_match({text}, {_INTEGER}) THEN {number} ELSE {said} END"


def _bytes(_: str, text: str, __: KnownColumn) -> str:
    return f"unhex({text})"


_CASTS: dict[str, Callable[[str, str, KnownColumn], str]] = {
    "VARCHAR": _text,
    "NUMBER": _number,
    "FLOAT": _number,
    "BOOLEAN": _boolean,
    "DATE": _date,
    "TIME": _time,
    "TIMESTAMP_NTZ": _timestamp,
    "TIMESTAMP_LTZ": _zoned,
    "TIMESTAMP_TZ": _zoned,
    "BINARY": _bytes,
}
