"""Tables, and stages and pipes beside them, as Snowflake describes them: whether one is there; columns, type, rows.

Not for what a sink needs of one. Statements: DESCRIBE TABLE, SHOW TABLES, SHOW STAGES, SHOW PIPES
(https://docs.snowflake.com/en/sql-reference/sql/desc-table, .../show-tables, .../show-stages, .../show-pipes);
COUNT(DISTINCT a, b, c) counts combinations (.../sql-reference/functions/count); QUALIFY (.../constructs/qualify).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from firn.errors import FirnError
from firn.snowflake.columns import Column, Columns, TableType, column_type
from firn.snowflake.connection import SnowflakeLogin, connect, query
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import FullName, Namespace, written

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

_DESCRIBE = "DESCRIBE TABLE {table}"
_SHOW = "SHOW {kind}S LIKE '{pattern}' IN SCHEMA {schema}"
_COUNT = """
SELECT COUNT(*) AS RECORDS,
  COUNT(DISTINCT RECORD_METADATA:topic::VARCHAR, RECORD_METADATA:partition::NUMBER, RECORD_METADATA:offset::NUMBER)
    AS DISTINCT_RECORDS
FROM {table}
"""
_TYPED = "SELECT COUNT(*) AS RECORDS FROM {table}"
_LATEST = """
SELECT {columns} FROM {table}
QUALIFY ROW_NUMBER() OVER (PARTITION BY {each} ORDER BY {order} DESC) <= {limit}
ORDER BY {each}, {order} DESC
"""
# What DESCRIBE says in `default` of a column that Snowflake numbers.
_NUMBERED = re.compile(r"\s*(IDENTITY|AUTOINCREMENT)\b", re.IGNORECASE)


@dataclass(frozen=True)
class TableShape:
    """A table as it is: columns in their order, whether it has ENABLE_SCHEMA_EVOLUTION, its type, its comment."""

    columns: Columns
    evolves: bool = False
    kind: TableType = TableType.STANDARD
    comment: str = ""


def describe(connection: SnowflakeConnection, namespace: Namespace, table: str) -> TableShape | None:
    """The table; None where it is absent, or the role may do nothing with it."""
    return describe_named(connection, namespace.full_name(table))


def describe_named(connection: SnowflakeConnection, name: FullName) -> TableShape | None:
    """The table of this name, in whichever schema; None as for `describe`."""
    columns = columns_of(connection, name)
    if columns is None:
        return None
    shown = shown_object(connection, "TABLE", name) or {}
    return TableShape(
        columns, shown.get("enable_schema_evolution") == "Y", _kind(shown), str(shown.get("comment") or "")
    )


def table_exists(connection: SnowflakeConnection, namespace: Namespace, table: str) -> bool:
    """Whether the table is there and the role may do something with it."""
    return named_table_exists(connection, namespace.full_name(table))


def make_unless_there(
    connection: SnowflakeConnection, namespace: Namespace, table: str, make: Callable[[], object]
) -> None:
    """Call `make`, which makes a table of the sink's own, unless it is there.

    It looks first, because creating needs a privilege. Of several who create at once one succeeds; the others fail,
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
    return columns_of(connection, name) is not None


def columns_of(connection: SnowflakeConnection, name: FullName) -> Columns | None:
    """What DESCRIBE TABLE says; None where the table is absent, or the role may do nothing with it."""
    try:
        rows = query(connection, _DESCRIBE.format(table=written(name)))
    except MissingObjectError:
        return None
    return tuple(_column(row) for row in rows)


def shown_object(connection: SnowflakeConnection, kind: str, name: FullName) -> dict[str, Any] | None:
    """What SHOW says of an object. kind: TABLE, STAGE, PIPE, STREAM or TASK.

    None where it is absent, where the role may do nothing with it, and where the role does not see its schema.
    """
    try:
        rows = query(connection, _SHOW.format(kind=kind, pattern=like(name[2]), schema=written(name[:2])))
    except MissingObjectError:
        return None
    return next((row for row in rows if row["name"] == name[2]), None)


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


@dataclass(frozen=True)
class TableCount:
    """Rows of a table; `distinct_rows` by (topic, partition, offset), equal to `rows` unless something is doubled."""

    table: str
    rows: int
    distinct_rows: int | None = None

    def as_row(self) -> dict[str, Any]:
        """Plain values, for a table or JSON."""
        return asdict(self)


def count_tables(login: SnowflakeLogin, variant: Iterable[str], typed: Iterable[str]) -> list[TableCount]:
    """Count tables of two variants and typed ones. Names may be qualified."""
    with connect(login) as connection:
        counts = []
        for table in variant:
            row = query(connection, _COUNT.format(table=table))[0]
            counts.append(TableCount(table, int(row["RECORDS"]), int(row["DISTINCT_RECORDS"])))
        return counts + [
            TableCount(table, int(query(connection, _TYPED.format(table=table))[0]["RECORDS"])) for table in typed
        ]


def latest_rows(
    login: SnowflakeLogin, table: str, columns: Sequence[str], *, each: str, order: str, limit: int
) -> list[dict[str, Any]]:
    """The rows of a typed table that are last by `order`, at most `limit` for each value of column `each`."""
    statement = _LATEST.format(table=table, columns=", ".join(columns), each=each, order=order, limit=limit)
    with connect(login) as connection:
        return query(connection, statement)
