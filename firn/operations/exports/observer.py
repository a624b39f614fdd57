"""Looks at an export from outside: what waits in sources and outboxes, who holds it, what is desired. Changes nothing.

A look asks Snowflake no more than it must: an idle or paused export is observed by questions that cloud services answer
(`firn.exports.asking`, SHOW, DESCRIBE), by fixed texts whose results persist, and by the signs of its driver in Kafka.
Not for what follows from a look (`firn.operations.health`, the supervisor).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from firn.connector.export.config import ExportConfig
from firn.errors import FirnError
from firn.exports import names
from firn.exports.asking import has_data
from firn.exports.context import ExportContext
from firn.exports.ledger import ExportLedger, ExportStanding
from firn.exports.outbox import WaitingBatches, waiting
from firn.exports.source import Source
from firn.exports.sources import discover
from firn.kafka import cluster
from firn.kafka.partitions import TopicPartition
from firn.ledger.control import ControlTable
from firn.ledger.control_record import ControlRecord, DesiredState
from firn.ledger.kafka_names import request_group
from firn.ledger.owner import Owner
from firn.ledger.rows import View
from firn.operations.exports.liveness import ALIVE_SECONDS, owner_view
from firn.operations.health import Pace
from firn.operations.life import NO_SIGNS, LifeWatch, hear
from firn.operations.observation import Depth, Observation, PartitionLag
from firn.operations.observer import ANSWER_SECONDS, run_moved, with_request
from firn.sinks.signs import say_requested
from firn.snowflake.connection import close_quietly, open_connection
from firn.snowflake.faults import MissingObjectError

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

SIGN_SECONDS = 30.0
"""Between two signs of life of an export's driver."""
ASK_SECONDS = 30.0
"""The sources are asked no more often than this: each question is a statement, though no warehouse runs it."""
UNMOVED = "unmoved"
"""State of a source whose changes have not reached the outbox yet; how many they are, only a move can tell."""
log = logging.getLogger(__name__)


def pace_of_export(config: ExportConfig) -> Pace:
    """What is normal for an export: changes wait for the next poll."""
    poll = config.poll
    return Pace("export", ALIVE_SECONDS, 2**62, poll.longest if poll.adaptive else poll.seconds)


@dataclass(frozen=True)
class _Standing:
    """What Snowflake said last of the export: its ledger, its sources, and what waits in their outboxes."""

    ledger: ExportStanding | None = None
    sources: Sequence[tuple[Source, WaitingBatches]] = ()

    @property
    def last_moved(self) -> Mapping[str, int]:
        return {name: state.last_batch for name, state in self.ledger.sources.items()} if self.ledger else {}

    @property
    def view(self) -> View:
        """The owner as the watch of life takes it."""
        return owner_view(self.ledger)


