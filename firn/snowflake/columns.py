"""Columns of a table and their types, as DESCRIBE TABLE shows them. No logic beyond reading and writing a type.

Source: https://docs.snowflake.com/en/sql-reference/intro-summary-data-types.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

MAX_PRECISION = 38
MAX_TEXT_LENGTH = 134_217_728
"""Characters that a VARCHAR may be declared for; a plain VARCHAR has DEFAULT_TEXT_LENGTH."""
DEFAULT_TEXT_LENGTH = 16_777_216
DEFAULT_BINARY_LENGTH = 8_388_608
METADATA = "RECORD_METADATA"
CONTENT = "RECORD_CONTENT"


class TableType(StrEnum):
    """The kinds of tables that a sink makes."""

    STANDARD = "standard"
    TRANSIENT = "transient"
    INTERACTIVE = "interactive"


class Kind(StrEnum):
    """The types that a record's field can be fitted to; all others (GEOGRAPHY, VECTOR, ...) are OTHER."""

    NUMBER = "NUMBER"
    FLOAT = "FLOAT"
    VARCHAR = "VARCHAR"
    BINARY = "BINARY"
    BOOLEAN = "BOOLEAN"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP_NTZ = "TIMESTAMP_NTZ"
    TIMESTAMP_LTZ = "TIMESTAMP_LTZ"
    TIMESTAMP_TZ = "TIMESTAMP_TZ"
    VARIANT = "VARIANT"
    OBJECT = "OBJECT"
    ARRAY = "ARRAY"
    OTHER = "OTHER"


TIMESTAMPS = (Kind.TIMESTAMP_NTZ, Kind.TIMESTAMP_LTZ, Kind.TIMESTAMP_TZ)
_SYNONYMS = {
    **dict.fromkeys(
        ("DECIMAL", "NUMERIC", "INT", "INTEGER", "BIGINT", "SMALLINT", "TINYINT", "BYTEINT", "FIXED"), Kind.NUMBER
    ),
    **dict.fromkeys(("DOUBLE", "REAL", "FLOAT4", "FLOAT8", "DOUBLE PRECISION"), Kind.FLOAT),
    **dict.fromkeys(("TEXT", "STRING", "CHAR", "CHARACTER", "NVARCHAR", "NCHAR"), Kind.VARCHAR),
    "VARBINARY": Kind.BINARY,
    "TIMESTAMP": Kind.TIMESTAMP_NTZ,
    "DATETIME": Kind.TIMESTAMP_NTZ,
}
_TYPE = re.compile(
    r"\s*([A-Za-z_][A-Za-z_0-9]*(?: PRECISION)?)\s*(?:\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\))?\s*", re.IGNORECASE
)
_FRACTIONS = {Kind.TIME, *TIMESTAMPS}


@dataclass(frozen=True)
class ColumnType:
    """A type. `size`: digits of a NUMBER, characters of a VARCHAR, bytes of a BINARY, digits behind the second of a
    time; `scale`: digits behind the point of a NUMBER. `text` is what DESCRIBE says of an OTHER.
    """

    kind: Kind
    size: int = 0
    scale: int = 0
    text: str = ""

    def __str__(self) -> str:
        """The type as it stands in a statement."""
        match self.kind:
            case Kind.NUMBER:
                return f"NUMBER({self.size},{self.scale})"
            case Kind.VARCHAR | Kind.BINARY:
                return f"{self.kind}({self.size})"
            case Kind.OTHER:
                return self.text
            case _:
                return f"{self.kind}({self.size})" if self.kind in _FRACTIONS else str(self.kind)


def column_type(text: str) -> ColumnType:
    """The type that `text` names, with or without sizes, under any of Snowflake's names for it."""
    found = _TYPE.fullmatch(text)
    name = found[1].upper() if found else ""
    kind = _SYNONYMS.get(name) or (Kind(name) if name in Kind.__members__ and name != Kind.OTHER else Kind.OTHER)
    if found is None or kind is Kind.OTHER:
        return ColumnType(Kind.OTHER, text=text.strip())
    size, scale = (int(part) if part else None for part in found.groups()[1:])
    match kind:
        case Kind.NUMBER:
            return ColumnType(kind, size or MAX_PRECISION, scale or 0)
        case Kind.VARCHAR:
            return ColumnType(kind, size or (1 if name in ("CHAR", "CHARACTER", "NCHAR") else DEFAULT_TEXT_LENGTH))
        case Kind.BINARY:
            return ColumnType(kind, size or DEFAULT_BINARY_LENGTH)
        case _:
            return ColumnType(kind, (9 if size is None else size) if kind in _FRACTIONS else 0)


@dataclass(frozen=True)
class Column:
    """A column. `name` as Snowflake keeps it; `default`: the SQL expression, None for none; `generated`: numbered by
    Snowflake or computed, never written by a sink.
    """

    name: str
    type: ColumnType
    nullable: bool = True
    default: str | None = None
    generated: bool = False

    @property
    def required(self) -> bool:
        """Whether a row must bring a value."""
        return not self.nullable and self.default is None and not self.generated


Columns: TypeAlias = tuple[Column, ...]
METADATA_COLUMN = Column(METADATA, ColumnType(Kind.VARIANT))
