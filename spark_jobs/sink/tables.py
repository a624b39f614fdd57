"""Target tables: the statement that makes one, what is known of one, and whether rows can go into it.

Not for changing a table (`evolution`). Statements: CREATE TABLE, CREATE INTERACTIVE TABLE, DESCRIBE TABLE, SHOW TABLES
(https://docs.snowflake.com/en/sql-reference/sql/create-table, .../create-interactive-table, .../show-tables).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from firn.connector.config import TableConfig, TableType
from firn.errors import ConfigError, FirnError
from firn.snowflake import execute, query
from firn.snowflake_faults import MissingObjectError
from spark_jobs.sink.columns.load import ColumnsLoad, Load, PipeLoad, VariantLoad
from spark_jobs.sink.columns.model import CONTENT, METADATA, Column, Columns, ColumnType, Kind, column_type
from spark_jobs.sink.identifiers import FullName, Namespace, always_quoted, written

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

COMMENT = "Made by Firn from a Kafka topic"
VARIANT_COLUMNS: Columns = tuple(Column(name, ColumnType(Kind.VARIANT)) for name in (METADATA, CONTENT))
TYPED_COLUMNS: Columns = VARIANT_COLUMNS[:1]
"""Of a table with a column for each field: what it has beside them."""

_CREATE = {
    TableType.STANDARD: "CREATE TABLE",
    TableType.TRANSIENT: "CREATE TRANSIENT TABLE",
    TableType.INTERACTIVE: "CREATE INTERACTIVE TABLE",
}
_DESCRIBE = "DESCRIBE TABLE {table}"
_SHOW = "SHOW TABLES LIKE '{pattern}' IN SCHEMA {schema}"
# What DESCRIBE says in `default` of a column that Snowflake numbers.
_NUMBERED = re.compile(r"\s*(IDENTITY|AUTOINCREMENT)\b", re.IGNORECASE)


@dataclass(frozen=True)
class TableShape:
    """A table as it is: columns in their order, whether it has ENABLE_SCHEMA_EVOLUTION, and its type."""

    columns: Columns
    evolves: bool = False
    kind: TableType = TableType.STANDARD


def describe(connection: SnowflakeConnection, namespace: Namespace, table: str) -> TableShape | None:
    """The table; None where it is absent, or the role may do nothing with it."""
    return describe_named(connection, namespace.full_name(table))


def describe_named(connection: SnowflakeConnection, name: FullName) -> TableShape | None:
    """The table of this name, in whichever schema; None as for `describe`."""
    columns = _columns(connection, name)
    if columns is None:
        return None
    rows = query(connection, _SHOW.format(pattern=like(name[2]), schema=written(name[:2])))
    shown = next((row for row in rows if row["name"] == name[2]), {})
    return TableShape(columns, shown.get("enable_schema_evolution") == "Y", _kind(shown))


def table_exists(connection: SnowflakeConnection, namespace: Namespace, table: str) -> bool:
    """Whether the table is there and the role may do something with it."""
    return named_table_exists(connection, namespace.full_name(table))


def make_unless_there(
    connection: SnowflakeConnection, namespace: Namespace, table: str, make: Callable[[], object]
) -> None:
    """Call `make`, which makes a table of the sink's own, unless it is there.

    It looks first, because creating wants a privilege. Of several who create at once one succeeds; the others fail,
    look again, and find it.
    """
    if table_exists(connection, namespace, table):
        return
    try:
        make()
    except FirnError:
        if not table_exists(connection, namespace, table):
            raise


def named_table_exists(connection: SnowflakeConnection, name: FullName) -> bool:
    """Whether the table of this name is there, in whichever schema, and the role may do something with it."""
    return _columns(connection, name) is not None


def create_statement(namespace: Namespace, table: str, columns: Columns, tables: TableConfig, *, evolving: bool) -> str:
    """The statement that makes a table unless it is there, with the comment that tells its origin.

    evolving: whether it gets ENABLE_SCHEMA_EVOLUTION, which interactive tables do not have.
    """
    of_columns = ", ".join(
        f"{always_quoted(column.name)} {column.type}{'' if column.nullable else ' NOT NULL'}" for column in columns
    )
    clauses = [f"{_CREATE[tables.type]} IF NOT EXISTS {namespace.qualified(table)} ({of_columns})"]
    if tables.cluster_by:
        clauses.append(f"CLUSTER BY ({tables.cluster_by})")
    if evolving and tables.type is not TableType.INTERACTIVE:
        clauses.append("ENABLE_SCHEMA_EVOLUTION = TRUE")
    return "\n".join([*clauses, f"COMMENT = '{COMMENT}'"])


def ensure_variant_table(
    connection: SnowflakeConnection, namespace: Namespace, table: str, *, create: bool, tables: TableConfig
) -> None:
    """Make the table with RECORD_METADATA and RECORD_CONTENT unless it is there, and check that rows can go into it.

    It looks first: CREATE TABLE IF NOT EXISTS wants the privilege to create also where the table exists.
    Raises ConfigError when it is absent and must not be made, or when its columns do not fit.
    """
    columns = _columns(connection, namespace.full_name(table))
    if columns is None:
        if not create:
            raise absent_table(namespace, table, tables, VARIANT_COLUMNS)
        execute(connection, create_statement(namespace, table, VARIANT_COLUMNS, tables, evolving=False))
        columns = _columns(connection, namespace.full_name(table)) or ()
    check_columns(namespace.qualified(table), columns, VariantLoad())


def absent_table(
    namespace: Namespace, table: str, tables: TableConfig, columns: Columns = TYPED_COLUMNS
) -> ConfigError:
    """The error about a table that is absent and that the sink must not make; `columns`: what it must have."""
    statement = " ".join(create_statement(namespace, table, columns, tables, evolving=columns == TYPED_COLUMNS).split())
    return ConfigError(
        f"Table not found: {namespace.qualified(table)}.",
        where="auto.create.tables is false",
        next_step=f"Set it to true, or: {statement}; If it exists: GRANT SELECT, INSERT ON TABLE "
        f"{namespace.qualified(table)} TO ROLE <role>;",
    )


def check_columns(table: str, columns: Columns, load: Load) -> None:
    """Raise ConfigError, with every column at fault and what to do, unless rows of a sink can go into these columns.

    table: its full name, ready for a statement. A table that is not made yet has no fault.
    """
    if isinstance(load, ColumnsLoad) and not load.exists:
        return
    faults = [*_misfits(table, columns, load), *_unfilled(table, columns, load)]
    if faults:
        raise ConfigError(
            "The table cannot take the records:\n" + "\n".join(f"  {fault}" for fault, _ in faults),
            where=table,
            next_step="All other columns must be nullable or have a default. Run: " + " ".join(s for _, s in faults),
        )


def _misfits(table: str, columns: Columns, load: Load) -> Iterator[tuple[str, str]]:
    """(fault, statement that helps) of each column that must be there and is not, or has another type."""
    found = {column.name: column for column in columns}
    if isinstance(load, PipeLoad):
        for name in load.targets:
            if name not in found:
                add = f"ALTER TABLE {table} ADD COLUMN {always_quoted(name)} <type>;"
                yield f"{name}: is missing, and the COPY of the table's pipe names it", add
        return
    for name in (METADATA,) if isinstance(load, ColumnsLoad) else (METADATA, CONTENT):
        add = f"ALTER TABLE {table} ADD COLUMN {name} VARIANT;"
        if name not in found:
            yield f"{name}: is missing, expected VARIANT", add
        elif found[name].type.kind is not Kind.VARIANT:
            away = f"ALTER TABLE {table} RENAME COLUMN {name} TO {name}_OLD; "
            yield f"{name}: has type {found[name].type}, expected VARIANT", away + add


def _unfilled(table: str, columns: Columns, load: Load) -> Iterator[tuple[str, str]]:
    """The same of each column that must have a value and never gets one."""
    for column in columns:
        if column.required and not _is_filled(column, columns, load):
            drop = f"ALTER TABLE {table} ALTER COLUMN {always_quoted(column.name)} DROP NOT NULL;"
            fault = f"{column.name}: has type {column.type} and is NOT NULL, and the sink has no value for it"
            yield f"{fault}, expected nullable or a default", drop


def _is_filled(column: Column, columns: Columns, load: Load) -> bool:
    if isinstance(load, PipeLoad):
        return column.name in (load.targets or [each.name for each in columns])
    if isinstance(load, ColumnsLoad):
        return column.type.kind is not Kind.OTHER
    return column.name in (METADATA, CONTENT)


def _columns(connection: SnowflakeConnection, name: FullName) -> Columns | None:
    """What DESCRIBE TABLE says; None where the table is absent, or the role may do nothing with it."""
    try:
        rows = query(connection, _DESCRIBE.format(table=written(name)))
    except MissingObjectError:
        return None
    return tuple(_column(row) for row in rows)


def _column(row: Mapping[str, Any]) -> Column:
    default = row.get("default")
    generated = bool(row.get("expression")) or bool(default and _NUMBERED.match(str(default)))
    return Column(
        name=str(row["name"]),
        type=column_type(str(row["type"])),
        nullable=row.get("null?") != "N",
        default=None if default is None or generated else str(default),
        generated=generated,
    )


def _kind(shown: Mapping[str, Any]) -> TableType:
    if shown.get("is_interactive") == "Y":
        return TableType.INTERACTIVE
    return TableType.TRANSIENT if shown.get("kind") == "TRANSIENT" else TableType.STANDARD


def like(name: str) -> str:
    """A pattern of LIKE that matches this name, and perhaps others: the caller compares names. Ready for quotes.

    What has a meaning in a text becomes the wildcard of one character: escapes are read differently by each statement.
    """
    return re.sub(r"[\\']", "_", name)
