"""The writer of one partition's channel: rows in, in order, and how far they are durable.

Tokens are offsets with the sink's generation. Rows count when the channel's token has passed them and none of them was
rejected; what the client took is no promise. A channel that takes no more rows is opened again, a few times while
nothing becomes durable: then its fault is one that opening does not mend.
Not for whose channel it is (`tasks`), nor for what rows are (`rows`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firn.channels.client import OpenChannel
from firn.channels.faults import ChannelInvalidError
from firn.channels.lines import Lines
from firn.channels.recorded import SUCCESS, ChannelSeen, RecordedChannel
from firn.channels.tokens import Token, next_offset
from firn.errors import ClaimAgainError, FirnError, TransientError
from firn.sinks.channel_folding import lost
from spark_jobs.sink.decode.base.capacity import text_bounds
from spark_jobs.sink.methods.base import PartitionRange, Progress, RefusedRowsError
from spark_jobs.sink.methods.streaming.rows import rows_of
from spark_jobs.sink.values.reports import Receipt

APPEND_BYTES = 1024 * 1024
"""Text that one append takes: small enough that a client with little room takes it soon, and that its copies on the
way find their memory in the processor's cache."""
MOST_REOPENINGS = 5
"""So often a channel is opened again without anything of it becoming durable meanwhile."""
DURABLE_SECONDS = 60.0
"""How long `flush` waits for rows that Snowflake has taken."""
LOOK_SECONDS = 0.05


@dataclass(frozen=True)
class Opening:
    """How a writer begins again. begin: opens the channel, then asks the ledger; gives the channel and NEXT_OFFSET.

    recorded: what the ledger knows of the channel, with the baseline of its row errors. generation: of its tokens.
    """

    begin: Callable[[], tuple[OpenChannel, int]]
    recorded: RecordedChannel
    generation: int


class ChannelWriter:
    """A `ContinuousWriter` of a channel that was opened before `position` was read. text_bytes: of the rows taken."""

    def __init__(self, target: PartitionRange, opening: Opening, channel: OpenChannel, position: int) -> None:
        self._target, self._opening = target, opening
        self.text_bytes = 0
        self.position = self._taken = 0
        self._rows = self._reopenings = 0
        self._fault: ChannelInvalidError | None = None
        self._flushed = _Unflushed()
        self._refused: tuple[int, int, Lines] | None = None  # kept, for they are offered again at once
        self._channel = self._begun(channel, position)

    def _begun(self, channel: OpenChannel, position: int) -> OpenChannel:
        recorded, where = self._opening.recorded, self._target.where
        if fault := lost(recorded, channel.seen):
            channel.close(flush=False)
            raise ClaimAgainError(f"The channel of {where} is not the one that was claimed: {fault}.")
        self._taken = max(position, next_offset(channel.seen.token, self._opening.generation) or 0)
        # Which rows were refused nobody knows: of what lies between the ledger and the token nothing counts as durable.
        self.position = position if channel.seen.unaccounted(recorded) > 0 else self._taken
        return channel

    def write(
        self, offsets: npt.NDArray[np.int64], columns: Sequence[pa.StringArray], schema_ids: Iterable[int] = ()
    ) -> None:
        """As `ContinuousWriter.write`: rows that it took before, or that are durable, are passed over."""
        with self._noting_faults():
            for start, stop in _parts(offsets, columns, self._taken):
                first, last = int(offsets[start]), int(offsets[stop - 1])
                if self._refused is None or self._refused[:2] != (first, last):
                    built = rows_of(self._target.loader, [column.slice(start, stop - start) for column in columns])
                    self._refused = (first, last, built)
                rows, generation = self._refused[2], self._opening.generation
                self._channel.append(rows, Token(generation, first), Token(generation, last))
                size = sum(_size(column, start, stop) for column in columns)
                self._flushed.add(first, last, len(rows), size)
                self._taken, self._rows, self._refused = last + 1, self._rows + len(rows), None
                self.text_bytes += size
        self._flushed.schema_ids.update(schema_ids)

    def progress(self) -> Progress:
        """As `ContinuousWriter.progress`."""
        with self._noting_faults():
            seen = self._channel.status()
            if seen.status_code != SUCCESS:
                raise ChannelInvalidError(
                    f"The channel of {self._target.where} takes no more rows: {seen.status_code}.",
                    where=f"table {self._target.table}",
                    code=seen.status_code,
                )
        durable = max(self.position, next_offset(seen.token, self._opening.generation) or 0)
        if durable > self.position:
            self._reopenings = 0
        return self._progress(durable, seen)

    def _progress(self, durable: int, seen: ChannelSeen) -> Progress:
        seen = max(seen, self._channel.seen, key=_age)  # what the client knows of it may be a second old
        return Progress(
            durable,
            seen.token,
            self._rows,
            seen.row_errors,
            max(0, seen.unaccounted(self._opening.recorded)),
            seen.last_error,
            seen.error_bound,
        )

    def reopen(self) -> None:
        """As `ContinuousWriter.reopen`."""
        if self._fault and self._reopenings >= MOST_REOPENINGS:
            raise self._fault
        self._reopenings += 1
        self._channel.close(flush=False)
        self._flushed, self._refused = _Unflushed(), None
        before = self.position
        self._channel = self._begun(*self._opening.begin())
        if self.position > before:
            self._reopenings = 0

    def flush(self) -> list[Receipt]:
        """As `Writer.flush`: waits until the rows are durable.

        Raises RefusedRowsError where Snowflake rejected some, TransientError where they are not durable in time, and
        ChannelInvalidError.
        """
        flushed, self._flushed = self._flushed, _Unflushed()
        if not flushed.rows:
            return []
        deadline = time.monotonic() + DURABLE_SECONDS
        with self._noting_faults():
            self._channel.push()
        while (progress := self.progress()).next_offset <= flushed.last:
            if time.monotonic() > deadline:
                raise TransientError(
                    f"Rows of {self._target.where} did not become durable within {DURABLE_SECONDS:.0f} s.",
                    where=f"table {self._target.table}",
                )
            time.sleep(LOOK_SECONDS)
        if progress.unaccounted:
            raise RefusedRowsError(
                f"Snowflake rejected {progress.unaccounted} of the rows of {self._target.where}: {progress.last_error}",
                where=f"table {self._target.table}, at or before token {progress.error_bound}",
            )
        return [flushed.receipt(self._target)]

    def close(self, *, flush: bool) -> None:
        """As `ContinuousWriter.close`."""
        self._channel.close(flush=flush)

    @contextmanager
    def _noting_faults(self) -> Iterator[None]:
        try:
            yield
        except ChannelInvalidError as error:
            self._fault = error
            raise


