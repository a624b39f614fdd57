"""One session's transactions over DuckDB, with Snowflake's READ COMMITTED. Not for what a statement means.

DuckDB gives a transaction one snapshot and aborts all of it on any error. Snowflake gives each statement what was
committed before it, and a failed statement leaves the transaction open. So a transaction keeps a journal of its
writes: when a table that a statement touches was changed by someone else's commit, or a statement failed, DuckDB's
transaction is rolled back and its writes are run again on a new snapshot before the statement. Each must change as
many rows as it did before; if not, the transaction is lost: its statements and its COMMIT fail, ROLLBACK ends it.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import duckdb

from firn_local.snowflake.sql.sql_errors import LOCKED, sql_error
from firn_local.snowflake.transactions.locks import CommitLog, TableLocks

Work = Callable[[], int | None]
MOST_ATTEMPTS = 20
T = TypeVar("T")
_numbers = itertools.count(time.time_ns() // 1_000_000 * 1_000_000)


@dataclass(frozen=True)
class Tables:
    """What a statement touches, as full names; `lock` takes the locks it needs for a transaction id."""

    reads: frozenset[str]
    writes: frozenset[str]
    lock: Callable[[str], None]


@dataclass
class Write:
    """A statement that changed rows: how to run it again and how many rows it changed."""

    work: Work
    count: int | None


@dataclass
class Transaction:
    """An open transaction. `id` is what CURRENT_TRANSACTION() returns; `started` tells whether DuckDB has begun."""

    id: str = field(default_factory=lambda: str(next(_numbers)))
    started: bool = False
    snapshot: int = 0
    journal: list[Write] = field(default_factory=list)
    tables: set[str] = field(default_factory=set)
    after_commit: list[Callable[[], None]] = field(default_factory=list)
    lost: str = ""


class Recorder(Protocol):
    """Who writes down, in the transaction, what it changes."""

    def began(self, transaction: str) -> None:
        """A transaction is open."""

    def started(self) -> None:
        """DuckDB's transaction begins, for the first time or again."""

    def commit(self, tables: Iterable[str], commit: Callable[[], T]) -> T:
        """Commit by calling `commit`; `tables` were written to."""

    def ended(self) -> None:
        """It is committed or rolled back."""


class Transactions:
    """The transaction state of one session: at most one open transaction on one DuckDB connection."""

    def __init__(
        self,
        conn: duckdb.DuckDBPyConnection,
        locks: TableLocks,
        commits: CommitLog,
        ddl_lock: AbstractContextManager[object],
        recorder: Recorder,
    ) -> None:
        self._conn, self._locks, self._commits, self._ddl_lock = conn, locks, commits, ddl_lock
        self._recorder = recorder
        self.current: Transaction | None = None
        self.last_id: str | None = None

    def begin(self) -> None:
        """Open a transaction; inside one this does nothing, as on Snowflake."""
        if self.current is None:
            self._open()

    def _open(self) -> None:
        self.current = Transaction()
        self._recorder.began(self.current.id)

    def run(self, work: Work, tables: Tables) -> None:
        """Run a query or DML inside the open transaction or, without one, as its own."""
        if self.current is not None:
            self._inside(self.current, work, tables)
        elif not tables.writes:
            work()
        else:
            self._alone(work, tables)

    def _alone(self, work: Work, tables: Tables) -> None:
        self._open()
        try:
            self.run(work, tables)
            self.commit()
        except BaseException:
            self.rollback()
            raise

    def _inside(self, tx: Transaction, work: Work, tables: Tables) -> None:
        if tx.lost:
            raise sql_error(LOCKED, tx.lost)
        tables.lock(tx.id)
        if tx.started and self._commits.changed_since(tx.snapshot, tables.reads):
            self._abandon(tx)
        count = self._attempt(tx, work)
        if tables.writes:
            tx.journal.append(Write(work, count))
            tx.tables |= tables.writes

    def _start(self, tx: Transaction) -> None:
        """Begin DuckDB's transaction on the newest snapshot and repeat what this transaction wrote so far."""
        if tx.started:
            return
        tx.snapshot = self._commits.now()
        self._conn.begin()
        self._recorder.started()
        tx.started = True
        for write in tx.journal:
            self._repeat(tx, write)

    def _repeat(self, tx: Transaction, write: Write) -> None:
        try:
            count = write.work()
        except duckdb.TransactionException:
            raise
        except Exception as error:
            count = None
            reason = f"{type(error).__name__}"
        else:
            reason = f"it changed {count} rows instead of {write.count}"
        if count != write.count:
            tx.lost = (
                f"Transaction {tx.id} was aborted: a commit of another transaction changed what one of its earlier "
                f"statements did ({reason}). Roll it back and run it again."
            )
            self._abandon(tx)
            raise sql_error(LOCKED, tx.lost)

    def _abandon(self, tx: Transaction) -> None:
        tx.started = False
        with suppress(duckdb.Error):
            self._conn.rollback()

    def commit(self) -> None:
        """Commit what is open, else do nothing. Raises when the transaction was lost; it is then rolled back."""
        tx = self.current
        if tx is None:
            return
        try:
            self._commit_started(tx)
        except BaseException:
            self.rollback()
            raise
        self._commits.record(tx.tables)
        self._end(tx)
        for action in tx.after_commit:
            action()

    def _commit_started(self, tx: Transaction) -> None:
        if tx.lost:
            raise sql_error(LOCKED, tx.lost)
        if not (tx.journal or tx.started):
            return
        self._attempt(tx, lambda: self._recorder.commit(tx.tables, self._conn.commit))

    def _attempt(self, tx: Transaction, work: Callable[[], T]) -> T:
        """Run `work` on a snapshot that holds the transaction's writes so far.

        When another commit, or a change of a table, got in between: again on the newest one, with the same checks,
        and with no DDL beside it.
        """
        for left in reversed(range(MOST_ATTEMPTS)):
            try:
                with nullcontext() if left == MOST_ATTEMPTS - 1 else self._ddl_lock:
                    self._start(tx)
                    return work()
            except duckdb.TransactionException:
                self._abandon(tx)
                if not left:
                    raise
            except BaseException:
                self._abandon(tx)
                raise
        raise AssertionError("the last attempt returns or raises")

    def rollback(self) -> None:
        """Roll back what is open, else do nothing."""
        if (tx := self.current) is not None:
            self._abandon(tx)
            self._end(tx)

    def repair(self) -> None:
        """After a failed statement of any kind: DuckDB may have aborted its transaction; the next starts afresh."""
        if self.current is not None and self.current.started:
            self._abandon(self.current)

    def _end(self, tx: Transaction) -> None:
        self.last_id, self.current = tx.id, None
        self._recorder.ended()
        self._locks.release(tx.id)
