"""The one statement that fills an outbox: any query of changes, in the order of publishing, cut into batches. Pure SQL.

A query of changes (`changes_of_stream`, `cursor`, `compared`) returns a row a change, with the columns that `Changes`
names. Here they become rows of the outbox: numbered within their shard, in an order that keeps the changes of a key
together, DELETE before INSERT; and the numbers are cut so that no batch has more than so many rows, and each ends
with the row that passes so many bytes. Numbers never fall; gaps between them are harmless. Sources: window functions
(https://docs.snowflake.com/en/sql-reference/functions-window-syntax), HASH (.../functions/hash).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from firn.connector.export.config import BatchConfig, QualityCheck
from firn.exports.columns import SourceColumns
from firn.exports.source import Source
from firn.exports.values import row_object
from firn.snowflake.identifiers import always_quoted, text_literal

ACTION, IS_UPDATE, ROW_ID = "FIRN$ACTION", "FIRN$ISUPDATE", "FIRN$ROW_ID"
KEY, OLD, PAYLOAD, FAILED = "FIRN$KEY", "FIRN$OLD", "FIRN$PAYLOAD", "FIRN$FAILED"
HASH, POSITION = "FIRN$HASH", "FIRN$POSITION"

OUTBOX_COLUMNS = """
  BATCH NUMBER(19, 0), SHARD NUMBER(10, 0), SEQ NUMBER(19, 0), ACTION VARCHAR, ISUPDATE BOOLEAN, ROW_ID VARCHAR,
  "KEY" VARIANT, "BEFORE" VARIANT, PAYLOAD VARIANT, HASH VARCHAR, POSITION VARIANT, COLUMNS_VERSION NUMBER(10, 0),
  FAILED VARIANT, MOVED_AT TIMESTAMP_NTZ
"""
_MOVE = """
INSERT INTO {outbox} (BATCH, SHARD, SEQ, ACTION, ISUPDATE, ROW_ID, "KEY", "BEFORE", PAYLOAD, HASH, POSITION,
                      COLUMNS_VERSION, FAILED, MOVED_AT)
SELECT {base} + FLOOR((FIRN$SEQ - 1) / {rows}) + FLOOR((FIRN$BYTES - FIRN$SIZE) / {bytes}), FIRN$SHARD, FIRN$SEQ,
  FIRN$ACTION, FIRN$ISUPDATE, FIRN$ROW_ID, FIRN$KEY, FIRN$OLD, FIRN$PAYLOAD, FIRN$HASH, FIRN$POSITION, {version},
  FIRN$FAILED, SYSDATE()
FROM (
  SELECT FIRN$NUMBERED.*,
    SUM(FIRN$SIZE) OVER (PARTITION BY FIRN$SHARD ORDER BY FIRN$SEQ ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
      AS FIRN$BYTES
  FROM (
    SELECT FIRN$SIZED.*, ROW_NUMBER() OVER (PARTITION BY FIRN$SHARD ORDER BY {order}) AS FIRN$SEQ
    FROM (
      SELECT FIRN$CHANGES.*, {shard} AS FIRN$SHARD,
        OCTET_LENGTH(TO_JSON(FIRN$PAYLOAD)) + COALESCE(OCTET_LENGTH(TO_JSON(FIRN$OLD)), 0) AS FIRN$SIZE
      FROM ({changes}) FIRN$CHANGES
    ) FIRN$SIZED
  ) FIRN$NUMBERED
) FIRN$CUT
"""
_SHARD = "1 + MOD(ABS(HASH({by})), {shards})"


@dataclass(frozen=True)
class Changes:
    """A query of changes, and how its rows are ordered and shared out.

    sql returns ACTION, IS_UPDATE, ROW_ID, KEY, OLD, PAYLOAD, FAILED, HASH and POSITION (the constants above), and what
    `order` names. order: what stands behind ORDER BY. shard_by: an expression that is equal for all changes of a key.
    """

    sql: str
    order: str
    shard_by: str


def move_statement(
    source: Source, changes: Changes, *, base: str, batch: BatchConfig, version: int, shards: int = 0
) -> str:
    """The INSERT that moves all changes of a source.

    base: the number of the first batch, as SQL. version: of the columns. shards: 0 for changes, which all are in shard
    0; of a snapshot at least 1, its shards are numbered from 1.
    """
    return _MOVE.format(
        outbox=source.outbox,
        base=base,
        rows=batch.rows,
        bytes=batch.bytes,
        version=version,
        order=changes.order,
        shard=_SHARD.format(by=changes.shard_by, shards=shards) if shards else "0",
        changes=changes.sql,
    )


def key_object(source: Source, alias: str) -> str:
    """The key's OBJECT; NULL for a source without key columns."""
    return row_object(source.key, alias) if source.key_names else "NULL"


def order_members(columns: SourceColumns, alias: str) -> Iterator[tuple[str, str]]:
    """(expression, name) of each order column, for the query of changes and for `Changes.order`."""
    for number, column in enumerate(columns, 1):
        yield f"{alias}.{always_quoted(column.name)}", f"FIRN$ORDER_{number}"


def failed_checks(checks: Sequence[QualityCheck], exempt: str) -> str:
    """The ARRAY of names of checks that a row does not meet; a check is met when it is TRUE, or for `exempt` rows."""
    members = [f"IFF({exempt} OR ({check.expression}), NULL, {text_literal(check.name)})" for check in checks]
    return f"ARRAY_CONSTRUCT_COMPACT({', '.join(members)})" if members else "ARRAY_CONSTRUCT()"
