"""Looks at a sink from outside: what Snowflake says of it against what Kafka holds. Changes nothing.

The truth about progress; not whether a process lives, nor what to do about it (`firn.supervisor`). Positions and lag
are those of `firn.operations.offsets`. A look asks Snowflake no more than it must: an idle or paused sink is observed
by fixed texts, which Snowflake may answer without a warehouse, and by what the sink says of itself in Kafka.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from firn.errors import FirnError
from firn.kafka import cluster
from firn.kafka.record_ages import RecordAges
from firn.ledger.control import ControlTable
from firn.ledger.control_record import ControlRecord, DesiredState
from firn.ledger.kafka_names import request_group
from firn.ledger.owner import Owner
from firn.ledger.requests import Request
from firn.ledger.rows import View
from firn.ledger.table import LedgerTable
from firn.operations.life import NO_SIGNS, LifeWatch, ReportWatch, hear
from firn.operations.observation import Depth, Observation, PartitionLag
from firn.operations.offsets import PartitionOffsets, compare
from firn.sinks.context import SinkContext
from firn.sinks.signs import Rates, Sign, say_requested
from firn.snowflake.connection import close_quietly, open_connection

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

ANSWER_SECONDS = 30
"""How long a look waits for Snowflake: a warehouse that has to resume takes some of it."""
MISSED_SIGNS = 2
"""After so many the ledger is asked too: Kafka may refuse them by now."""
NO_LEDGER = View("", None, {})
log = logging.getLogger(__name__)


class Observer:
    """Looks at one sink again and again. Keeps its session and its clients; one thread at a time; `close` ends them.

    A login is used as the context has it: after AuthenticationError (a rotated key) make another from a new context.
    clock: seconds that only grow. asked: how deep the last look asked Snowflake; None where that met an error.
    """

    def __init__(self, context: SinkContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._context = context
        name = context.config.name
        self._table, self._records = LedgerTable(context.namespace, name), ControlTable(context.namespace, name)
        self._admin: cluster.KafkaAdmin | None = None
        self._ages = RecordAges(context.kafka)
        self._session: SnowflakeConnection | None = None
        self._view: View | None = None
        self._record: ControlRecord | None = None
        self._signs, self._life, self._reports = NO_SIGNS, LifeWatch(clock), ReportWatch()
        self._asked_at = NO_SIGNS
        self.asked: Depth | None = None

    def look(self, depth: Depth = Depth.LEDGER) -> Observation:
        """How the sink stands now. It asks more than `depth` where what is said in Kafka shows that more has changed.

        Raises TransientError where Kafka or Snowflake does not answer in time, other FirnErrors where they refuse.
        """
        view = self._ask_anew(depth)
        self._admin = self._admin or cluster.admin_client(self._context.kafka)
        self._signs = hear(self._admin, view.ledger_id, self._context.config.name)
        view = self._ask(self._deeper(view))
        owner = self._life.owner(view, self._signs.sign)
        positions, moved_at = self._reports.positions(view, self._signs.reports)
        found = compare(self._context.config, owner, positions, self._admin)
        read = [each for each in found.partitions if each.read]
        at = datetime.now(UTC)
        seen = self._without_kafka(view, owner)
        commits = [each for each in (_last_commit(read), moved_at) if each]
        return replace(
            seen,
            at=at,
            partitions=self._partitions(read, at),
            last_commit=max(commits, default=None),
            absent=found.absent,
            reported=moved_at is not None,
            rates=_rates(owner, self._signs.sign),
        )

    def ask_snowflake(self, depth: Depth = Depth.LEDGER) -> Observation:
        """What Snowflake alone says, and the signs that were heard last: no partitions. Raises as `look` does."""
        view = self._ask_anew(depth)
        return self._without_kafka(view, self._life.owner(view, self._signs.sign))

    def remembered(self) -> Observation | None:
        """What Snowflake said last, without a look at Kafka; None before it ever answered."""
        view = self._view
        return None if view is None else self._without_kafka(view, self._life.owner(view, self._signs.sign))

    def announce_request(self) -> None:
        """Say in Kafka that something is wanted of the sink, so that its supervisor looks at once. Never raises."""
        view, config = self._view or NO_LEDGER, self._context.config
        where = min(view.positions, default=None)
        if where is None:
            return  # nobody runs what never ran
        try:
            say_requested(self._context.kafka, request_group(view.ledger_id, config.name), where)
        except FirnError as error:
            log.info("The request was not announced in Kafka, the supervisor finds it later: %s", error.what)

    def close(self) -> None:
        """End the session and the clients."""
        self._ages.close()
        self._admin = None
        self._end_session()

    def _without_kafka(self, view: View, owner: Owner | None) -> Observation:
        last = max((each.updated_at for each in view.positions.values() if each.updated_at), default=None)
        desired = self._record.desired if self._record else DesiredState.RUNNING
        return Observation(datetime.now(UTC), (), owner, desired, self._record, last, depth=self.asked or Depth.KAFKA)

    def _ask_anew(self, depth: Depth) -> View:
        """Ask Snowflake as a new look does, whose first question is for everything."""
        self.asked = None
        return self._ask(Depth.LEDGER if self._view is None else depth)

    def _ask(self, depth: Depth) -> View:
        """Ask Snowflake, unless this look asked as much already."""
        asked, self.asked = self.asked or Depth.KAFKA, None
        if depth > asked:
            try:
                self._query(self._session or self._open(), depth)
            except FirnError:
                self._end_session()  # whatever was wrong, the next look begins with a new one
                raise
        self.asked = max(depth, asked)
        return self._view or NO_LEDGER

    def _query(self, session: SnowflakeConnection, depth: Depth) -> None:
        self._session, heard = session, self._signs
        if depth is Depth.LEDGER:
            self._view, self._record = self._table.view(session) or NO_LEDGER, self._records.read(session)
            self._asked_at = heard
        else:
            request = self._records.read_request(session)
            self._record = with_request(self._record, self._context.config.name, request)
            self._asked_at = replace(self._asked_at, requested=heard.requested)

    def _open(self) -> SnowflakeConnection:
        tag = f"firn supervise {self._context.config.name}"
        return open_connection(self._context.login, query_tag=tag, answer_seconds=ANSWER_SECONDS)

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session:
            close_quietly(session)

    def _deeper(self, view: View) -> Depth:
        """How deep this look must ask after what it heard."""
        owner, sign, before = view.owner, self._signs.sign, self._asked_at.sign
        epoch = owner.epoch if owner else 0
        if sign and sign.epoch >= epoch and (before is None or run_moved(before, sign)):
            return Depth.LEDGER
        asked, heartbeat = self.asked or Depth.KAFKA, self._context.config.heartbeat_seconds
        if asked >= Depth.REQUESTS and owner and owner.run_id and heartbeat:
            # A run whose signs do not come may write heartbeats to the ledger instead.
            heard = self._life.owner(view, sign) if sign and sign.epoch == epoch else None
            if heard is None or heard.silent_seconds >= MISSED_SIGNS * heartbeat:
                return Depth.LEDGER
        return max(asked, Depth.REQUESTS if self._signs.requested != self._asked_at.requested else Depth.KAFKA)

    def _partitions(self, found: Iterable[PartitionOffsets], at: datetime) -> tuple[PartitionLag, ...]:
        lags = {each: _lag(each) for each in found}
        # The longest backlogs first: only so many are read.
        waiting = sorted((each for each, lag in lags.items() if lag), key=lambda each: (-(lags[each] or 0), each.where))
        written = self._ages.timestamps({each.where: _first_waiting(each) for each in waiting})
        return tuple(_partition(each, lag, written.get(each.where), at) for each, lag in lags.items())


def _rates(owner: Owner | None, sign: Sign | None) -> Rates | None:
    """What the driver that holds the sink said of its rates."""
    return sign.rates if owner and sign and sign.epoch == owner.epoch and not sign.ended else None


def run_moved(before: Sign, now: Sign) -> bool:
    """Whether the run behind a sign has changed the ledger since the one before."""
    return (before.epoch, before.moves, before.ended) != (now.epoch, now.moves, now.ended)


def with_request(record: ControlRecord | None, sink: str, request: Request | None) -> ControlRecord | None:
    """The record with another desired state."""
    if request is None:
        return record
    return replace(record or ControlRecord(sink), desired=request.desired, desired_by=request.by, desired_at=request.at)


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