def _age(seen: ChannelSeen) -> tuple[Token, int]:
    """Rises with everything that happens to a channel."""
    return Token.parse(seen.token) or Token(-1, -1), seen.row_errors


class UnmadeTableWriter:
    """The writer of a table that records have to make first: it has no channel, and takes no rows."""

    def __init__(self, position: int) -> None:
        self.position, self.text_bytes = position, 0

    def write(
        self, offsets: npt.NDArray[np.int64], _columns: Sequence[pa.StringArray], _schema_ids: Iterable[int] = ()
    ) -> None:
        """No rows. Raises FirnError for any."""
        if len(offsets):
            raise FirnError("Rows came for a table that is not made yet.")

    def flush(self) -> list[Receipt]:
        """Nothing."""
        return []

    def progress(self) -> Progress:
        """Where it began."""
        return Progress(self.position, None, 0, 0)

    def reopen(self) -> None:
        """Nothing."""

    def close(self, *, flush: bool) -> None:
        """Nothing."""


class _Unflushed:
    """The rows since the last flush, for its receipt."""

    def __init__(self) -> None:
        self.first = self.last = -1
        self.rows = self.bytes = 0
        self.schema_ids: set[int] = set()

    def add(self, first: int, last: int, rows: int, size: int) -> None:
        self.first = first if self.first < 0 else self.first
        self.last, self.rows, self.bytes = last, self.rows + rows, self.bytes + size

    def receipt(self, target: PartitionRange) -> Receipt:
        ids, (topic, partition) = sorted(self.schema_ids), target.where
        return Receipt(topic, partition, target.table, self.first, self.last, self.rows, self.bytes, self.bytes, ids)


def _parts(offsets: npt.NDArray[np.int64], columns: Sequence[pa.StringArray], taken: int) -> Iterator[tuple[int, int]]:
    """Ranges of rows from offset `taken` on, each of APPEND_BYTES of text at most, one row at least."""
    start = int(np.searchsorted(offsets, taken))
    if start == len(offsets):
        return
    ends = np.zeros(len(offsets), np.int64)
    for column in columns:
        bounds = text_bounds(column)
        ends += bounds[1:] - bounds[0]
    while start < len(offsets):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + APPEND_BYTES, side="right")))
        yield start, stop
        start = stop


def _size(column: pa.StringArray, start: int, stop: int) -> int:
    bounds = text_bounds(column)
    return int(bounds[stop] - bounds[start])
