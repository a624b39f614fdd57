"""The durable table of streams, and how far each was consumed. Not for the statements about them, or for their rows.

What a stream is stands in `_firn.streams`, beside the pipes. Its offset is a row in `_firn_offsets` of the database
that the consuming transaction wrote to, because DuckDB commits one database at a time; the largest counts. Source:
https://docs.snowflake.com/en/user-guide/streams-intro and streams-manage (offset storage, staleness).
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta

import duckdb

from firn_local.snowflake.change_tracking.versions import kept_in
from firn_local.snowflake.store.duckdb_store import Store

_TABLE = "_fs_global._firn.streams"
CLEAN_UP_EACH = timedelta(hours=1)
"""Changes that no stream waits for are removed this often at most."""
READ_AGAIN = timedelta(minutes=1)
"""That an empty stream was looked at is written down this often at most."""
_numbers = itertools.count(time.time_ns())


@dataclass(frozen=True)
class Stream:
    """What CREATE STREAM says. Names are full; times are ISO texts; `bases` are ids of tracked tables.

    `version` is where it began, `initial` whether it first shows the rows of then, `read_at` when it last was found
    empty.
    """

    id: int
    name: str
    source: str
    source_kind: str
    bases: list[int]
    base_names: list[str]
    append_only: bool
    initial: bool
    version: int
    created_at: str
    read_at: str
    comment: str

    @property
    def database(self) -> str:
        """Where it lies."""
        return self.name.partition(".")[0]

    @property
    def first_rows(self) -> str:
        """The table of the rows that it shows first, beside its source."""
        return kept_in(self.source.partition(".")[0], f"_firn_first_{self.id}")


@dataclass(frozen=True)
class Offset:
    """Changes after `version` are next; before them, with `initial`, the rows of that version."""

    version: int
    initial: bool


@dataclass(frozen=True)
class Moved:
    """A consumed stream stands at a version now; `database` is the stream's own."""

    stream: int
    version: int
    database: str


def new_id() -> int:
    """The id of a stream about to be made."""
    return next(_numbers)


class StreamTable:
    """Every stream of the account."""

    def __init__(self, store: Store, clock: Callable[[], datetime]) -> None:
        self._store, self.clock = store, clock
        store.query(f"CREATE TABLE IF NOT EXISTS {_TABLE} (name VARCHAR PRIMARY KEY, definition VARCHAR)")
        rows = store.query(f"SELECT definition FROM {_TABLE} ORDER BY name")
        self._streams = {stream.name: stream for stream in (Stream(**json.loads(row[0])) for row in rows)}
        self._cleaned_up = clock()
        self._moved: dict[int, int] = {}
        self._moved_at: dict[int, datetime] = {}
        for database in store.databases():
            for number, version, at in store.query(
                f"SELECT stream, version, made_at FROM {_offsets(database)} ORDER BY made_at"
            ):
                if version >= self._moved.get(number, version):
                    self._moved[number], self._moved_at[number] = version, at

    def __bool__(self) -> bool:
        return bool(self._streams)

    def named(self, name: str) -> Stream | None:
        """The stream of this full name, or None."""
        return self._streams.get(name)

    def all(self) -> list[Stream]:
        """Every stream, by name."""
        return [self._streams[name] for name in sorted(self._streams)]

    def on(self, table: int) -> list[Stream]:
        """The streams that read the changes of a tracked table."""
        return [stream for stream in self.all() if table in stream.bases]

    def keep(self, stream: Stream) -> None:
        """Keep a stream; one of its name is replaced."""
        definition = json.dumps(asdict(stream))
        self._store.query(f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?)", [stream.name, definition])
        self._streams = {**self._streams, stream.name: stream}

    def remove(self, stream: Stream) -> None:
        """Forget a stream, its offset and its first rows."""
        self._store.query(f"DELETE FROM {_TABLE} WHERE name = ?", [stream.name])
        self._streams = {name: each for name, each in self._streams.items() if name != stream.name}
        self._moved.pop(stream.id, None)
        here = self._store.databases()
        for database in here:
            self._store.query(f"DELETE FROM {_offsets(database)} WHERE stream = ?", [stream.id])
        if stream.source.partition(".")[0] in here:
            self._store.query(f"DROP TABLE IF EXISTS {stream.first_rows}")

    def forget_inside(self, inside: str) -> None:
        """Forget the streams of a dropped database or schema."""
        for stream in self.all():
            if stream.name.startswith(f"{inside}."):
                self.remove(stream)

    def offset(self, number: int) -> Offset:
        """How far a stream was consumed by commits so far."""
        if number in self._moved:
            return Offset(self._moved[number], initial=False)
        stream = next((each for each in self._streams.values() if each.id == number), None)
        return Offset(stream.version, stream.initial) if stream is not None else Offset(0, initial=False)

    def writing(self) -> duckdb.DuckDBPyConnection:
        """A connection for offsets, outside of every session's transaction."""
        return self._store.duck_conn.cursor()

    def copy_offset(self, source: Stream, target: Stream) -> None:
        """A cloned stream stands where the other one does."""
        if source.id in self._moved:
            move = Moved(target.id, self._moved[source.id], target.database)
            with self.writing() as conn:
                self.write(conn, target.database, move, self.clock())
            self.publish(move, self.clock())

    def write(self, conn: duckdb.DuckDBPyConnection, database: str, move: Moved, at: datetime) -> None:
        """Write an offset down in the connection's transaction."""
        conn.execute(f"DELETE FROM {_offsets(database)} WHERE stream = ?", [move.stream])
        conn.execute(f"INSERT INTO {_offsets(database)} VALUES (?, ?, ?)", [move.stream, move.version, at])

    def publish(self, move: Moved, at: datetime) -> None:
        """It is committed."""
        first = move.stream not in self._moved
        self._moved[move.stream], self._moved_at[move.stream] = move.version, at
        stream = next((each for each in self._streams.values() if each.id == move.stream), None)
        if first and stream is not None and stream.initial:
            self._store.query(f"DROP TABLE IF EXISTS {stream.first_rows}")

    def is_clean_up_due(self) -> bool:
        """Whether it is time to remove changes that no stream waits for; asked about once each time."""
        due = self.clock() - self._cleaned_up > CLEAN_UP_EACH
        if due:
            self._cleaned_up = self.clock()
        return due

    def found_empty(self, stream: Stream) -> None:
        """It was looked at and has no changes: its retention time begins again."""
        if (now := self.clock()) - self.read_at(stream) > READ_AGAIN:
            self.keep(replace(stream, read_at=now.isoformat()))

    def read_at(self, stream: Stream) -> datetime:
        """When it was made, consumed or found empty last."""
        read = datetime.fromisoformat(stream.read_at)
        return max(read, self._moved_at.get(stream.id, read))


def _offsets(database: str) -> str:
    return kept_in(database, "_firn_offsets")
