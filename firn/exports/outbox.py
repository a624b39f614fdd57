"""The outbox of a source: the table where its changes wait, batch by batch, until they are published.

Read in the order of publishing, as Arrow, with bounded memory. Settling deletes what is published and writes its
history, in one transaction that counts only while EPOCH is ours. Not for filling it (`firn.exports.moves`).

Statements: SELECT, DELETE, CREATE TABLE (https://docs.snowflake.com/en/sql-reference/sql/select, .../delete,
.../create-table). An outbox is transient: what it holds is in it for minutes, and its Time Travel would be paid for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from firn.exports import history
from firn.exports.ledger import ClaimedExport, ExportLedger
from firn.exports.moves.numbered import OUTBOX_COLUMNS
from firn.exports.published import PublishedBatch
from firn.exports.source import Source
from firn.snowflake.connection import execute, query
from firn.snowflake.faults import MissingObjectError, translated
from firn.snowflake.identifiers import Namespace
from firn.snowflake.tables import make_unless_there
from firn.snowflake.transactions import transaction

if TYPE_CHECKING:
    import pyarrow as pa
    from snowflake.connector import SnowflakeConnection

_CREATE = "CREATE TRANSIENT TABLE {outbox} ({columns}) DATA_RETENTION_TIME_IN_DAYS = 0"
_WAITING = """
SELECT SHARD, MIN(BATCH) AS FIRST_BATCH, MAX(BATCH) AS LAST_BATCH, COUNT(*) AS WAITING,
  DATE_PART(EPOCH_MILLISECOND, MIN(MOVED_AT)) AS OLDEST
FROM {outbox} GROUP BY SHARD ORDER BY SHARD
"""
_READ = """
SELECT BATCH, SEQ, ACTION, ISUPDATE, ROW_ID, TO_JSON("KEY") AS "KEY", TO_JSON("BEFORE") AS "BEFORE",
  TO_JSON(PAYLOAD) AS PAYLOAD, COLUMNS_VERSION, TO_JSON(FAILED) AS FAILED,
  DATE_PART(EPOCH_MILLISECOND, MOVED_AT) AS MOVED_AT
FROM {outbox} WHERE SHARD = ? AND BATCH > ? AND BATCH <= ? ORDER BY BATCH, SEQ
"""
_DELETE = "DELETE FROM {outbox} WHERE SHARD = {shard} AND BATCH IN ({batches})"


@dataclass(frozen=True)
class WaitingShard:
    """Batches of one shard that wait; oldest: when the first of them was moved (UTC, Snowflake's clock). rows: of all,
    also where `last` was set lower.
    """

    shard: int
    first: int
    last: int
    rows: int
    oldest: datetime


@dataclass(frozen=True)
class WaitingBatches:
    """What waits in an outbox, by shard.

    Shards above 0 are those of a snapshot, shard 0 has changes; `next` says in which order they are published.
    """

    shards: tuple[WaitingShard, ...] = ()

    @property
    def rows(self) -> int:
        """All rows that wait."""
        return sum(each.rows for each in self.shards)

    @property
    def oldest(self) -> datetime | None:
        """When the oldest of them was moved; None where nothing waits."""
        return min((each.oldest for each in self.shards), default=None)

    @property
    def next(self) -> tuple[WaitingShard, ...]:
        """What may be published now, side by side: of the snapshot's shards and the changes what was moved first.

        Batch numbers never fall, so changes from before a snapshot have lower ones than all of its shards.
        """
        first = [each for each in self.shards if each.shard > 0]
        changes = next((each for each in self.shards if each.shard == 0), None)
        if changes is None or not first:
            return self.shards
        begins = min(each.first for each in first)
        if changes.first < begins:
            return (replace(changes, last=min(changes.last, begins - 1)),)
        return tuple(
            replace(each, last=min(each.last, changes.first - 1)) for each in first if each.first < changes.first
        )


def ensure_outbox(connection: SnowflakeConnection, namespace: Namespace, table: str, full_name: str) -> None:
    """Make an outbox unless it is there. table: its name; full_name: `Source.outbox`."""
    create = _CREATE.format(outbox=full_name, columns=OUTBOX_COLUMNS)
    make_unless_there(connection, namespace, table, lambda: execute(connection, create))


def waiting(connection: SnowflakeConnection, source: Source) -> WaitingBatches:
    """What waits in the outbox; nothing where there is none yet."""
    try:
        rows = query(connection, _WAITING.format(outbox=source.outbox))
    except MissingObjectError:
        return WaitingBatches()
    return WaitingBatches(
        tuple(
            WaitingShard(
                int(row["SHARD"]),
                int(row["FIRST_BATCH"]),
                int(row["LAST_BATCH"]),
                int(row["WAITING"]),
                datetime.fromtimestamp(int(row["OLDEST"]) / 1000, UTC),
            )
            for row in rows
        )
    )


def outbox_schema() -> pa.Schema:
    """The columns of `read`. KEY, BEFORE, PAYLOAD and FAILED are JSON texts; MOVED_AT is milliseconds since 1970."""
    import pyarrow as pa

    texts = ("ACTION", "ROW_ID", "KEY", "BEFORE", "PAYLOAD", "FAILED")
    names = ("BATCH", "SEQ", "ACTION", "ISUPDATE", "ROW_ID", "KEY", "BEFORE", "PAYLOAD", "COLUMNS_VERSION", "FAILED")
    types = {**dict.fromkeys(texts, pa.string()), "ISUPDATE": pa.bool_()}
    return pa.schema([(name, types.get(name, pa.int64())) for name in (*names, "MOVED_AT")])


def read(
    connection: SnowflakeConnection, source: Source, after: int, up_to: int, shard: int = 0
) -> Iterator[pa.RecordBatch]:
    """The rows of the batches above `after`, up to `up_to`, of one shard, in the order of publishing.

    Each record batch is one that Snowflake sent; memory holds a few of them. Schema: `outbox_schema`. Raises as
    `connection.query`.
    """
    schema, sql = outbox_schema(), _READ.format(outbox=source.outbox)
    with translated(sql=sql, role=connection.role or ""), connection.cursor() as cursor:
        cursor.execute(sql, (shard, after, up_to))
        for table in cursor.fetch_arrow_batches():
            yield from table.cast(schema).to_batches()


def settle(
    connection: SnowflakeConnection,
    ledger: ExportLedger,
    claimed: ClaimedExport,
    source: Source,
    shard: int,
    published: Sequence[PublishedBatch],
) -> None:
    """Delete published batches from the outbox and write them into the history.

    May be repeated: a batch that is no longer in the outbox is settled already. Raises FencedError where a newer run
    has claimed, which then settles; ClaimAgainError as `transaction`.
    """
    if not published:
        return
    with transaction(connection):
        ledger.hold(connection, claimed.epoch, source.name)
        history.write(connection, ledger, claimed.epoch, source, shard, published)
        batches = ", ".join(str(int(each.batch)) for each in published)
        execute(connection, _DELETE.format(outbox=source.outbox, shard=int(shard), batches=batches))
