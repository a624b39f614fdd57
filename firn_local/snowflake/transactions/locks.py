"""Table locks as Snowflake takes them, and the count of commits that tells a transaction its snapshot is old.

UPDATE, DELETE, MERGE and DDL hold a table's lock until their transaction ends; INSERT, COPY and SELECT take none.
Source: https://docs.snowflake.com/en/sql-reference/transactions (resource locking, deadlocks, READ COMMITTED).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from firn_local.snowflake.sql.sql_errors import CANCELED, LOCKED, sql_error

MOST_WAITERS = 20
POLL_SECONDS = 1.0


@dataclass(frozen=True)
class Claim:
    """Who wants a lock: transaction id (a new object per transaction) and the statement's query id."""

    transaction: str
    query_id: str


class TableLocks:
    """Which transaction holds which table; fair to those who wait."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._holders: dict[str, Claim] = {}
        self._waiting: dict[str, list[Claim]] = {}

    def acquire(self, table: str, claim: Claim, timeout: float, is_cancelled: Callable[[], bool]) -> None:
        """Wait until `claim.transaction` holds `table`, at most `timeout` seconds.

        Raises Snowflake's lock errors (625/57014): timeout, deadlock, too many waiters; or 604 when cancelled.
        """
        with self._changed:
            if self._holds(table, claim):
                return
            queue = self._waiting.setdefault(table, [])
            if len(queue) >= MOST_WAITERS:
                raise sql_error(LOCKED, _too_many(claim))
            queue.append(claim)
            try:
                self._wait(table, claim, time.monotonic() + timeout, timeout, is_cancelled)
                self._holders[table] = claim
            finally:
                queue.remove(claim)
                self._changed.notify_all()

    def _holds(self, table: str, claim: Claim) -> bool:
        holder = self._holders.get(table)
        return holder is not None and holder.transaction == claim.transaction

    def _wait(
        self, table: str, claim: Claim, deadline: float, timeout: float, is_cancelled: Callable[[], bool]
    ) -> None:
        while table in self._holders or self._waiting[table][0] is not claim:
            if self._deadlocked(table, claim.transaction):
                raise sql_error(LOCKED, f"Statement '{claim.query_id}' was aborted to resolve a deadlock on {table}.")
            if is_cancelled():
                raise sql_error(CANCELED, "SQL execution canceled")
            left = deadline - time.monotonic()
            if left <= 0:
                raise sql_error(LOCKED, self._timed_out(table, claim, timeout))
            self._changed.wait(min(left, POLL_SECONDS))

    def _deadlocked(self, table: str, transaction: str) -> bool:
        """Whether the chain holder -> table it waits for -> its holder leads back to `transaction`."""
        seen: set[str] = set()
        while (holder := self._holders.get(table)) and holder.transaction not in seen:
            if holder.transaction == transaction:
                return True
            seen.add(holder.transaction)
            waits = (t for t, queue in self._waiting.items() if any(c.transaction == holder.transaction for c in queue))
            table = next(waits, "")
        return False

    def _timed_out(self, table: str, claim: Claim, timeout: float) -> str:
        holder = self._holders.get(table) or self._waiting[table][0]
        return (
            f"Statement '{holder.query_id}' has locked table '{table}' in transaction {holder.transaction} and this "
            f"lock has not yet been released.\nYour statement '{claim.query_id}' was aborted after {timeout:g} "
            f"second(s) (LOCK_TIMEOUT)."
        )

    def release(self, transaction: str) -> None:
        """Give back every lock of `transaction`."""
        with self._changed:
            self._holders = {t: c for t, c in self._holders.items() if c.transaction != transaction}
            self._changed.notify_all()

    def wake(self) -> None:
        """Let those who wait look at their cancellation now."""
        with self._changed:
            self._changed.notify_all()

    def rows(self) -> list[tuple[str, str, str, str]]:
        """(table, HOLDING or WAITING, transaction, query id) of every lock held or waited for."""
        with self._changed:
            held = [(table, "HOLDING", c.transaction, c.query_id) for table, c in self._holders.items()]
            waits = [(t, "WAITING", c.transaction, c.query_id) for t, queue in self._waiting.items() for c in queue]
            return held + waits


def columns_of(tables: Iterable[str]) -> frozenset[str]:
    """Names under which `CommitLog` keeps changes of these tables' columns: whoever only adds rows looks at those."""
    return frozenset(f"columns of {table}" for table in tables)


def _too_many(claim: Claim) -> str:
    return (
        f"Your statement '{claim.query_id}' was aborted because the number of waiters for this lock exceeds the "
        f"{MOST_WAITERS} statements limit."
    )


class CommitLog:
    """Counts commits, and remembers the last one that touched each table."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._last: dict[str, int] = {}

    def now(self) -> int:
        """The number of the last commit."""
        with self._lock:
            return self._count

    def record(self, tables: Iterable[str]) -> None:
        """A commit changed `tables`. Call it after the commit and before its locks are released."""
        with self._lock:
            self._count += 1
            self._last.update(dict.fromkeys(tables, self._count))

    def versions(self, tables: Iterable[str]) -> tuple[int, ...]:
        """The number of the last commit that touched each table; 0 for none since the start."""
        with self._lock:
            return tuple(self._last.get(table, 0) for table in tables)

    def changed_since(self, snapshot: int, tables: Iterable[str]) -> bool:
        """Whether a commit after number `snapshot` changed any of `tables`."""
        with self._lock:
            return any(self._last.get(table, 0) > snapshot for table in tables)
