"""Types as DESCRIBE TABLE writes them, and which of a column's types widen into which. Not for values.

Source: https://docs.snowflake.com/en/sql-reference/intro-summary-data-types and
https://docs.snowflake.com/en/sql-reference/sql/alter-table-column.
"""

from __future__ import annotations

import re

from sqlglot import exp

LONGEST_TEXT, LONGEST_BINARY = 16_777_216, 8_388_608
_T = exp.DataType.Type
_TEXTS = {_T.VARCHAR, _T.TEXT, _T.NVARCHAR, _T.NAME}
_CHARS = {_T.CHAR, _T.NCHAR}
_INTEGERS = {_T.INT, _T.BIGINT, _T.SMALLINT, _T.TINYINT, _T.MEDIUMINT, _T.INT128}
_WITH_FRACTION = {
    _T.TIME: "TIME", _T.TIMESTAMP: "TIMESTAMP_NTZ", _T.TIMESTAMPNTZ: "TIMESTAMP_NTZ", _T.DATETIME: "TIMESTAMP_NTZ",
    _T.TIMESTAMPLTZ: "TIMESTAMP_LTZ", _T.TIMESTAMPTZ: "TIMESTAMP_TZ",
}  # fmt: skip
_SIZED = re.compile(r"(\w+)\((\d+)(?:,(\d+))?\)")


def text_of(kind: exp.DataType) -> str:
    """`VARCHAR(10)`, `NUMBER(38,0)`, `TIME(9)`, ...: the type with the sizes that it has where none are given."""
    sizes = [size.name for size in kind.expressions if isinstance(size, exp.DataTypeParam)]
    if kind.this in _TEXTS | _CHARS:
        return f"VARCHAR({sizes[0] if sizes else 1 if kind.this in _CHARS else LONGEST_TEXT})"
    if kind.this in {_T.BINARY, _T.VARBINARY}:
        return f"BINARY({sizes[0] if sizes else LONGEST_BINARY})"
    if kind.this is _T.DECIMAL:
        return "NUMBER({},{})".format(*[*sizes, "38" if not sizes else "0", "0"][:2])
    if kind.this in _INTEGERS:
        return "NUMBER(38,0)"
    if kind.this in _WITH_FRACTION:
        return f"{_WITH_FRACTION[kind.this]}({sizes[0] if sizes else 9})"
    if kind.this in {_T.FLOAT, _T.DOUBLE}:
        return "FLOAT"
    return str(kind.this.value)


def without_sizes(kind: exp.DataType) -> None:
    """Drop, in place, the sizes that DuckDB does not take: those of texts, bytes and times."""
    if kind.this in {_T.BINARY, _T.VARBINARY, *_WITH_FRACTION, *_TEXTS, *_CHARS}:
        kind.set("expressions", [])


def longest(text: str) -> int | None:
    """Characters of a VARCHAR that is declared shorter than the default; else None."""
    found = _SIZED.fullmatch(text)
    return int(found[2]) if found and found[1] == "VARCHAR" and int(found[2]) < LONGEST_TEXT else None


def refusal(old: str, new: str) -> str | None:
    """Why a column may not change from one type to the other; None where it may."""
    was, will = _SIZED.fullmatch(old), _SIZED.fullmatch(new)
    if old == new:
        return None
    if not (was and will) or was[1] != will[1] or was[1] not in {"VARCHAR", "BINARY", "NUMBER"}:
        return "the types are incompatible"
    if was[1] == "NUMBER":
        return None if was[3] == will[3] else "changing the scale of a number is not supported"
    if int(will[2]) < int(was[2]):
        return f"reducing the byte-length of a {was[1].lower()} is not supported"
    return None


def of_duckdb(kind: str) -> str:
    """The type of a column without an annotation, from DuckDB's name for it."""
    if found := re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", kind):
        return f"NUMBER({found[1]},{found[2]})"
    return _OF_DUCKDB.get(kind, kind)


_OF_DUCKDB = {
    **dict.fromkeys(("BIGINT", "INTEGER", "SMALLINT", "TINYINT", "HUGEINT", "UBIGINT"), "NUMBER(38,0)"),
    "VARCHAR": f"VARCHAR({LONGEST_TEXT})", "DOUBLE": "FLOAT", "FLOAT": "FLOAT", "BLOB": f"BINARY({LONGEST_BINARY})",
    "TIMESTAMP": "TIMESTAMP_NTZ(9)", "TIMESTAMP_NS": "TIMESTAMP_NTZ(9)", "TIME": "TIME(9)", "JSON": "VARIANT",
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMP_TZ(9)",
}  # fmt: skip
