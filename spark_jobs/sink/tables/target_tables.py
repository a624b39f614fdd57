"""Target tables: the statement that makes one, what is known of one, and whether rows can go into it.

Not for changing a table (`evolution`). Statements: CREATE TABLE, CREATE INTERACTIVE TABLE, DESCRIBE TABLE, SHOW TABLES
(https://docs.snowflake.com/en/sql-reference/sql/create-table, .../create-interactive-table, .../show-tables).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from firn.connector.config import TableConfig
from firn.errors import ConfigError
from firn.snowflake.columns import CONTENT, METADATA, Column, Columns, ColumnType, Kind, TableType
from firn.snowflake.connection import execute
from firn.snowflake.identifiers import Namespace, always_quoted
from firn.snowflake.tables import columns_of
from spark_jobs.sink.values.table_loaders import (
    ColumnsLoader,
    PipeLoader,
    RecordLoader,
    TableLoader,
    VariantLoader,
)

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
    connection: SnowflakeConnection,
    namespace: Namespace,
    table: str,
    *,
    create: bool,
    tables: TableConfig,
    columns: Columns | None = None,
) -> None:
    """Make the table with RECORD_METADATA and RECORD_CONTENT unless it is there, and check that rows can go into it.

    columns: of the table, where it was described just now; None: it looks first, for CREATE TABLE IF NOT EXISTS wants
    the privilege to create also where the table exists.
    Raises ConfigError when it is absent and must not be made, or when its columns do not fit.
    """
    columns = columns or columns_of(connection, namespace.full_name(table))
    if columns is None:
        if not create:
            raise absent_table(namespace, table, tables, VARIANT_COLUMNS)
        execute(connection, create_statement(namespace, table, VARIANT_COLUMNS, tables, evolving=False))
        columns = columns_of(connection, namespace.full_name(table)) or ()
    check_columns(namespace.qualified(table), columns, VariantLoader())


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


def check_columns(table: str, columns: Columns, load: TableLoader) -> None:
    """Raise ConfigError, with every column at fault and what to do, unless rows of a sink can go into these columns.

    table: its full name, ready for a statement. A table that is not made yet has no fault, nor has one whose own
    definition takes whole records.
    """
    if isinstance(load, RecordLoader) or (isinstance(load, ColumnsLoader) and not load.exists):
        return
    faults = [*_misfits(table, columns, load), *_unfilled(table, columns, load)]
    if faults:
        raise ConfigError(
            "The table cannot take the records:\n" + "\n".join(f"  {fault}" for fault, _ in faults),
            where=table,
            next_step="All other columns must be nullable or have a default. Run: " + " ".join(s for _, s in faults),
        )


def _misfits(table: str, columns: Columns, load: TableLoader) -> Iterator[tuple[str, str]]:
    """(fault, statement that helps) of each column that must be there and is not, or has another type."""
    found = {column.name: column for column in columns}
    if isinstance(load, PipeLoader):
        for name in load.targets:
            if name not in found:
                add = f"ALTER TABLE {table} ADD COLUMN {always_quoted(name)} <type>;"
                yield f"{name}: is missing, and the COPY of the table's pipe names it", add
        return
    for name in (METADATA,) if isinstance(load, ColumnsLoader) else (METADATA, CONTENT):
        add = f"ALTER TABLE {table} ADD COLUMN {name} VARIANT;"
        if name not in found:
            if not (isinstance(load, ColumnsLoader) and load.leave_out):
                yield f"{name}: is missing, expected VARIANT", add
        elif found[name].type.kind is not Kind.VARIANT:
            away = f"ALTER TABLE {table} RENAME COLUMN {name} TO {name}_OLD; "
            yield f"{name}: has type {found[name].type}, expected VARIANT", away + add


def _unfilled(table: str, columns: Columns, load: TableLoader) -> Iterator[tuple[str, str]]:
    """The same of each column that must have a value and never gets one."""
    for column in columns:
        if column.required and not _is_filled(column, columns, load):
            drop = f"ALTER TABLE {table} ALTER COLUMN {always_quoted(column.name)} DROP NOT NULL;"
            fault = f"{column.name}: has type {column.type} and is NOT NULL, and the sink has no value for it"
            yield f"{fault}, expected nullable or a default", drop


def _is_filled(column: Column, columns: Columns, load: TableLoader) -> bool:
    if isinstance(load, PipeLoader):
        return column.name in (load.targets or [each.name for each in columns])
    if isinstance(load, ColumnsLoader):
        return column.type.kind is not Kind.OTHER
    return column.name in (METADATA, CONTENT)
