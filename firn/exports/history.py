"""Table FIRN_EXPORT_HISTORY: every published batch, its rows and where it is in Kafka, for people to query.

Written when batches are settled (`firn.exports.outbox.settle`); every message carries its batch and row id as headers,
so it is found here. Statements: CREATE TABLE, INSERT ... SELECT over FLATTEN
(https://docs.snowflake.com/en/sql-reference/sql/create-table, .../sql-reference/functions/flatten).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from firn.exports import names
from firn.exports.ledger import ExportLedger
from firn.exports.published import PublishedBatch
from firn.exports.source import Source
from firn.snowflake.connection import execute, query
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace, text_literal
from firn.snowflake.tables import make_unless_there

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

# ROWS is a reserved word: https://docs.snowflake.com/en/sql-reference/reserved-keywords.
_CREATE = """
CREATE TABLE {table} (
  EXPORT VARCHAR, SOURCE VARCHAR, BATCH NUMBER(19, 0), SHARD NUMBER(10, 0), EPOCH NUMBER(19, 0),
  ROW_COUNT NUMBER(19, 0), LETTERS NUMBER(19, 0), TOMBSTONES NUMBER(19, 0), BYTES NUMBER(19, 0), OFFSETS VARIANT,
  MOVED_AT TIMESTAMP_NTZ, PUBLISHED_AT TIMESTAMP_NTZ
)
"""
_INSERT = """
INSERT INTO {table} (EXPORT, SOURCE, BATCH, SHARD, EPOCH, ROW_COUNT, LETTERS, TOMBSTONES, BYTES, OFFSETS, MOVED_AT,
                     PUBLISHED_AT)
SELECT {export}, {source}, P.VALUE:batch::NUMBER, {shard}, {epoch}, P.VALUE:rows::NUMBER, P.VALUE:letters::NUMBER,
  P.VALUE:tombstones::NUMBER, P.VALUE:bytes::NUMBER, P.VALUE:offsets, P.VALUE:moved_at::TIMESTAMP_NTZ,
  P.VALUE:published_at::TIMESTAMP_NTZ
FROM TABLE(FLATTEN(INPUT => PARSE_JSON(?))) P
WHERE P.VALUE:batch::NUMBER IN (SELECT BATCH FROM {outbox} WHERE SHARD = {shard})
"""
_READ = """
SELECT EXPORT, SOURCE, BATCH, SHARD, EPOCH, ROW_COUNT, LETTERS, TOMBSTONES, BYTES, OFFSETS, MOVED_AT, PUBLISHED_AT
FROM {table} WHERE EXPORT = {export}{source} ORDER BY PUBLISHED_AT DESC, BATCH DESC LIMIT {limit}
"""


def ensure_history(connection: SnowflakeConnection, namespace: Namespace) -> None:
    """Make the table unless it is there."""
    create = _CREATE.format(table=namespace.qualified(names.HISTORY))
    make_unless_there(connection, namespace, names.HISTORY, lambda: execute(connection, create))


def write(
    connection: SnowflakeConnection,
    ledger: ExportLedger,
    epoch: int,
    source: Source,
    shard: int,
    published: Sequence[PublishedBatch],
) -> None:
    """Write these batches, those that are still in the outbox, in the caller's transaction."""
    statement = _INSERT.format(
        table=ledger.namespace.qualified(names.HISTORY),
        export=text_literal(ledger.export),
        source=text_literal(source.name),
        outbox=source.outbox,
        shard=int(shard),
        epoch=int(epoch),
    )
    execute(connection, statement, (json.dumps([_in_utc(each) for each in published]),))


def read_history(
    connection: SnowflakeConnection, namespace: Namespace, export: str, source: str | None = None, limit: int = 100
) -> list[dict[str, Any]]:
    """The newest batches of an export, or of one of its sources, with OFFSETS as plain values; none without a table."""
    sql = _READ.format(
        table=namespace.qualified(names.HISTORY),
        export=text_literal(export),
        source=f" AND SOURCE = {text_literal(source)}" if source else "",
        limit=int(limit),
    )
    try:
        rows = query(connection, sql)
    except MissingObjectError:
        return []
    return [{**row, "OFFSETS": json.loads(row["OFFSETS"] or "{}")} for row in rows]


def _in_utc(published: PublishedBatch) -> dict[str, Any]:
    """The document with times that TIMESTAMP_NTZ takes as they are: UTC without an offset."""
    document = published.document
    for name in ("moved_at", "published_at"):
        at = getattr(published, name)
        document[name] = at and at.replace(tzinfo=None).isoformat(sep=" ", timespec="microseconds")
    return document
