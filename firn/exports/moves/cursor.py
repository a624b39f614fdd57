"""A table whose rows are found by columns that grow: the query of what came since, and where it then stands.

The position is the maximum of the cursor columns over all moved rows, one column after the other, kept as exact texts
(`firn.exports.values`), so no digit of a timestamp is lost. Rows with just this maximum may come later too: those that
were moved are remembered by their hash, with their number, and the others are found. A row without a value in a cursor
column is never found, nor is one that is committed late with a lower value: only a stream finds those.

Hashes are of the columns that were exported when the maximum was reached, so a column that is added brings no row back;
where one of them is gone, rows at the maximum are moved once more. Sources: SHA2
(https://docs.snowflake.com/en/sql-reference/functions/sha2), ROW_NUMBER, GET.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn.exports.columns import SourceColumns
from firn.exports.ledger import SourceState
from firn.exports.moves import numbered
from firn.exports.moves.numbered import Changes, failed_checks, key_object, order_members
from firn.exports.source import Source
from firn.exports.values import back, exact, row_object
from firn.snowflake.columns import ColumnType
from firn.snowflake.connection import execute, query
from firn.snowflake.identifiers import always_quoted, text_literal

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

STATE_COLUMNS = "HASH VARCHAR, COPIES NUMBER(19, 0)"
_CHANGES = """
SELECT FIRN$FOUND.* FROM (
  SELECT FIRN$ROWS.*, ROW_NUMBER() OVER (PARTITION BY FIRN$AT_MAXIMUM, FIRN$HASH ORDER BY FIRN$ROW_ID) AS FIRN$COPY
  FROM ({rows}) FIRN$ROWS
) FIRN$FOUND
LEFT JOIN (SELECT HASH, SUM(COPIES) AS COPIES FROM {state} GROUP BY HASH) FIRN$MOVED
  ON FIRN$MOVED.HASH = FIRN$FOUND.FIRN$HASH
WHERE NOT FIRN$AT_MAXIMUM OR FIRN$COPY > COALESCE(FIRN$MOVED.COPIES, 0)
"""
_ROWS = """
SELECT 'INSERT' AS FIRN$ACTION, FALSE AS FIRN$ISUPDATE, SHA1(TO_JSON({payload})) AS FIRN$ROW_ID, {key} AS FIRN$KEY,
  NULL AS FIRN$OLD, {payload} AS FIRN$PAYLOAD, {failed} AS FIRN$FAILED,
  SHA2(TO_JSON(IFF({at_maximum}, {known}, {payload})), 256) AS FIRN$HASH, ARRAY_CONSTRUCT({position}) AS FIRN$POSITION,
  {at_maximum} AS FIRN$AT_MAXIMUM{order}
FROM {relation} S
WHERE {since}
"""
_MAXIMUM = """
SELECT TO_JSON(POSITION) AS MAXIMUM, {texts} FROM {outbox} WHERE BATCH >= {base} AND POSITION IS NOT NULL
ORDER BY {order} LIMIT 1
"""
_FORGET = "DELETE FROM {state}"
_REMEMBER = """
INSERT INTO {state} (HASH, COPIES)
SELECT HASH, COUNT(*) FROM {outbox} WHERE BATCH >= {base} AND TO_JSON(POSITION) = ? GROUP BY HASH
"""


def cursor_changes(source: Source, state: SourceState) -> Changes:
    """The rows that came since the position, and at it those that were not moved."""
    payload = row_object(source.columns, "S")
    order = list(order_members((*source.position, *source.order), "S"))
    rows = _ROWS.format(
        payload=payload,
        key=key_object(source, "S"),
        failed=failed_checks(source.config.checks, "FALSE"),
        known=row_object(_known(source, state), "S"),
        position=", ".join(exact(_column(name), kind) for name, kind in _positions(source)),
        at_maximum=_at(source, state.cursor) if state.cursor else "FALSE",
        since=_since(source, state.cursor),
        order="".join(f", {expression} AS {name}" for expression, name in order),
        relation=source.relation,
    )
    ordered = [*(name for _, name in order), numbered.HASH]
    by = f"TO_JSON({numbered.KEY})" if source.key_names else numbered.HASH
    return Changes(_CHANGES.format(rows=rows, state=source.state), ", ".join(ordered), by)


def follow_cursor(
    connection: SnowflakeConnection, source: Source, base: int, before: tuple[str, ...] | None
) -> tuple[str, ...] | None:
    """The position after a move, worked out of the moved rows; what stands at it is remembered.

    In the transaction of the move. Without moved rows nothing changes.
    """
    positions = _positions(source)
    texts = [f"POSITION[{number}]::VARCHAR" for number in range(len(positions))]
    rows = query(
        connection,
        _MAXIMUM.format(
            outbox=source.outbox,
            base=int(base),
            texts=", ".join(f"{text} AS P{number}" for number, text in enumerate(texts)),
            order=", ".join(f"{back(text, kind)} DESC" for text, (_, kind) in zip(texts, positions, strict=True)),
        ),
    )
    if not rows:
        return before
    maximum = tuple(str(rows[0][f"P{number}"]) for number in range(len(positions)))
    if maximum != before:
        execute(connection, _FORGET.format(state=source.state))
    remember = _REMEMBER.format(state=source.state, outbox=source.outbox, base=int(base))
    execute(connection, remember, (rows[0]["MAXIMUM"],))
    return maximum


def _positions(source: Source) -> list[tuple[str, ColumnType]]:
    return [(column.name, column.parsed) for column in source.position]


def _column(name: str) -> str:
    return f"S.{always_quoted(name)}"


def _known(source: Source, state: SourceState) -> SourceColumns:
    """The columns that remembered hashes are of, if all of them are still there."""
    remembered = state.columns.get(state.hashed, ())
    there = {column.name for column in source.all_columns}
    return remembered if remembered and all(column.name in there for column in remembered) else source.columns


def _at(source: Source, cursor: tuple[str, ...]) -> str:
    return " AND ".join(
        f"{_column(name)} = {back(text_literal(text), kind)}"
        for (name, kind), text in zip(_positions(source), cursor, strict=True)
    )


def _since(source: Source, cursor: tuple[str, ...] | None) -> str:
    """Rows with values in all cursor columns that stand at the position or behind it, by one column after the other."""
    there = " AND ".join(f"{_column(name)} IS NOT NULL" for name, _ in _positions(source))
    if cursor is None:
        return there
    condition = "TRUE"
    for (name, kind), text in reversed(list(zip(_positions(source), cursor, strict=True))):
        column, value = _column(name), back(text_literal(text), kind)
        condition = f"({column} > {value} OR ({column} = {value} AND {condition}))"
    return f"{there} AND {condition}"
