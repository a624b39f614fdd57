"""Queries, for DuckDB, of what a tracked table's rows were at a version and how two sets of rows differ.

A set of rows has `$id`, a text that names the row for good, and the table's columns. Source: METADATA$ACTION,
METADATA$ISUPDATE and METADATA$ROW_ID in https://docs.snowflake.com/en/user-guide/streams-intro: a stream returns the
difference of two versions, so what came and went between them leaves no trace, and an update is a DELETE and an INSERT.
"""

from __future__ import annotations

from dataclasses import dataclass

from firn_local.snowflake.change_tracking.tracked_tables import TrackedTable, rows_with_ids
from firn_local.snowflake.change_tracking.versions import commits_of

_ADDED = 'l."$insert" AND NOT l."$update"'
ACTION, IS_UPDATE, ROW_ID = "METADATA$ACTION", "METADATA$ISUPDATE", "METADATA$ROW_ID"


@dataclass(frozen=True)
class Span:
    """The changes of the versions after `since`, up to `until`."""

    since: int
    until: int


def before(table: TrackedTable, columns: list[str], span: Span) -> str:
    """The rows changed or deleted in the span, as they were before it."""
    return _image(table, columns, span, "first", 'NOT l."$insert"')


def after(table: TrackedTable, columns: list[str], span: Span) -> str:
    """The rows changed or added in the span, as they are after it."""
    return _image(table, columns, span, "last", 'l."$insert"')


def added(table: TrackedTable, columns: list[str], span: Span) -> str:
    """The rows added in the span as they came, whatever became of them."""
    return f"SELECT {_id(table)}, {_of('l', columns)} FROM ({_entries(table, span)}) l WHERE {_ADDED}"


def at(table: TrackedTable, columns: list[str], version: int) -> str:
    """Every row of the table at a version, for a transaction that may have changed it since."""
    later = (
        f'SELECT "$row", min("$seq") AS "$first" FROM {table.log} '
        f'WHERE "$tx" NOT IN (SELECT tx FROM {commits_of(table.place[0])} WHERE version <= {version}) GROUP BY "$row"'
    )
    names = _of("l", columns)
    return (
        f"WITH later AS MATERIALIZED ({later}) SELECT {_id(table)}, {names} FROM ({rows_with_ids(table, columns)}) l "
        'WHERE l."$row" NOT IN (SELECT "$row" FROM later) '
        f'UNION ALL SELECT {_id(table)}, {names} FROM {table.log} l JOIN later ON l."$row" = later."$row" '
        'AND l."$seq" = later."$first" WHERE NOT l."$insert"'
    )


def nothing(table: TrackedTable, columns: list[str]) -> str:
    """No row."""
    return f"SELECT {_id(table)}, {_of('l', columns)} FROM {table.log} l LIMIT 0"


def difference(old: str, new: str, columns: list[str]) -> str:
    """What makes the rows of query `old` those of query `new`: the columns, then those of METADATA."""
    was, now = (f"row({_of(side, columns)})" for side in ("o", "n"))
    differs = f'ON o."$id" = n."$id" WHERE {{}}."$id" IS NULL OR {was} IS DISTINCT FROM {now}'
    return (
        f"WITH o AS MATERIALIZED ({old}), n AS MATERIALIZED ({new}) "
        f"SELECT {_of('o', columns)}, {_metadata('o', 'DELETE', 'n')} FROM o LEFT JOIN n {differs.format('n')} "
        f"UNION ALL SELECT {_of('n', columns)}, {_metadata('n', 'INSERT', 'o')} "
        f"FROM n LEFT JOIN o {differs.format('o')}"
    )


def as_inserts(rows: str, columns: list[str]) -> str:
    """Rows as a stream returns those that were added; `rows` is a query or a table."""
    return (
        f'SELECT {_of("n", columns)}, \'INSERT\' AS "{ACTION}", FALSE AS "{IS_UPDATE}", '
        f'sha1(n."$id") AS "{ROW_ID}" FROM {rows} n'
    )


def any_change(table: TrackedTable, span: Span, *, only_added: bool) -> str:
    """A query that has a row if the span has a change."""
    entries = _entries(table, span)
    return (
        f"SELECT 1 FROM ({entries}) l" + (' WHERE l."$insert" AND NOT l."$update"' if only_added else "") + " LIMIT 1"
    )


def _entries(table: TrackedTable, span: Span) -> str:
    return (
        f'SELECT l.* FROM {table.log} l JOIN {commits_of(table.place[0])} c ON c.tx = l."$tx" '
        f"WHERE c.version > {span.since} AND c.version <= {span.until}"
    )


def _image(table: TrackedTable, columns: list[str], span: Span, end: str, where: str) -> str:
    entries = _entries(table, span)
    ends = f'SELECT "$row", min("$seq") AS "first", max("$seq") AS "last" FROM ({entries}) GROUP BY "$row"'
    return (
        f"SELECT {_id(table)}, {_of('l', columns)} FROM ({entries}) l JOIN ({ends}) e "
        f'ON e."$row" = l."$row" AND e."{end}" = l."$seq" WHERE {where}'
    )


def _id(table: TrackedTable) -> str:
    return f'\'{table.id}:\' || l."$row" AS "$id"'


def _metadata(side: str, action: str, other: str) -> str:
    return f'\'{action}\' AS "{ACTION}", {other}."$id" IS NOT NULL AS "{IS_UPDATE}", sha1({side}."$id") AS "{ROW_ID}"'


def _of(alias: str, columns: list[str]) -> str:
    return ", ".join(f"{alias}.{column}" for column in columns)
