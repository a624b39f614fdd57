"""What Snowflake knows of a table and its columns and DuckDB does not: JSON in DuckDB's comments on them.

So it is committed, renamed, dropped and found again with the table. Keys of a column's annotation: `type`, `default`,
`comment`, `identity`, `tags`; of a table's: `kind`, `cluster_by`, `evolves`, `interactive`, `streams` (the SELECT over
its stream), `primary_key` (the names of its columns), `tags`. Not for a table's own comment, which fakesnow keeps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import duckdb

from firn_local.snowflake.sql import data_types

MOST_ATTEMPTS = 100
Place = tuple[str, str, str]
Annotation = dict[str, Any]
_COLUMNS = (
    "SELECT column_name, data_type, is_nullable, column_default, comment FROM duckdb_columns() "
    "WHERE database_name = ? AND schema_name = ? AND table_name = ? ORDER BY column_index"
)
_TABLE = (
    "SELECT comment FROM duckdb_tables() WHERE database_name = ? AND schema_name = ? AND table_name = ? UNION ALL "
    "SELECT comment FROM duckdb_views() WHERE database_name = ? AND schema_name = ? AND view_name = ?"
)


@dataclass(frozen=True)
class KnownColumn:
    """A column as DuckDB has it, and its annotation."""

    name: str
    duck_type: str
    nullable: bool
    duck_default: str | None
    annotation: Annotation

    @cached_property
    def longest(self) -> int | None:
        """Characters that its text has at most; None for any number."""
        return data_types.longest(self.annotation.get("type", ""))

    @property
    def is_semi_structured(self) -> bool:
        """Whether it holds VARIANT, OBJECT or ARRAY."""
        return self.duck_type == "JSON"

    @property
    def is_wide(self) -> bool:
        """Whether it holds whole numbers of 38 digits."""
        return self.duck_type == "HUGEINT"

    @property
    def is_whole(self) -> bool:
        """Whether it holds whole numbers."""
        return self.duck_type in {"HUGEINT", "BIGINT", "INTEGER"}


def place_of(full_name: str, temporary: AbstractSet[str]) -> Place:
    """(database, schema, table) of DuckDB for a table; those in `temporary` (full names) lie elsewhere."""
    database, schema, name = full_name.split(".", 2)
    return ("temp", "main", name) if full_name in temporary else (database, schema, name)


def quoted(place: Place) -> str:
    """The table's name in a statement for DuckDB."""
    return ".".join(identifier(part) for part in place)


def columns(conn: duckdb.DuckDBPyConnection, place: Place) -> list[KnownColumn]:
    """The columns of a table or view, in order; none where it does not exist."""
    rows = conn.execute(_COLUMNS, list(place)).fetchall()
    return [KnownColumn(name, kind, null, default, _read(annotation)) for name, kind, null, default, annotation in rows]


def table(conn: duckdb.DuckDBPyConnection, place: Place) -> Annotation:
    """The annotation of a table or view."""
    rows = conn.execute(_TABLE, [*place, *place]).fetchall()
    return _read(rows[0][0]) if rows else {}


def on_columns(place: Place, kept: Mapping[str, Annotation]) -> list[str]:
    """The statements that keep the annotations of columns, by name."""
    return [
        f"COMMENT ON COLUMN {quoted(place)}.{identifier(column)} IS {_written(annotation)}"
        for column, annotation in kept.items()
    ]


def on_table(place: Place, annotation: Annotation, kind: str = "TABLE") -> str:
    """The statement that keeps the annotation of a table or, by `kind`, of a view."""
    return f"COMMENT ON {kind} {quoted(place)} IS {_written(annotation)}"


def in_one_transaction(conn: duckdb.DuckDBPyConnection, statements: list[str]) -> None:
    """Run statements for DuckDB, all or none; again when rows that others committed meanwhile are in their way."""
    for left in reversed(range(MOST_ATTEMPTS)):
        conn.begin()
        try:
            for statement in statements:
                conn.execute(statement)
            conn.commit()
        except BaseException as error:
            with suppress(duckdb.Error):  # a commit that failed has rolled back
                conn.rollback()
            if not (isinstance(error, duckdb.TransactionException) and left):
                raise
        else:
            return


def identifier(name: str) -> str:
    """A name in quotes."""
    return '"{}"'.format(name.replace('"', '""'))


def _written(annotation: Annotation) -> str:
    return "'{}'".format(json.dumps(annotation, ensure_ascii=False).replace("'", "''"))


def _read(text: str | None) -> Annotation:
    try:
        annotation = json.loads(text) if text else {}
    except ValueError:  # a comment of somebody who used the file with DuckDB
        return {}
    return annotation if isinstance(annotation, dict) else {}
