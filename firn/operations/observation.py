"""How a sink stands, seen from outside: the ledger and FIRN_SINKS against what Kafka holds. Changes nothing.

The truth about progress; not whether a process lives, nor what to do about it (`supervisor`). Positions and lag are
those of `firn.operations.offsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from firn.errors import FirnError
from firn.kafka import cluster
from firn.kafka.partitions import TopicPartition
from firn.kafka.record_ages import RecordAges
from firn.ledger.control import SinkRecord, SinkRecords, Wanted
from firn.ledger.owner import Owner
from firn.ledger.positions import Position
from firn.ledger.table import LedgerTable
from firn.operations.offsets import PartitionOffsets, committed, compare
from firn.sinks.context import SinkContext
from firn.snowflake.connection import close_quietly, open_connection

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

ANSWER_SECONDS = 30
"""How long a look waits for Snowflake: a warehouse that has to resume takes some of it."""


@dataclass(frozen=True)
class PartitionLag:
    """One partition that the sink reads.

    next_offset: the committed position, or where the sink begins. end_offset: after the last record; None where Kafka
    has no such partition, as for lag. lag: records between them that Kafka holds, at most (gaps count); all of a topic
    that was made again. lag_seconds: how old the first of them is; None without lag and where nobody found out.
    blocked: those of the lag that an open transaction keeps back. ahead: the committed position is past Kafka's end.
    state: a word of `offsets.PartitionOffsets`.
    """

    topic: str
    partition: int
    table: str
    next_offset: int | None
    end_offset: int | None
    lag: int | None
    lag_seconds: float | None = None
    ahead: bool = False
    state: str = "ok"
    blocked: int = 0

    @property
    def waiting(self) -> int:
        """Those of the lag that can be read now."""
        return max(0, (self.lag or 0) - self.blocked)


@dataclass(frozen=True)
class Observation:
    """One look. at: when (UTC). absent: topics of the configuration that neither Kafka nor the ledger knows.

    owner: who holds the sink, by the ledger; None before its first claim. record: its row in FIRN_SINKS, if any. Both
    are those of the last look that asked Snowflake. unseen: why Kafka could not be looked at, so that there are no
    partitions: what people want holds all the same.
    """

    at: datetime
    partitions: tuple[PartitionLag, ...]
    owner: Owner | None
    wanted: Wanted
    record: SinkRecord | None
    last_commit: datetime | None = None
    absent: tuple[str, ...] = ()
    unseen: FirnError | None = None

    @property
    def lag(self) -> int:
        """Records that wait in all partitions, at most."""
        return sum(each.lag or 0 for each in self.partitions)

    @property
    def waiting(self) -> int:
        """Those of them that can be read now."""
        return sum(each.waiting for each in self.partitions)

    @property
    def lag_seconds(self) -> float | None:
        """How old the oldest record is that waits; None where none waits or nobody found out."""
        return max((each.lag_seconds for each in self.partitions if each.lag_seconds is not None), default=None)


class Observer:
    """Looks at one sink again and again. Keeps its session and its clients; one thread at a time; `close` ends them.

    A login is used as the context has it: after AuthenticationError (a rotated key) make another from a new context.
    """

    def __init__(self, context: SinkContext) -> None:
        self._context = context
        name = context.config.name
        self._table, self._records = LedgerTable(context.namespace, name), SinkRecords(context.namespace, name)
        self._admin: cluster.KafkaAdmin | None = None
        self._ages = RecordAges(context.kafka)
        self._session: SnowflakeConnection | None = None
        self._seen: tuple[Owner | None, Mapping[TopicPartition, Position], SinkRecord | None] | None = None

    def look(self, *, ledger: bool = True) -> Observation:
        """How the sink stands now. Without `ledger` Kafka alone is asked, once the ledger was: it costs nothing.

        Raises TransientError where Kafka or Snowflake does not answer in time, other FirnErrors where they refuse.
        """
        if ledger or self._seen is None:
            self._seen = self._ask_snowflake()
        owner, positions, record = self._seen
        self._admin = self._admin or cluster.admin_client(self._context.kafka)
        found = compare(self._context.config, owner, positions, self._admin)
        read = [each for each in found.partitions if each.read]
        at = datetime.now(UTC)
        return Observation(
            at,
            self._partitions(read, at),
            owner,
            record.wanted if record else Wanted.RUNNING,
            record,
            _last_commit(read),
            found.absent,
        )

    def ask_ledger(self) -> Observation:
        """What Snowflake alone says: no partitions. Raises as `look` does."""
        self._seen = self._ask_snowflake()
        return self._without_kafka(*self._seen)

    def remembered(self) -> Observation | None:
        """What Snowflake said last, without a look at Kafka; None before it ever answered."""
        return None if self._seen is None else self._without_kafka(*self._seen)

    @staticmethod
    def _without_kafka(
        owner: Owner | None, positions: Mapping[TopicPartition, Position], record: SinkRecord | None
    ) -> Observation:
        last = max((each.updated_at for each in positions.values() if each.updated_at), default=None)
        return Observation(datetime.now(UTC), (), owner, record.wanted if record else Wanted.RUNNING, record, last)

    def close(self) -> None:
        """End the session and the clients."""
        self._ages.close()
        self._admin = None
        self._end_session()

    def _ask_snowflake(self) -> tuple[Owner | None, Mapping[TopicPartition, Position], SinkRecord | None]:
        try:
            if self._session is None:
                tag = f"firn supervise {self._context.config.name}"
                self._session = open_connection(self._context.login, query_tag=tag, answer_seconds=ANSWER_SECONDS)
            return (*committed(self._table, self._session), self._records.read(self._session))
        except FirnError:
            self._end_session()  # whatever was wrong, the next look begins with a new one
            raise

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session:
            close_quietly(session)

    def _partitions(self, found: Iterable[PartitionOffsets], at: datetime) -> tuple[PartitionLag, ...]:
        lags = {each: _lag(each) for each in found}
        # The longest backlogs first: only so many are read.
        waiting = sorted((each for each, lag in lags.items() if lag), key=lambda each: (-(lags[each] or 0), each.where))
        written = self._ages.timestamps({each.where: _first_waiting(each) for each in waiting})
        return tuple(_partition(each, lag, written.get(each.where), at) for each, lag in lags.items())


def _lag(found: PartitionOffsets) -> int | None:
    return None if found.seen is None else found.seen.latest - _first_waiting(found)


def _first_waiting(found: PartitionOffsets) -> int:
    """The first offset that Kafka holds and the table may not; 0 where Kafka has no such partition."""
    if found.seen is None:
        return 0
    if found.start is not None:
        return max(found.start, found.seen.earliest)
    return found.seen.latest if found.state == "ahead" else found.seen.earliest


def _ahead(found: PartitionOffsets) -> bool:
    return bool(found.committed and found.seen and found.committed.next_offset > found.seen.latest)


def _partition(found: PartitionOffsets, lag: int | None, written: int | None, at: datetime) -> PartitionLag:
    return PartitionLag(
        topic=found.where.topic,
        partition=found.where.partition,
        table=found.table,
        next_offset=found.committed.next_offset if found.committed else found.start,
        end_offset=found.seen.latest if found.seen else None,
        lag=lag,
        # Producers have clocks of their own: a record from the future just came.
        lag_seconds=None if written is None else max(0.0, at.timestamp() - written / 1000),
        ahead=_ahead(found),
        state=found.state,
        blocked=found.seen.latest - found.seen.readable if found.seen else 0,
    )


def _last_commit(found: Iterable[PartitionOffsets]) -> datetime | None:
    times = (each.committed.updated_at for each in found if each.committed and each.committed.updated_at)
    return max(times, default=None)
