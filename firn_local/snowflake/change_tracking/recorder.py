"""One session's transaction for change tracking: what it changes in tracked tables, which streams it consumes.

Rows are compared by DuckDB's rowid, which holds within a transaction. Rows that the transaction adds lie in DuckDB's
transaction-local storage, whose rowids begin at LOCAL, so they are found once, at the commit, however they came. Before
a statement that changes or deletes, the rows that it may touch are copied; what differs after it goes into the log.
Not for what a statement means (`engine.touched_rows`) or returns.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar

import duckdb

from firn_local.snowflake.change_tracking import retention
from firn_local.snowflake.change_tracking.stream_table import Moved, StreamTable
from firn_local.snowflake.change_tracking.tracked_tables import TrackedTable, TrackedTables, identifier, names_of
from firn_local.snowflake.change_tracking.versions import Versions

LOCAL = 36_028_797_018_960_000
"""DuckDB's first rowid of rows that a transaction has added and not committed (MAX_ROW_ID)."""
_PLACES = 'SELECT "$rowid" FROM _firn_touched WHERE "$kept"'
_KEYS = (
    "SELECT constraint_column_names FROM duckdb_constraints() WHERE database_name = ? AND schema_name = ? "
    "AND table_name = ? AND constraint_type IN ('PRIMARY KEY', 'UNIQUE') ORDER BY constraint_type"
)
T = TypeVar("T")
_steps = itertools.count(time.time_ns())


@dataclass(frozen=True)
class Touched:
    """Which rows a statement may touch: a query for their rowids, or None for all; whether it updates; what it sets."""

    rowids: str | None
    updates: bool = False
    sets: frozenset[str] = frozenset()


@dataclass
class Window:
    """What a transaction sees of a stream: changes after `since`, up to `until`; or the rows it began with."""

    since: int
    until: int
    initial: bool = False


@dataclass
class _Seen:
    """Of one transaction: its number, what was committed as it began, streams it has read and consumed."""

    number: int
    until: int
    windows: dict[int, Window] = field(default_factory=dict)
    consumed: dict[int, str] = field(default_factory=dict)


class UnknownRowsError(Exception):
    """The query for the rows that a statement may touch does not run: take all rows."""


