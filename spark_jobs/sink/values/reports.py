"""What a task reports to the driver: small values, one for each thing that happened. Records never come back.

A task does not raise: Spark would turn the error into text and lose its kind. It reports a `Failed` instead.
"""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar, get_args

import orjson

from firn.errors import FirnError
from firn.kafka.partitions import TopicPartition
from firn.ledger.positions import Move

R = TypeVar("R")


@dataclass(frozen=True)
class Receipt:
    """Rows of one partition that the method acknowledged. Offsets are inclusive; bytes as they travelled, and of texts.

    schema_ids: those of the values, though not all of a range that has several receipts. detail: what the method needs
    in order to commit them; for SNOWPIPE the file's path in the stage. Nobody else reads it.
    """

    topic: str
    partition: int
    table: str
    first: int
    last: int
    rows: int
    bytes: int
    text_bytes: int
    schema_ids: list[int] = field(default_factory=list)
    detail: str = ""

    @property
    def where(self) -> TopicPartition:
        """The partition of the rows."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True)
class RangeRead:
    """A range that was read: from `start`, as it was planned, to `end` (exclusive), with so many records.

    It ends before the planned end where its records turned out too large, and at the offset of a Stopped or a Cut. It
    is the last report of its range.
    """

    topic: str
    partition: int
    start: int
    end: int
    records: int

    @property
    def move(self) -> Move:
        """The step of its partition, if nothing stopped it."""
        return Move(TopicPartition(self.topic, self.partition), self.start, self.end)


@dataclass(frozen=True)
class Stopped:
    """The first record of a partition that cannot be converted."""

    topic: str
    partition: int
    offset: int
    reason: str
    detail: str

    @property
    def where(self) -> TopicPartition:
        """The partition that stopped."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True)
class Cut:
    """Where a partition must be planned again, though nothing is wrong with it: what is behind was not read."""

    topic: str
    partition: int
    offset: int
    why: str

    @property
    def where(self) -> TopicPartition:
        """The partition that was cut."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True)
class Tolerated:
    """The bad records of a partition that errors.tolerance=all left out of the table.

    letters: how many of them became dead letters just now. group_offset: the offset that the dead letters' group holds
    since then; -1 where nothing was published. reasons: how many a reason. samples: [offset, reason, detail] of the
    first ones. published: offsets of the letters, in order.
    """

    topic: str
    partition: int
    records: int
    letters: int
    group_offset: int
    reasons: dict[str, int]
    samples: list[tuple[int, str, str]]
    published: list[int] = field(default_factory=list)

    @property
    def where(self) -> TopicPartition:
        """The partition they were in."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True)
class SchemaChangeRequest:
    """Changes that one table needs in order to take the records of one partition; types as they stand in a statement.

    schema_id: of the first record that needs one of them; None where it has none. add: columns by name, in the order
    of their fields. nullable: NOT NULL columns that records have no value for. widen: columns whose type is too narrow,
    and the type they need.
    """

    topic: str
    partition: int
    table: str
    schema_id: int | None
    add: dict[str, str] = field(default_factory=dict)
    nullable: list[str] = field(default_factory=list)
    widen: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SuspectedStaleSchema:
    """A partition whose records do not fit the table as it was before this batch: the table may have changed since.

    Nothing of the partition counts. The driver describes the table again and dispatches the batch again.
    """

    topic: str
    partition: int
    table: str


@dataclass(frozen=True)
class Followed:
    """How far a partition came in a task that lives as long as the run: the last of the reports that it gave.

    next_offset: the first offset that is not durable. token: of its channel. The numbers are of durable rows and of
    published letters, since the task began; `attempt` tells its tasks apart. reasons: how many bad records a reason.
    samples: [offset, reason, detail] of some.
    """

    topic: str
    partition: int
    attempt: int
    counter: int
    next_offset: int
    token: str | None
    rows: int
    text_bytes: int
    letters: int
    reasons: dict[str, int] = field(default_factory=dict)
    samples: list[tuple[int, str, str]] = field(default_factory=list)

    @property
    def where(self) -> TopicPartition:
        """The partition that was followed."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True)
class RowErrors:
    """Rows of a partition that Snowflake refused, though the channel's token has passed them.

    token: up to where the channel is. row_errors: its counter; unaccounted: how many of them no ledger accounts for.
    message: of the last one; bound: the token at or before which it was.
    """

    topic: str
    partition: int
    token: str | None
    row_errors: int
    unaccounted: int
    message: str
    bound: str | None

    @property
    def where(self) -> TopicPartition:
        """The partition of the rows."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True)
class Accounted:
    """A range of which Snowflake refused rows, compared from `start` to `end` (exclusive) with the table.

    rows: that the table holds. refused: rows that it lacks; each of them is a dead letter now, some since an earlier
    try. The range ends early where one transaction holds no more letters.
    """

    topic: str
    partition: int
    start: int
    end: int
    rows: int
    refused: int


@dataclass(frozen=True)
class Retried:
    """What a task tried again, successfully or not: how often for each kind of error."""

    errors: dict[str, int]


@dataclass(frozen=True)
class Failed:
    """An error that ended the task; pickled by Firn itself, so it is safe to load. `failing_seconds`: since when."""

    error: str
    failing_seconds: float = 0.0

    @classmethod
    def of(cls, error: FirnError, failing_seconds: float = 0.0) -> Failed:
        """Wrap an error for the way to the driver."""
        return cls(b64encode(pickle.dumps(error)).decode(), failing_seconds)

    def unwrap(self) -> FirnError:
        """The error as it was raised in the task."""
        error = pickle.loads(b64decode(self.error))  # noqa: S301 - written by our own task in this very batch
        return error if isinstance(error, FirnError) else FirnError(repr(error))


Report = (
    Receipt
    | RangeRead
    | Stopped
    | Cut
    | Tolerated
    | SchemaChangeRequest
    | SuspectedStaleSchema
    | Followed
    | RowErrors
    | Accounted
    | Retried
    | Failed
)
_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Report)}


def dump(report: Report) -> str:
    """One report as JSON text."""
    return orjson.dumps([type(report).__name__, asdict(report)]).decode()


def load(text: str) -> Report:
    """The report that `dump` wrote."""
    kind, fields = orjson.loads(text)
    report: Report = _KINDS[kind](**fields)
    return report


class Reports(list[Report]):
    """What the tasks of a batch reported."""

    def of(self, kind: type[R]) -> list[R]:
        """The reports of one kind."""
        return [report for report in self if isinstance(report, kind)]
