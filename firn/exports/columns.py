"""Columns of a source as they were when rows were moved: described without a warehouse, kept by version.

A row of the outbox names the version that it was moved with, so rows that wait are read rightly after the source has
changed. Sources: DESCRIBE TABLE, which views answer too
(https://docs.snowflake.com/en/sql-reference/sql/desc-table), and the driver's describe of a query
(https://docs.snowflake.com/en/developer-guide/python-connector/python-connector-api#describe), which compiles it only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from firn.connector.export.config import SourceConfig
from firn.errors import ConfigError
from firn.snowflake.columns import ColumnType, column_type
from firn.snowflake.connection import query
from firn.snowflake.faults import translated
from firn.snowflake.identifiers import FullName, stored, written

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection
    from snowflake.connector.cursor import ResultMetadata

_DESCRIBE = "DESCRIBE TABLE {table}"
METADATA = ("METADATA$ACTION", "METADATA$ISUPDATE", "METADATA$ROW_ID")
"""What a stream adds to the columns of its table."""


@dataclass(frozen=True)
class SourceColumn:
    """A column. `name` as Snowflake keeps it, `type` as it stands in a statement, `comment` empty for none;
    primary_key: whether the table declares so.
    """

    name: str
    type: str
    nullable: bool = True
    comment: str = ""
    primary_key: bool = False

    @property
    def parsed(self) -> ColumnType:
        """The type by its parts."""
        return column_type(self.type)


SourceColumns: TypeAlias = tuple[SourceColumn, ...]
ColumnVersions: TypeAlias = Mapping[int, SourceColumns]


def describe_table(connection: SnowflakeConnection, name: FullName) -> SourceColumns:
    """All columns of a table or view. Raises MissingObjectError."""
    return tuple(
        SourceColumn(
            str(row["name"]),
            str(column_type(str(row["type"]))),
            row.get("null?") != "N",
            row.get("comment") or "",
            row.get("primary key") == "Y",
        )
        for row in query(connection, _DESCRIBE.format(table=written(name)))
    )


def describe_query(connection: SnowflakeConnection, sql: str) -> SourceColumns:
    """All columns that a query returns, those of METADATA included. Raises as `connection.query`."""
    with translated(sql=sql, role=connection.role or ""), connection.cursor() as cursor:
        described = cursor.describe(sql)
    return tuple(SourceColumn(each.name, str(_type(each)), each.is_nullable is not False) for each in described)


def selected(config: SourceConfig, where: str, columns: SourceColumns, key: Sequence[str]) -> SourceColumns:
    """The columns that the configuration includes, in their order. where: `<schema>.<table>` of the source.

    key: names of key columns, which are always among them. Raises ConfigError where none is left or one that the
    configuration names is absent.
    """
    there = {column.name for column in columns}
    named = {"key": key, "cursor": config.cursor_columns, "order": config.order_columns}
    for what, names in named.items():
        if absent := sorted({stored_column(name) for name in names} - there):
            raise ConfigError(
                f"Source {config.name} has no column {', '.join(absent)}, which its {what} columns name.",
                where=where,
                next_step=f"It has: {', '.join(sorted(there))}. A name in lower case stands in double quotes there.",
            )
    kept = tuple(c for c in columns if c.name not in METADATA and (c.name in key or included(config, where, c.name)))
    if not kept:
        raise ConfigError(
            f"No column of source {config.name} is left to export.",
            where=where,
            next_step="Correct column.include.list or column.exclude.list.",
        )
    return kept


def stored_column(name: str) -> str:
    """A column's name as Snowflake keeps it, from how SQL writes it: folded, or as it stands in double quotes."""
    return name[1:-1].replace('""', '"') if name.startswith('"') else stored(name)


def key_of(config: SourceConfig, where: str, columns: SourceColumns) -> tuple[str, ...]:
    """The key columns of a source as Snowflake keeps their names; none: it has no key."""
    mapped = next((names for table, names in config.keys if re.fullmatch(table, where, re.IGNORECASE)), ())
    if given := config.key_columns or mapped:
        return tuple(map(stored_column, given))
    return tuple(column.name for column in columns if column.primary_key)


def included(config: SourceConfig, where: str, column: str) -> bool:
    """Whether the include and exclude lists leave a column in."""
    if config.include and not matches(config.include, where, column):
        return False
    return not matches(config.exclude, where, column)


def matches(expressions: Sequence[str], where: str, column: str) -> bool:
    """Whether an expression matches `<column>`, or `<schema>.<table>.<column>`, as a whole and in any case."""
    names = (column, f"{where}.{column}")
    return any(re.fullmatch(each, name, re.IGNORECASE) for each in expressions for name in names)


def versions_document(versions: ColumnVersions) -> dict[str, Any]:
    """Plain values for FIRN_EXPORTS; `read_versions` reads them."""
    return {str(number): [asdict(column) for column in columns] for number, columns in versions.items()}


def read_versions(document: Mapping[str, Any]) -> dict[int, SourceColumns]:
    """The versions of a document."""
    return {int(number): tuple(SourceColumn(**each) for each in columns) for number, columns in document.items()}


def _type(described: ResultMetadata) -> ColumnType:
    """The type of a described column."""
    from snowflake.connector.constants import FIELD_ID_TO_NAME

    name = FIELD_ID_TO_NAME[described.type_code]
    match name:
        case "FIXED":
            return column_type(f"NUMBER({described.precision or 38},{described.scale or 0})")
        case "TEXT" | "BINARY":
            size = described.internal_size
            return column_type(f"{'VARCHAR' if name == 'TEXT' else name}({size})" if size else name)
        case "TIME" | "TIMESTAMP_NTZ" | "TIMESTAMP_LTZ" | "TIMESTAMP_TZ":
            return column_type(f"{name}({9 if described.scale is None else described.scale})")
        case _:
            return column_type(name)