class Recorder:
    """Beside the transactions of one session; all its statements run on the session's DuckDB connection."""

    def __init__(
        self, conn: duckdb.DuckDBPyConnection, versions: Versions, tables: TrackedTables, streams: StreamTable
    ) -> None:
        self._conn, self._versions, self._tables, self._streams = conn, versions, tables, streams
        self._seen: _Seen | None = None
        self._beside = False
        self._known: set[int] = set()
        self._last_local: dict[int, int] = {}

    def began(self, transaction: str) -> None:
        """A transaction is open: its streams end here."""
        self._seen = _Seen(int(transaction), self._versions.now())

    def started(self) -> None:
        """DuckDB's transaction begins, on the newest snapshot and without what an earlier attempt wrote."""
        self._known = {table.id for table in self._tables.all()}
        self._last_local = {}

    def ended(self) -> None:
        """The transaction is committed or rolled back."""
        self._seen = None

    def window(self, stream: int) -> Window:
        """What the open transaction, or else a statement on its own, sees of a stream: the same all along."""
        if self._seen is not None and stream in self._seen.windows:
            return self._seen.windows[stream]
        until = self._versions.now() if self._seen is None else self._seen.until
        offset = self._streams.offset(stream)
        window = Window(offset.version, until, offset.initial)
        if self._seen is not None:
            self._seen.windows[stream] = window
        return window

    @contextmanager
    def beside(self, streams: Iterable[int]) -> Iterator[None]:
        """Around a statement that reads streams outside of a transaction: what it sees of them is what it consumes."""
        self._seen, self._beside = _Seen(next(_steps), self._versions.now()), True
        try:
            for stream in streams:
                self.window(stream)
            yield
        finally:
            self._seen, self._beside = None, False

    @property
    def moves_beside(self) -> bool:
        """Whether streams wait to be moved with the statement that runs outside of a session's transaction."""
        return self._beside

    @contextmanager
    def moving(self, database: str) -> Iterator[None]:
        """Around what DuckDB does in one transaction with moving those streams; `database`: the one it writes to, or
        nothing for a temporary table.
        """
        self._beside = False
        with self._versions.lock:
            self._conn.begin()
            try:
                yield
                at, moves = self._streams.clock(), self._moves()
                for move in moves:
                    self._streams.write(self._conn, database or move.database, move, at)
                self._conn.commit()
            except BaseException:
                with suppress(duckdb.Error):  # a commit that failed has rolled back
                    self._conn.rollback()
                raise
            for move in moves:
                self._streams.publish(move, at)

    def is_outrun(self, stream: int) -> bool:
        """Whether another transaction has moved the stream since this one read it."""
        if self._seen is None or stream not in self._seen.windows:
            return False
        offset, window = self._streams.offset(stream), self._seen.windows[stream]
        return (offset.version, offset.initial) != (window.since, window.initial)

    def consume(self, stream: int, database: str) -> None:
        """A statement that changed rows has read the stream, which lies in `database`: the commit moves it."""
        if self._seen is not None:
            self._seen.consumed[stream] = database

    def change(self, table: TrackedTable, touched: Touched, run: Callable[[], T]) -> T:
        """Run a statement that changes rows of a tracked table, and log what it changed."""
        self._require(table)
        self._log_added(table)
        columns = names_of(self._conn, table)
        self._copy(table, touched)
        result = run()
        if self._compare(table, columns):
            if touched.updates:
                self._find_moved(table, columns, touched.sets)
            self._log_changed(table, columns)
        self._log_added(table, besides=_PLACES)
        self._conn.execute("DROP TABLE _firn_before; DROP TABLE _firn_touched")
        return result

    def commit(self, tables: Iterable[str], commit: Callable[[], T]) -> T:
        """Commit what is open with its version, where it changed tracked tables or consumed streams."""
        with self._versions.lock:
            names = sorted(tables)
            tracked = [table for name in names if (table := self._tables.named(name)) is not None]
            moves = self._moves()
            if not tracked and not moves:
                return commit()
            for table in tracked:
                self._require(table)
                self._log_added(table)
            database = next((name.partition(".")[0] for name in names), moves[0].database if moves else "")
            return self._commit_as_version(database, tracked, moves, commit)

    def _commit_as_version(
        self, database: str, tracked: list[TrackedTable], moves: list[Moved], commit: Callable[[], T]
    ) -> T:
        assert self._seen is not None, "a commit ends a transaction"  # noqa: S101
        at = self._streams.clock()
        version = None
        if tracked:
            version = self._versions.note(self._conn, database, self._seen.number, at)
        for move in moves:
            self._streams.write(self._conn, database, move, at)
        result = commit()
        if version is not None:
            self._versions.publish(version)
        for move in moves:
            self._streams.publish(move, at)
        if moves and self._streams.is_clean_up_due():
            retention.forget_old_changes(self._tables, self._streams)
        return result

    def _moves(self) -> list[Moved]:
        """Where the consumed streams will stand. One whose changes lie after this transaction's begin stays."""
        if self._seen is None:
            return []
        found = []
        for stream, database in self._seen.consumed.items():
            window = self._seen.windows[stream]
            to = window.since if window.initial else max(window.since, window.until)
            found.append(Moved(stream, to, database))
        return found

    def _require(self, table: TrackedTable) -> None:
        """Where tracking began after this transaction's snapshot: it is repeated on a new one."""
        if table.id not in self._known:
            raise duckdb.TransactionException(f"Changes of {table.full_name} are tracked since this transaction began.")

    def _number(self) -> int:
        assert self._seen is not None, "rows change in transactions only"  # noqa: S101
        return self._seen.number

    def _log_added(self, table: TrackedTable, *, besides: str = "SELECT -1") -> None:
        """Log the rows that the transaction added and that are not logged yet; `besides`: a query for other rowids."""
        last = self._last_local.get(table.id, LOCAL - 1)
        newest = self._conn.execute(f"SELECT max(rowid) FROM {table.name} WHERE rowid > {last}").fetchall()[0][0]
        if newest is None:
            return
        columns = ", ".join(names_of(self._conn, table))
        seq = 2 * next(_steps) + 1
        self._conn.execute(
            f'INSERT INTO {table.log} ("$tx", "$seq", "$row", "$insert", "$update", {columns}) '
            f"SELECT {self._number()}, {seq}, nextval('{table.ids}'), TRUE, FALSE, {columns} "
            f"FROM {table.name} WHERE rowid > {last} AND rowid NOT IN ({besides})"
        )
        self._conn.execute(
            f'INSERT INTO {table.rows} SELECT hash({columns}), "$row" FROM {table.log} '
            f'WHERE rowid >= {LOCAL} AND "$seq" = {seq}'
        )
        self._last_local[table.id] = newest

    def _copy(self, table: TrackedTable, touched: Touched) -> None:
        """Copy the rows that a statement may touch. Raises UnknownRowsError, and the transaction must begin again."""
        where = "" if touched.rowids is None else f"WHERE rowid IN ({touched.rowids})"
        try:
            self._conn.execute(
                f'CREATE OR REPLACE TEMP TABLE _firn_before AS SELECT rowid AS "$rowid", * FROM {table.name} {where}'
            )
        except (duckdb.BinderException, duckdb.CatalogException) as error:
            if touched.rowids is None:
                raise
            raise UnknownRowsError(touched.rowids) from error

    def _compare(self, table: TrackedTable, columns: list[str]) -> int:
        """Keep of the copied rows those that are gone or differ, with the hash of what they were; their number."""
        old, new = (", ".join(f"{side}.{name}" for name in columns) for side in ("b", "t"))
        self._conn.execute(
            f'CREATE OR REPLACE TEMP TABLE _firn_touched AS SELECT b.*, hash({old}) AS "$hash", '
            f't.rowid IS NOT NULL AS "$kept" FROM _firn_before b LEFT JOIN {table.name} t ON t.rowid = b."$rowid" '
            f"WHERE t.rowid IS NULL OR row({old}) IS DISTINCT FROM row({new})"
        )
        return int(self._conn.execute("SELECT count(*) FROM _firn_touched").fetchall()[0][0])

    def _find_moved(self, table: TrackedTable, columns: list[str], sets: frozenset[str]) -> None:
        """DuckDB may update a row with a key by taking it out and adding it: find its new place by its key, or, where
        the key changes, by what the statement does not set.
        """
        for (key,) in self._conn.execute(_KEYS, list(table.place)).fetchall():
            names = [identifier(name) for name in key]
            self._pair(table, [name for name in columns if name not in sets] if sets & set(names) else names)

    def _pair(self, table: TrackedTable, equal: list[str]) -> None:
        """Give rows that were taken out the place of added ones that are equal in these columns."""
        last = self._last_local.get(table.id, LOCAL - 1)
        ordered = f"OVER (PARTITION BY {', '.join(equal) or '1'})"
        same = " AND ".join(f"o.{name} IS NOT DISTINCT FROM n.{name}" for name in equal) or "TRUE"
        self._conn.execute(
            f'UPDATE _firn_touched SET "$rowid" = moved."$to", "$kept" = TRUE FROM ('
            f'SELECT o."$rowid" AS "$from", n."$to" FROM '
            f'(SELECT *, row_number() {ordered} AS "$n" FROM _firn_touched WHERE NOT "$kept") o JOIN '
            f'(SELECT rowid AS "$to", *, row_number() {ordered} AS "$n" FROM {table.name} '
            f"WHERE rowid > {last} AND rowid NOT IN ({_PLACES})) n "
            f'ON o."$n" = n."$n" AND {same}) moved WHERE "$rowid" = moved."$from"'
        )

    def _log_changed(self, table: TrackedTable, columns: list[str]) -> None:
        """Log the old and new images of the touched rows under their ids."""
        self._conn.execute(
            "CREATE OR REPLACE TEMP TABLE _firn_changed AS "
            f'SELECT o.*, coalesce(l."$row", nextval(\'{table.ids}\')) AS "$row" FROM '
            '(SELECT *, row_number() OVER (PARTITION BY "$hash") AS "$n" FROM _firn_touched) o LEFT JOIN '
            f'(SELECT *, row_number() OVER (PARTITION BY "$hash" ORDER BY "$row") AS "$n" FROM {table.rows} '
            'WHERE "$hash" IN (SELECT "$hash" FROM _firn_touched)) l ON l."$hash" = o."$hash" AND l."$n" = o."$n"'
        )
        names, old = ", ".join(columns), ", ".join(f"o.{name}" for name in columns)
        new = ", ".join(f"t.{name}" for name in columns)
        into = f'INSERT INTO {table.log} ("$tx", "$seq", "$row", "$insert", "$update", {names})'
        number, seq = self._number(), 2 * next(_steps)
        kept = f'FROM _firn_changed o JOIN {table.name} t ON t.rowid = o."$rowid" WHERE o."$kept"'
        for statement in (
            f'{into} SELECT {number}, {seq}, o."$row", FALSE, o."$kept", {old} FROM _firn_changed o',
            f'{into} SELECT {number}, {seq + 1}, o."$row", TRUE, TRUE, {new} {kept}',
            f'DELETE FROM {table.rows} WHERE "$row" IN (SELECT "$row" FROM _firn_changed)',
            f'INSERT INTO {table.rows} SELECT hash({new}), o."$row" {kept}',
            "DROP TABLE _firn_changed",
        ):
            self._conn.execute(statement)
