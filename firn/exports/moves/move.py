"""The move: changes go from a source into its outbox, and the source's state with them, in one transaction.

The first statement takes the next batch number where EPOCH is still ours: of two exporters one wins, the other one is
fenced before it touches the stream. The INSERT consumes the stream, so the stream moves exactly when the rows are in
the outbox. All that follows is worked out of the moved rows, not of the source, which may have changed since (each
statement reads what is committed then). Nothing is retried, and there is no DDL: it would commit halfway. After a
COMMIT in doubt the run claims again and sees what is there.

Sources: https://docs.snowflake.com/en/user-guide/streams-intro (repeatable read, consumption by DML),
https://docs.snowflake.com/en/sql-reference/transactions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from firn.connector.export.config import ExportConfig
from firn.exports.ledger import ClaimedExport, ExportLedger, SourceState
from firn.exports.moves.changes_of_stream import stream_changes
from firn.exports.moves.numbered import move_statement
from firn.exports.source import Source
from firn.snowflake.connection import execute, query
from firn.snowflake.transactions import transaction

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

_MOVED = """
SELECT COUNT(*) AS MOVED, MIN(BATCH) AS FIRST_BATCH, MAX(BATCH) AS LAST_BATCH, MAX(SHARD) AS LAST_SHARD
FROM {outbox} WHERE BATCH >= ?
"""


@dataclass(frozen=True)
class Moved:
    """What one move brought into the outbox.

    Batches are numbered from first_batch to last_batch in each shard, with gaps; without rows both are the number that
    the move took. shards: 0 for changes (all in shard 0), else those of a snapshot, numbered from 1. state: the
    source's from now on; its newest columns are those of these rows. new_columns: whether they differ from the last
    move's.
    """

    first_batch: int
    last_batch: int
    rows: int
    shards: int
    state: SourceState
    new_columns: bool = False


def move(
    connection: SnowflakeConnection,
    ledger: ExportLedger,
    claimed: ClaimedExport,
    source: Source,
    config: ExportConfig,
    *,
    seen: str | None = None,
) -> Moved:
    """Move all changes of a source that there are now. The session must be used by nothing else meanwhile.

    seen: what `firn.exports.asking` said before, to be remembered. Raises FencedError where a newer run has claimed,
    ClaimAgainError for a lock that did not come or a COMMIT in doubt; else nothing has changed: the stream and the
    outbox are as they were.
    """
    with transaction(connection):
        before = ledger.number(connection, claimed.epoch, source.name)
        shards = config.snapshot.shards if before.snapshot else 0
        version, versions = before.with_columns(source.columns)
        statement = move_statement(
            source,
            stream_changes(source, config.envelope),
            base=str(before.last_batch),
            batch=config.batch,
            version=version,
            shards=shards,
        )
        execute(connection, statement)
        (row,) = query(connection, _MOVED.format(outbox=source.outbox), (before.last_batch,))
        last = int(row["LAST_BATCH"] or before.last_batch)
        after = replace(
            before,
            last_batch=last,
            columns=versions,
            columns_version=version,
            snapshot=False,
            seen=seen or before.seen,
        )
        ledger.advance(connection, claimed.epoch, source.name, after)
    first = int(row["FIRST_BATCH"] or before.last_batch)
    return Moved(first, last, int(row["MOVED"]), shards, after, new_columns=version != before.columns_version)
