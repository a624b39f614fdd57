"""Looks at a sink from outside: ledger and FIRN_SINKS against what Kafka holds. Changes nothing.

The truth about progress; not whether a process lives, nor what to do about it (`firn.supervisor`). Positions and lag
are those of `firn.operations.offsets`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from firn.errors import FirnError
from firn.kafka import cluster
from firn.kafka.partitions import TopicPartition
from firn.kafka.record_ages import RecordAges
from firn.ledger.control import ControlTable
from firn.ledger.control_record import ControlRecord, DesiredState
from firn.ledger.owner import Owner
from firn.ledger.positions import Position
from firn.ledger.table import LedgerTable
from firn.operations.observation import Observation, PartitionLag
from firn.operations.offsets import PartitionOffsets, committed, compare
from firn.sinks.context import SinkContext
from firn.snowflake.connection import close_quietly, open_connection

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

ANSWER_SECONDS = 30
"""How long a look waits for Snowflake: a warehouse that has to resume takes some of it."""


class Observer:
    """Looks at one sink again and again. Keeps its session and its clients; one thread at a time; `close` ends them.

    A login is used as the context has it: after AuthenticationError (a rotated key) make another from a new context.
    """

    def __init__(self, context: SinkContext) -> None:
        self._context = context
        name = context.config.name
        self._table, self._records = LedgerTable(context.namespace, name), ControlTable(context.namespace, name)
        self._admin: cluster.KafkaAdmin | None = None
        self._ages = RecordAges(context.kafka)
        self._session: SnowflakeConnection | None = None
        self._seen: tuple[Owner | None, Mapping[TopicPartition, Position], ControlRecord | None] | None = None

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
            record.desired if record else DesiredState.RUNNING,
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
        owner: Owner | None, positions: Mapping[TopicPartition, Position], record: ControlRecord | None
    ) -> Observation:
        last = max((each.updated_at for each in positions.values() if each.updated_at), default=None)
        return Observation(
            datetime.now(UTC), (), owner, record.desired if record else DesiredState.RUNNING, record, last
        )

    def close(self) -> None:
        """End the session and the clients."""
        self._ages.close()
        self._admin = None
        self._end_session()

    def _ask_snowflake(self) -> tuple[Owner | None, Mapping[TopicPartition, Position], ControlRecord | None]:
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