class ExportObserver:
    """Looks at one export again and again. Keeps its session and its clients; one thread at a time; `close` ends them.

    clock: seconds that only grow. asked: how deep the last look asked Snowflake; None where that met an error.
    """

    def __init__(self, context: ExportContext, clock: Callable[[], float] = time.monotonic) -> None:
        self._context, self._config, self._clock = context, context.config, clock
        self._name = names.control_name(context.config.name)
        self._ledger = ExportLedger(context.namespace, context.config.name)
        self._records = ControlTable(context.namespace, self._name)
        self._life = LifeWatch(clock)
        self._session: SnowflakeConnection | None = None
        self._admin: cluster.KafkaAdmin | None = None
        self._standing: _Standing | None = None
        self._record: ControlRecord | None = None
        self._signs = self._asked_at = NO_SIGNS
        self._pending: dict[str, float] = {}
        self._asked_sources = float("-inf")
        self.asked: Depth | None = None

    def look(self, depth: Depth = Depth.LEDGER) -> Observation:
        """How the export stands now. It asks more than `depth` where its signs in Kafka show that more has changed.

        Raises TransientError where Kafka or Snowflake does not answer in time, other FirnErrors where they refuse.
        """
        standing = self._ask_anew(depth)
        self._admin = self._admin or cluster.admin_client(self._context.kafka)
        self._signs = hear(self._admin, standing.view.ledger_id, self._name)
        standing = self._ask(self._deeper(standing))
        self._ask_sources(standing)
        at, sign = datetime.now(UTC), self._signs.sign
        partitions = tuple(self._partition(*each, at) for each in standing.sources)
        rates = sign.rates if sign and standing.ledger and sign.epoch == standing.ledger.epoch else None
        return replace(self._without_kafka(standing), at=at, partitions=partitions, rates=rates)

    def ask_snowflake(self, depth: Depth = Depth.LEDGER) -> Observation:
        """What Snowflake alone says, and the signs that were heard last. Raises as `look` does."""
        return self._without_kafka(self._ask_anew(depth))

    def remembered(self) -> Observation | None:
        """What Snowflake said last, without a look at Kafka; None before it ever answered."""
        return None if self._standing is None else self._without_kafka(self._standing)

    def announce_request(self) -> None:
        """Say in Kafka that something is wanted of the export, so that its supervisor looks at once. Never raises."""
        ledger = self._standing.ledger if self._standing else None
        if ledger is None:
            return  # nobody runs what never ran
        group, where = request_group(ledger.id, self._name), TopicPartition(self._config.marker_topic, 0)
        try:
            say_requested(self._context.kafka, group, where)
        except FirnError as error:
            log.info("The request was not announced in Kafka, the supervisor finds it later: %s", error.what)

    def close(self) -> None:
        """End the session and the clients."""
        self._admin = None
        self._end_session()

    def _without_kafka(self, standing: _Standing) -> Observation:
        desired = self._record.desired if self._record else DesiredState.RUNNING
        owner = self._owner(standing)
        return Observation(datetime.now(UTC), (), owner, desired, self._record, depth=self.asked or Depth.KAFKA)

    def _owner(self, standing: _Standing) -> Owner | None:
        sign, owner = self._signs.sign, self._life.owner(standing.view, self._signs.sign)
        ended = bool(owner and sign and sign.ended and sign.epoch == owner.epoch)
        return replace(owner, run_id="") if owner and ended else owner

    def _ask_anew(self, depth: Depth) -> _Standing:
        self.asked = None
        return self._ask(Depth.LEDGER if self._standing is None else depth)

    def _ask(self, depth: Depth) -> _Standing:
        """Ask Snowflake, unless this look asked as much already."""
        asked, self.asked = self.asked or Depth.KAFKA, None
        if depth > asked:
            self._run(lambda session: self._query(session, depth))
        self.asked = max(depth, asked)
        return self._standing or _Standing()

    def _query(self, session: SnowflakeConnection, depth: Depth) -> None:
        if depth is Depth.LEDGER:
            self._standing, self._record = self._read(session), self._records.read(session)
            self._asked_at = self._signs
        else:
            self._record = with_request(self._record, self._name, self._records.read_request(session))
            self._asked_at = replace(self._asked_at, requested=self._signs.requested)

    def _read(self, session: SnowflakeConnection) -> _Standing:
        """Fixed texts alone, and metadata: nothing of it needs a warehouse while nobody moves or settles."""
        ledger = self._ledger.standing(session)
        found = discover(session, self._config, self._context.namespace)
        return _Standing(ledger, [(source, _waiting(session, source)) for source in found])

    def _ask_sources(self, standing: _Standing) -> None:
        """Whether sources hold changes that nobody moved, asked without a warehouse and not at every look."""
        if self._clock() - self._asked_sources < ASK_SECONDS:
            return
        states = standing.ledger.sources if standing.ledger else {}

        def ask(session: SnowflakeConnection) -> None:
            for source, _ in standing.sources:
                state = states.get(source.name)
                pending = has_data(session, source, state.seen if state else None).has_data
                if pending:
                    self._pending.setdefault(source.name, self._clock())
                else:
                    self._pending.pop(source.name, None)

        self._run(ask)
        self._asked_sources = self._clock()

    def _run(self, ask: Callable[[SnowflakeConnection], None]) -> None:
        """Ask in the session; whatever was wrong, the next look begins with a new one."""
        try:
            if self._session is None:
                tag = names.query_tag(self._config.name)
                self._session = open_connection(self._context.login, query_tag=tag, answer_seconds=ANSWER_SECONDS)
            ask(self._session)
        except FirnError:
            self._end_session()
            raise

    def _end_session(self) -> None:
        session, self._session = self._session, None
        if session:
            close_quietly(session)

    def _deeper(self, standing: _Standing) -> Depth:
        """How deep this look must ask after what it heard."""
        sign, before = self._signs.sign, self._asked_at.sign
        epoch = standing.ledger.epoch if standing.ledger else 0
        if sign and sign.epoch >= epoch and (before is None or run_moved(before, sign)):
            return Depth.LEDGER
        asked = self.asked or Depth.KAFKA
        return max(asked, Depth.REQUESTS if self._signs.requested != self._asked_at.requested else Depth.KAFKA)

    def _partition(self, source: Source, waits: WaitingBatches, at: datetime) -> PartitionLag:
        """A source as the place where its changes go on: batches as offsets, rows as lag."""
        standing = self._standing or _Standing()
        moved, since = standing.last_moved.get(source.name, 0), self._pending.get(source.name)
        first = min((each.first for each in waits.shards), default=moved + 1)
        ages = [(at - waits.oldest).total_seconds()] if waits.oldest else []
        ages += [self._clock() - since] if since is not None else []
        return PartitionLag(
            topic=source.topic,
            partition=0,
            table=source.name,
            next_offset=first,
            end_offset=moved + 1,
            lag=waits.rows + (since is not None),
            lag_seconds=max(0.0, *ages) if ages else None,
            state=UNMOVED if since is not None else "ok",
        )


def _waiting(session: SnowflakeConnection, source: Source) -> WaitingBatches:
    try:
        return waiting(session, source)
    except MissingObjectError:  # before its first run
        return WaitingBatches()
