"""A batch of the sink as a value: read and dispatched, and committed. Not for how either is done (`batch`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from firn.dead_letters.published import PartitionLetters
from firn.kafka.partitions import TopicPartition
from firn.ledger.owner import Totals
from firn.ledger.positions import Move
from spark_jobs.sink.values.reports import Cut, RangeRead, Receipt, Reports, Stopped, Tolerated

PublishedLetters: TypeAlias = Mapping[TopicPartition, PartitionLetters]
"""Dead letters of each partition that are published and not committed yet."""
RejectedRows: TypeAlias = dict[TopicPartition, dict[int, str]]
"""By partition and offset: why Snowflake refused the row of a record that was converted."""


@dataclass(frozen=True)
class DispatchedBatch:
    """A batch that tasks have read and handed to the method: it waits for its commit.

    reports: of its tasks. published: the dead letters of its partitions. seconds: how long the tasks took.
    """

    name: str
    reports: Reports
    published: PublishedLetters
    seconds: float

    @property
    def receipts(self) -> list[Receipt]:
        """What the method acknowledged."""
        return self.reports.of(Receipt)

    @property
    def ranges(self) -> list[Move]:
        """How far each range was read."""
        return [each.move for each in self.reports.of(RangeRead)]

    @property
    def ends(self) -> list[Stopped | Cut]:
        """Where partitions must not be passed: nothing behind is planned from here."""
        return [*self.reports.of(Stopped), *self.reports.of(Cut)]

    @property
    def tolerated(self) -> list[Tolerated]:
        """The bad records that were left out."""
        return self.reports.of(Tolerated)

    @property
    def totals(self) -> Totals:
        """What the batch adds to the totals of its sink."""
        rows, text_bytes = sum(each.rows for each in self.receipts), sum(each.text_bytes for each in self.receipts)
        bad, letters = sum(each.records for each in self.tolerated), sum(each.letters for each in self.tolerated)
        return Totals(rows, text_bytes, 1, bad, letters)


@dataclass(frozen=True)
class CommittedBatch:
    """What one batch brought.

    bytes: as they travelled to Snowflake. text_bytes: of the rows' texts. receipts: how many the method gave, for
    SNOWPIPE one a file. tolerated: the bad records that errors.tolerance=all left out. schema_ids: of the values, each
    once.
    """

    name: str
    rows: int
    bytes: int
    text_bytes: int
    receipts: int
    moves: tuple[Move, ...]
    tolerated: tuple[Tolerated, ...]
    dispatch_seconds: float
    commit_seconds: float
    schema_ids: tuple[int, ...] = ()

    @property
    def bad_records(self) -> int:
        """Records that were left out."""
        return sum(each.records for each in self.tolerated)

    @property
    def dead_letters(self) -> int:
        """How many of them this batch published."""
        return sum(each.letters for each in self.tolerated)

    @property
    def totals(self) -> Totals:
        """What the batch added to the totals of its sink."""
        return Totals(self.rows, self.text_bytes, 1, self.bad_records, self.dead_letters)

    @property
    def reasons(self) -> dict[str, int]:
        """How many records were left out for each reason."""
        counts: dict[str, int] = {}
        for each in self.tolerated:
            for reason, records in each.reasons.items():
                counts[reason] = counts.get(reason, 0) + records
        return counts
