"""One partition in a task that lives as long as the run: its records become rows of its channel, in order.

Each pass takes what was fetched, then publishes its dead letters, and only then writes its rows: no token passes a bad
record whose letter is not published. Where the table must change nothing of the pass counts. Not for when passes happen
(`group_task`), nor for what a record becomes (`partition_rows`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firn.channels.faults import BackpressureError
from firn.channels.tokens import Token
from firn.dead_letters.published import PartitionLetters
from firn.kafka.follower import FollowedBatch
from firn.kafka.partitions import TopicPartition
from spark_jobs.sink.dead_letters.tolerance import SAMPLES, Tolerance
from spark_jobs.sink.methods.base import ContinuousWriter
from spark_jobs.sink.task.durable_rows import DurableRows
from spark_jobs.sink.task.partition_rows import PartitionRows, Write
from spark_jobs.sink.values.reports import (
    Cut,
    Followed,
    Report,
    RowErrors,
    SchemaChangeRequest,
    Stopped,
    SuspectedStaleSchema,
    Tolerated,
)

MOST_LISTED = 100_000
"""So many dead letters of a partition are kept in mind; then the ledger has to move, which forgets them."""
_Held = tuple[npt.NDArray[np.int64], Sequence[pa.StringArray], Iterable[int]]


@dataclass(frozen=True)
class PartitionWork:
    """A partition that a task follows. Holds no credential: Spark writes it to a file on its way to the task.

    letters: its dead letters from the ledger's position on. until: where the task may leave it; None: never.
    """

    where: TopicPartition
    topic_id: str
    letters: PartitionLetters
    until: int | None = None


@dataclass(frozen=True)
class Conversion:
    """Makes what a partition's records are converted with: bad ones go to `tolerance`, rows to `write`."""

    tolerance: Callable[[PartitionLetters], Tolerance]
    rows: Callable[[Tolerance, Write], PartitionRows]


class FollowedPartition:
    """One partition, from its writer's position on. attempt: of the task, within its epoch.

    row_errors: set where Snowflake refused rows that nobody has accounted for. saturated: whether rows wait for room.
    """

    def __init__(self, work: PartitionWork, writer: ContinuousWriter, conversion: Conversion, attempt: int) -> None:
        self.where, self._until, self._attempt = work.where, work.until, attempt
        self._writer, self._conversion, self._letters = writer, conversion, work.letters
        self.state = DurableRows(writer.position)
        self.row_errors: RowErrors | None = None
        self._held: deque[_Held] = deque()
        self._end, self._last, self._text_bytes = writer.position, -1, writer.text_bytes
        self._token: str | None = None
        self._reasons: Counter[str] = Counter()
        self._published = self._counter = 0
        self._samples: list[tuple[int, str, str]] = []
        self._begin()

    def _begin(self) -> None:
        self._tolerance = self._conversion.tolerance(self._letters)
        self._rows = self._conversion.rows(self._tolerance, lambda *rows: self._held.append(rows))

    @property
    def saturated(self) -> bool:
        """Whether rows wait until the writer has room."""
        return bool(self._held)

    @property
    def held(self) -> int:
        """Bytes of rows that wait for room."""
        return sum(column.nbytes for _, columns, _ in self._held for column in columns)

    @property
    def ended(self) -> Stopped | Cut | SchemaChangeRequest | SuspectedStaleSchema | RowErrors | None:
        """Why nothing more of the partition can be taken by this task, if so."""
        return self.row_errors or self._rows.schema_report or self._rows.ended

    @property
    def finite(self) -> bool:
        """Whether the task may leave the partition somewhere."""
        return self._until is not None

    @property
    def done(self) -> bool:
        """Whether the partition is where the task may leave it."""
        return self._until is not None and self.state.durable >= self._until

    @property
    def settled(self) -> bool:
        """Whether all that was written is where it belongs: durable, or accounted as far as the task can."""
        token = Token.parse(self._token)
        if self.row_errors:
            return self._last < 0 or (token is not None and token.offset >= self._last)
        return self.state.settled and not self._held

    def take(self, followed: FollowedBatch) -> None:
        """Convert what was fetched of it; `release` follows, once it is certain whose records these are."""
        _, batch, end = followed
        if self.ended:
            return
        if self._until is not None and end > self._until:
            batch, end = _before(batch, self._until), max(self._until, self._end)
        if batch is not None and batch.num_rows:
            self._rows.convert(batch)
        if self._rows.schema_report:
            self._held.clear()
        elif self._rows.ended:
            self._end = self._rows.ended.offset
        else:
            self._end = end

    def release(self) -> None:
        """Publish the dead letters, then write the rows, as far as the writer takes them now."""
        if self._rows.schema_report:
            return
        self._publish()
        while self._held:
            offsets, columns, schema_ids = self._held[0]
            try:
                if len(offsets):
                    self._writer.write(offsets, columns, schema_ids)
            except BackpressureError:
                return
            self._held.popleft()
            if len(offsets):
                self._last = int(offsets[-1])
                self.state.wrote(self._last, len(offsets), self._writer.text_bytes - self._text_bytes)
                self._text_bytes = self._writer.text_bytes
        self.state.passed(self._end)

    def _publish(self) -> None:
        if (tolerated := self._tolerance.publish()) is None:
            return
        self._count(tolerated)
        if tolerated.group_offset >= 0:
            published = self._letters.published | set(tolerated.published)
            self._letters = PartitionLetters(tolerated.group_offset, published)
            if len(published) > MOST_LISTED and self._rows.ended is None:
                self._rows.ended = Cut(*self.where, self._end, "its list of dead letters is long")
        self._tolerance = self._rows.tolerance = self._conversion.tolerance(self._letters)

    def _count(self, tolerated: Tolerated) -> None:
        self._reasons.update(tolerated.reasons)
        self._published += tolerated.letters
        self._samples = [*self._samples, *tolerated.samples][-SAMPLES:]

    def look(self) -> None:
        """Take over how far the channel is. Raises ChannelInvalidError."""
        progress = self._writer.progress()
        self._token = progress.token
        if progress.unaccounted:
            errors, message = (progress.row_errors, progress.unaccounted), progress.last_error or "no reason is given"
            self.row_errors = RowErrors(*self.where, progress.token, *errors, message, progress.error_bound)
        else:
            self.state.covered(progress.next_offset)

    def reopen(self) -> int:
        """Begin again where the channel says, which lost what it does not cover; returns that offset."""
        self._writer.reopen()
        self._held.clear()
        self.state.restart(self._writer.position)
        self._end, self._last, self._text_bytes = self._writer.position, -1, self._writer.text_bytes
        self._begin()
        return self._end

    def followed(self) -> Followed:
        """How far it is: another report each time."""
        self._counter += 1
        return Followed(
            *self.where,
            attempt=self._attempt,
            counter=self._counter,
            next_offset=self.state.durable,
            token=self._token,
            rows=self.state.rows,
            text_bytes=self.state.bytes,
            letters=self._published,
            reasons=dict(self._reasons),
            samples=self._samples,
        )

    def reports(self) -> list[Report]:
        """What it says at the task's end."""
        return [self.followed(), *([self.ended] if self.ended else [])]


def _before(batch: pa.RecordBatch | None, end: int) -> pa.RecordBatch | None:
    """The records below an offset."""
    if batch is None:
        return None
    return batch.slice(0, int(np.searchsorted(batch.column("offset").to_numpy(), end)))
