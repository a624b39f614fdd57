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
from typing import TYPE_CHECKING, NamedTuple

from firn.connector.export.config import Envelope, ExportConfig, SourceKind
from firn.exports.checks import CheckResult, QualityError, check_may_move, evaluate, record
from firn.exports.ledger import ClaimedExport, ExportLedger, SourceState
from firn.exports.moves.all_rows import all_rows
from firn.exports.moves.changes_of_stream import stream_changes
from firn.exports.moves.compared import compared_changes, follow_compared
from firn.exports.moves.cursor import cursor_changes, follow_cursor
from firn.exports.moves.numbered import Changes, move_statement
from firn.exports.source import Source
from firn.snowflake.connection import execute, query
from firn.snowflake.transactions import transaction

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

_MOVED = """
SELECT COUNT(*) AS MOVED, MIN(BATCH) AS FIRST_BATCH, MAX(BATCH) AS LAST_BATCH
FROM {outbox} WHERE BATCH >= ?
"""
# What a cursor or a comparison found first, where only changes are wanted: its state alone stays.
_LEAVE_OUT = "DELETE FROM {outbox} WHERE BATCH >= ?"


@dataclass(frozen=True)
class Moved:
    """What one move brought into the outbox.

    Batches are numbered from first_batch to last_batch in each shard, with gaps; without rows both are the number that
    the move took. shards: 0 for changes (all in shard 0), else those of a snapshot, numbered from 1. state: the
    source's from now on; its newest columns are those of these rows. new_columns: whether they differ from the last
    move's. checks: how many rows met each quality check.
    """

    first_batch: int
    last_batch: int
    rows: int
    shards: int
    state: SourceState
    new_columns: bool = False
    checks: tuple[CheckResult, ...] = ()


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
    ClaimAgainError for a lock that did not come or a COMMIT in doubt, QualityError for rows that fail a check whose
    action is stop. After every error but a COMMIT in doubt nothing has changed: stream and outbox are as they were.
    """
    step = _Move(connection, ledger, source, config)
    try:
        with transaction(connection):
            before = ledger.number(connection, claimed.epoch, source.name)
            moved = step.run(before, seen)
            ledger.advance(connection, claimed.epoch, source.name, moved.state)
    except QualityError as error:
        record(connection, ledger.namespace, source, error.batch, error.results)
        raise
    return moved


class _Counted(NamedTuple):
    """Batches and rows of a move; without rows both batches are the number that it took."""

    first: int
    last: int
    rows: int


@dataclass(frozen=True)
class _Move:
    """The statements of one move, inside its transaction."""

    connection: SnowflakeConnection
    ledger: ExportLedger
    source: Source
    config: ExportConfig

    def run(self, before: SourceState, seen: str | None) -> Moved:
        """Move, check, and work out the state. before: with the number of the first batch in `last_batch`."""
        base, source = before.last_batch, self.source
        shards = self.config.snapshot.shards if before.brings_all_rows else 0
        version, versions = before.with_columns(source.columns)
        table = source.base if before.resync and source.stream is not None else None
        changes = changes_of(source, self.config.envelope, before)
        self._fill(changes, base, version, 0 if table else shards)
        if table is not None:  # changes first: numbers never fall, and what is behind them is published behind them
            self._fill(all_rows(source, table), self._counted(base).last + 1, version, shards)
        results = evaluate(self.connection, source, base)
        check_may_move(source, base, results)
        cursor = self._follow(before)
        hashed = before.hashed if cursor == before.cursor else version
        if before.snapshot and self.config.snapshot.initial == "changes only" and source.state:
            execute(self.connection, _LEAVE_OUT.format(outbox=source.outbox), (base,))
        moved = self._counted(base)
        record(self.connection, self.ledger.namespace, source, moved.last, results)
        after = replace(
            before,
            last_batch=moved.last,
            cursor=cursor,
            snapshot=False,
            resync=False,
            seen=seen or before.seen,
            hashed=hashed,
            columns=versions,
            columns_version=version,
        )
        new_columns = version != before.columns_version
        return Moved(moved.first, moved.last, moved.rows, shards, after, new_columns, results)

    def _fill(self, changes: Changes, base: int, version: int, shards: int) -> None:
        """Insert what the query returns into the outbox, from this batch on."""
        statement = move_statement(
            self.source, changes, base=str(base), batch=self.config.batch, version=version, shards=shards
        )
        execute(self.connection, statement)

    def _counted(self, base: int) -> _Counted:
        """What the outbox holds of this move."""
        (row,) = query(self.connection, _MOVED.format(outbox=self.source.outbox), (base,))
        return _Counted(int(row["FIRST_BATCH"] or base), int(row["LAST_BATCH"] or base), int(row["MOVED"]))

    def _follow(self, before: SourceState) -> tuple[str, ...] | None:
        """Bring the source's own state up to the moved rows; the cursor's position from now on."""
        match self.source.kind:
            case SourceKind.CURSOR:
                return follow_cursor(self.connection, self.source, before.last_batch, before.cursor)
            case SourceKind.COMPARED:
                follow_compared(self.connection, self.source, before.last_batch)
        return before.cursor


def changes_of(source: Source, envelope: Envelope, state: SourceState) -> Changes:
    """The query of a source's changes, by its kind."""
    match source.kind:
        case SourceKind.CURSOR:
            return cursor_changes(source, state)
        case SourceKind.COMPARED:
            return compared_changes(source)
        case _:
            return stream_changes(source, envelope)
