"""Channels: opened, fenced, written to, asked about, dropped; rows that were taken wait here for their commit.

A channel is durable (`store.channel_table`); what waits is not: as with the service, only the committed token tells
what is safe. After a restart every channel has to be opened again. A continuation token is
`<client sequencer>_<row sequencer>`: opening raises the first and so fences the writer before, each request raises the
second. Not for HTTP and not for SQL.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from firn_local.snowflake.store import channel_table
from firn_local.snowflake.store.channel_table import ChannelRow
from firn_local.snowflake.store.duckdb_store import Store
from firn_local.snowflake.streaming.pipes import Pipe
from firn_local.snowflake.streaming.protocol_errors import (
    CHANNEL_MISSING,
    INVALID_REQUEST,
    MUST_BE_REOPENED,
    ROW_GAP,
    UNCOMMITTED,
    ProtocolError,
    missing,
    stale,
)
from firn_local.snowflake.streaming.row_loader import Outcome

SUCCESS = "SUCCESS"
MOST_ROWS = 500_000
"""Rows of one commit, so that its memory is bounded."""
_CONTINUATION = re.compile(r"(\d+)_(\d+)")
Key = tuple[str, str, str, str]


@dataclass
class CommitSettings:
    """When rows that were taken are committed: `delay` seconds later, or not at all while `paused`."""

    delay: float = 0.1
    paused: bool = False


@dataclass(frozen=True, eq=False)
class PendingBatch:
    """The rows of one request that wait for their commit; `due` and `taken` are of the monotonic clock."""

    pipe: Pipe
    lines: pa.LargeStringArray
    end_token: str | None
    channel: ChannelRow
    taken: float
    due: float


@dataclass(eq=False)
class OpenChannel:
    """A channel that was opened since the server started; `row` is how it was then."""

    pipe: Pipe
    row: ChannelRow
    row_sequencer: int = 1
    code: str = SUCCESS
    answered: tuple[int, str] | None = None
    """(row sequencer, request id) of the last request that was taken."""
    pending: deque[PendingBatch] = field(default_factory=deque)
    committing: int = 0
    """Batches that are being committed."""
    latency_ms: float | None = None

    @property
    def continuation(self) -> str:
        """What the next request must carry."""
        return f"{self.row.client_sequencer}_{self.row_sequencer}"

    @property
    def is_uncommitted(self) -> bool:
        """Whether rows of it wait or are just being committed."""
        return bool(self.pending or self.committing)


class Channels:
    """Every channel. Its methods may be called from any thread."""

    def __init__(self, store: Store, settings: CommitSettings) -> None:
        self._store, self.settings = store, settings
        self._changed = threading.Condition()
        self._open: dict[Key, OpenChannel] = {}

    def open(
        self, pipe: Pipe, name: str, *, fail_on_uncommitted: bool, offset_token: str | None
    ) -> tuple[str, dict[str, Any]]:
        """(continuation token, status) of a channel made or opened again, which fences the client before.

        Rows that are not committed are a ProtocolError (409), or else discarded. `offset_token` replaces the
        committed one.
        """
        with self._changed:
            self._settled(pipe, name, fail_on_uncommitted)
            row = self._kept(pipe, name)
            if row is None:
                row = ChannelRow(pipe.schema, pipe.name, name, pipe.table, _now_ms(), token=offset_token)
                channel_table.add(self._store, pipe.database, row)
            else:
                token = row.token if offset_token is None else offset_token
                row = replace(row, client_sequencer=row.client_sequencer + 1, token=token)
                channel_table.change(self._store, pipe.database, row)
            channel = self._open[_key(pipe, name)] = OpenChannel(pipe, row)
            return channel.continuation, _status(pipe, name, row, channel)

    def append(
        self,
        pipe: Pipe,
        name: str,
        continuation: str,
        request_id: str,
        lines: pa.LargeStringArray,
        end_token: str | None,
    ) -> str:
        """Take rows; the next continuation token. A repeated request is taken once. Raises ProtocolError."""
        with self._changed:
            channel = self._writable(pipe, name)
            sequencer = self._sequencer(channel, continuation)
            if sequencer < channel.row_sequencer:
                if channel.answered == (sequencer, request_id):
                    return f"{channel.row.client_sequencer}_{sequencer + 1}"
                raise stale("Row sequencer in the continuation token is stale.")
            if sequencer > channel.row_sequencer:
                raise ProtocolError(400, ROW_GAP, "Rows before these are missing. Please reopen the channel.")
            now = time.monotonic()
            due = now + self.settings.delay
            channel.pending.append(PendingBatch(pipe, lines, end_token, channel.row, now, due))
            channel.answered = (sequencer, request_id)
            channel.row_sequencer += 1
            self._changed.notify_all()
            return channel.continuation

    def check_writable(self, pipe: Pipe, name: str, continuation: str) -> None:
        """Raise ProtocolError for a continuation token of another writer, before its rows are read."""
        with self._changed:
            self._sequencer(self._writable(pipe, name), continuation)

    def statuses(self, pipe: Pipe, names: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The status of those channels that exist, under the names that were asked for."""
        with self._store.duck_conn.cursor() as conn:
            rows = channel_table.find(conn, pipe.database, pipe.schema, pipe.name, names)
        kept = {row.channel_name.lower(): row for row in rows}
        with self._changed:
            found = {
                name: (kept[name.lower()], self._open.get(_key(pipe, name))) for name in names if name.lower() in kept
            }
            return {name: _status(pipe, name, row, channel) for name, (row, channel) in found.items()}

    def drop(self, pipe: Pipe, name: str, *, fail_on_uncommitted: bool) -> str | None:
        """Forget a channel with what waits in it; its last committed token. Raises ProtocolError."""
        with self._changed:
            self._settled(pipe, name, fail_on_uncommitted)
            row = self._kept(pipe, name)
            if row is None:
                raise _unknown(name)
            channel_table.remove(self._store, pipe.database, row)
            self._open.pop(_key(pipe, name), None)
            return row.token

    def invalidate(self, name: str, code: str = MUST_BE_REOPENED, *, discard: bool = True) -> int:
        """Make channels of that name unusable until they are opened again, as the service may; how many there were."""
        with self._changed:
            found = [channel for key, channel in self._open.items() if key[3] == name.lower()]
            for channel in found:
                channel.code = code
                if discard:
                    channel.pending.clear()
            return len(found)

    @contextmanager
    def due(self, seconds: float, *, everything: bool = False) -> Iterator[list[PendingBatch]]:
        """What is to be committed now, after waiting `seconds` for it at most; nobody else gets it meanwhile.

        `everything`: also what is not due yet, without waiting.
        """
        with self._changed:
            if not everything:
                self._wait(time.monotonic() + seconds)
            taken = self._take(time.monotonic() if not everything else float("inf"))
        try:
            yield [batch for _, batch in taken]
        finally:
            with self._changed:
                for channel, _ in taken:
                    channel.committing = 0
                self._changed.notify_all()

    def committed(self, batches: Sequence[PendingBatch], outcomes: Sequence[Outcome | None]) -> None:
        """What became of batches; without an outcome the channel is gone, and its writer learns so."""
        with self._changed:
            for batch, outcome in zip(batches, outcomes, strict=True):
                channel = self._open.get(_key(batch.pipe, batch.channel.channel_name))
                if channel is None or channel.row is not batch.channel:
                    continue
                if outcome is None:
                    channel.code = MUST_BE_REOPENED
                    channel.pending.clear()
                else:
                    took = (time.monotonic() - batch.taken) * 1000
                    before = channel.latency_ms
                    channel.latency_ms = took if before is None else 0.8 * before + 0.2 * took

    def wake(self) -> None:
        """Let whoever waits look at the settings now."""
        with self._changed:
            self._changed.notify_all()

    def waiting(self) -> int:
        """Requests whose rows are not committed yet."""
        with self._changed:
            return sum(len(channel.pending) + channel.committing for channel in self._open.values())

    def _wait(self, deadline: float) -> None:
        """Until something is due, or the deadline; looked at again whenever something changed."""
        while (now := time.monotonic()) < deadline:
            due = float("inf") if self.settings.paused else self._earliest()
            if due <= now:
                return
            self._changed.wait(min(deadline, due) - now)

    def _earliest(self) -> float:
        return min((channel.pending[0].due for channel in self._open.values() if channel.pending), default=float("inf"))

    def _take(self, now: float) -> list[tuple[OpenChannel, PendingBatch]]:
        taken: list[tuple[OpenChannel, PendingBatch]] = []
        rows = 0
        if self.settings.paused:
            return taken
        waiting = [channel for channel in self._open.values() if channel.pending]
        for channel in sorted(waiting, key=lambda each: each.pending[0].due):
            while channel.pending and channel.pending[0].due <= now and rows < MOST_ROWS:
                batch = channel.pending.popleft()
                channel.committing += 1
                rows += len(batch.lines)
                taken.append((channel, batch))
        return taken

    def _settled(self, pipe: Pipe, name: str, fail: bool) -> None:
        """Leave nothing uncommitted in a channel."""
        channel = self._open.get(_key(pipe, name))
        if channel is None or not channel.is_uncommitted:
            return
        if fail:
            raise ProtocolError(409, UNCOMMITTED, f"Channel {name} has uncommitted data.")
        channel.pending.clear()
        self._changed.wait_for(lambda: not channel.committing)

    def _kept(self, pipe: Pipe, name: str) -> ChannelRow | None:
        with self._store.duck_conn.cursor() as conn:
            return next(iter(channel_table.find(conn, pipe.database, pipe.schema, pipe.name, [name])), None)

    def _writable(self, pipe: Pipe, name: str) -> OpenChannel:
        channel = self._open.get(_key(pipe, name))
        if channel is None:
            if self._kept(pipe, name) is None:
                raise _unknown(name)
            raise ProtocolError(400, MUST_BE_REOPENED, f"The server has restarted. Please reopen channel {name}.")
        if channel.code != SUCCESS:
            raise ProtocolError(400, channel.code, f"Channel {name} is invalid. Please reopen the channel.")
        return channel

    def _sequencer(self, channel: OpenChannel, continuation: str) -> int:
        found = _CONTINUATION.fullmatch(continuation)
        if found is None:
            raise ProtocolError(400, INVALID_REQUEST, "Continuation token is invalid.")
        if int(found[1]) != channel.row.client_sequencer:
            raise stale("Channel sequencer in the continuation token is stale.")
        return int(found[2])


def _status(pipe: Pipe, name: str, row: ChannelRow, channel: OpenChannel | None) -> dict[str, Any]:
    """A channel's status as the SDK wants it: it refuses other names than these."""
    latency = channel.latency_ms if channel is not None else None
    return {
        "database_name": pipe.database,
        "schema_name": pipe.schema,
        "pipe_name": pipe.name,
        "channel_name": name,
        "channel_status_code": channel.code if channel is not None else SUCCESS,
        "last_committed_offset_token": row.token,
        "created_on_ms": row.created_ms,
        "rows_inserted": row.rows_inserted,
        "rows_parsed": row.rows_parsed,
        "rows_error_count": row.rows_errors,
        "last_error_offset_upper_bound": row.last_error_token,
        "last_error_message": row.last_error_message,
        "last_error_timestamp_ms": row.last_error_ms,
        "snowflake_avg_processing_latency_ms": None if latency is None else round(latency),
    }


def _key(pipe: Pipe, name: str) -> Key:
    return pipe.database.lower(), pipe.schema.lower(), pipe.name.lower(), name.lower()


def _unknown(name: str) -> ProtocolError:
    return missing(CHANNEL_MISSING, f"Channel {name} does not exist or is not authorized.")


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
