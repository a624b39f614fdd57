"""One epoch of a sink: claim it, prepare the method, and stream until something ends it.

Beside the stream, once a second, the driver's main thread asks whether the epoch should end (`EpochWatch`).
Not for what follows an epoch's end (`run`), nor for what a batch does (`batch`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from snowflake.connector import SnowflakeConnection

from firn.dead_letters.queue import dead_letter_topic
from firn.dead_letters.topic import ensure_topic
from firn.errors import ClaimAgainError, ConfigError, FirnError
from firn.kafka import cluster
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.positions import Ledger
from firn.ledger.table import LedgerTable
from firn.logs import add_to_log_context
from firn.operations.run_report import RunReport
from firn.plural import counted
from firn.retry import Deadline
from firn.sinks.context import SinkContext
from firn.sinks.group_offsets import GroupOffsets
from firn.sinks.topics import NoTopicError, changed_partitions, partitions_in, topics_of
from firn.snowflake.connection import connect
from firn.snowflake.identifiers import check_table_map, table_for
from spark_jobs.sink.batch import BatchRunner, PlanAgainError, StopRequestedError
from spark_jobs.sink.continuous.run import ContinuousParts, ContinuousRun
from spark_jobs.sink.dispatch import Dispatcher, uncommitted_letters
from spark_jobs.sink.methods import registry
from spark_jobs.sink.methods.base import Claim, DriverSide, EpochSession
from spark_jobs.sink.planner import BatchLimit, Planner
from spark_jobs.sink.privileges import check_rights
from spark_jobs.sink.sign_thread import SignThread
from spark_jobs.sink.stream import Stream
from spark_jobs.sink.tables.evolution import SchemaChange
from spark_jobs.sink.telemetry.bad_records import log_tolerated
from spark_jobs.sink.telemetry.events import emit, emit_committed
from spark_jobs.sink.telemetry.metrics import SinkMetrics
from spark_jobs.sink.values.batches import CommittedBatch, PublishedLetters, RejectedRows
from spark_jobs.spark.engine import Engine, EpochEngine

PARTITIONS_IN_LINE = 8
"""So many partitions are named in the line about a claim."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunParts:
    """What the epochs of one run share. targets: where a run that takes what is available ends, once it knows.

    rejected: rows that Snowflake refused, and that are not behind the sink yet.
    """

    engine: Engine
    once: bool
    stop: threading.Event
    table: LedgerTable
    admin: cluster.KafkaAdmin
    limit: BatchLimit
    deadline: Deadline
    group: GroupOffsets
    life: SignThread
    report: RunReport
    metrics: SinkMetrics
    targets: dict[TopicPartition, int] = field(default_factory=dict)
    rejected: RejectedRows = field(default_factory=dict)


class EpochWatch:
    """Why an epoch that runs should end: asked every second. Where the epoch is healthy, patience begins again.

    changed: asks Kafka for new topics and partitions, every `refresh_seconds`; None: never. healthy: whether the epoch
    has polled Kafka's offsets, and no batch runs.
    """

    def __init__(
        self,
        life: SignThread,
        deadline: Deadline,
        *,
        changed: Callable[[], bool] | None,
        refresh_seconds: float,
        healthy: Callable[[], bool],
    ) -> None:
        self._life, self._deadline = life, deadline
        self._changed, self._refresh_seconds, self._healthy = changed, refresh_seconds, healthy
        self._next_refresh = time.monotonic() + refresh_seconds

    def __call__(self) -> FirnError | None:
        """Why the epoch should end now, if it should."""
        if self._changed and time.monotonic() > self._next_refresh:
            self._next_refresh = time.monotonic() + self._refresh_seconds
            if self._partitions_changed(self._changed):
                return PlanAgainError("There are new partitions: the sink claims them.")
        return self._life.alive(idle=self._healthy())

    def _partitions_changed(self, changed: Callable[[], bool]) -> bool:
        try:
            found = changed()
        except FirnError as error:
            log.warning("New partitions cannot be searched for: %s", error.what)
            return False
        if self._healthy():
            self._deadline.succeeded()  # what failed before this epoch is over
        return found


class Epoch:
    """From one claim to the end of its stream. Raises ConfigError for a method that cannot run, before it claims."""

    def __init__(self, context: SinkContext, parts: RunParts) -> None:
        self._context, self._parts = context, parts
        self._method = registry.of(context.config.method)
        self._seen: dict[TopicPartition, KafkaPartition] = {}

    def run(self) -> None:
        """Claim, and stream until the stream ends by itself. Raises why it ended otherwise."""
        self._ensure_dead_letter_topic()  # before the claim: a sink that cannot run must not end one that does
        with connect(self._context.login, query_tag=f"firn sink {self._context.config.name}") as connection:
            self._check(connection)
            self._parts.table.ensure(connection)
            try:
                self._stream(connection, self._claim(connection))
            finally:
                self._parts.life.close()

    def _check(self, connection: SnowflakeConnection) -> None:
        """Raise ConfigError or PrivilegeError unless each topic has one table, and the role all rights."""
        config, topics = self._context.config, self._topics()
        check_table_map(topics, config.table_map)
        if not self._parts.report.epoch:  # once a run
            tables = {table_for(topic, config.table_map) for topic in topics}
            check_rights(connection, config, self._context.login, sorted(tables))

    def _ensure_dead_letter_topic(self) -> None:
        """Make the dead-letter topic, if there is to be one."""
        config = self._context.config
        if topic := dead_letter_topic(config):
            ensure_topic(self._parts.admin, config.name, topic, config.errors.dead_letter_replication, self._topics())

    def _claim(self, connection: SnowflakeConnection) -> Ledger:
        context, ledger_id = self._context, self._parts.table.ledger_id(connection) or ""

        def observe() -> dict[TopicPartition, KafkaPartition]:
            """The partitions as they are now. The epoch is raised by then: the run has a sign of life to give."""
            self._seen = partitions_in(self._parts.admin, self._topics())
            self._parts.life.begin(ledger_id, min(self._seen, default=None))
            return self._seen

        ledger = self._parts.table.claim(
            connection,
            observe,
            context.config.first_offset,
            lambda topic: table_for(topic, context.config.table_map),
            topics=self._topics(),
            share_target=context.config.share_target,
            letters=dead_letter_topic(context.config) is not None,
            method=context.config.method,
            tokens_ahead=self._method.continuous,
            fold=self._method.fold(context, connection, ledger_id),
        )
        self._parts.report.epoch = ledger.epoch
        self._parts.metrics.claimed(ledger, self._seen)
        add_to_log_context(epoch=ledger.epoch)
        waiting = {w: max(0, self._seen[w].latest - at) for w, at in ledger.committed.items() if w in self._seen}
        emit(
            "started",
            f"claimed sink {ledger.sink}, epoch {ledger.epoch}: reads {_describe_start(ledger.committed, waiting)}",
            sink=ledger.sink,
            epoch=ledger.epoch,
            partitions=len(ledger.committed),
            waiting=sum(waiting.values()),
        )
        return ledger

    def _stream(self, connection: SnowflakeConnection, ledger: Ledger) -> None:
        if not ledger.committed:
            self._wait_for_topics()
            return
        config, parts = self._context.config, self._parts
        session = EpochSession(self._context, connection, parts.table, ledger.epoch)
        method = self._method.driver_side(session)
        claim = Claim(ledger, parts.table.owner(connection), {w.topic: seen.topic_id for w, seen in self._seen.items()})
        stream = self._new_stream(session, method, claim)
        watch = EpochWatch(
            parts.life,
            parts.deadline,
            changed=None if parts.once else lambda: changed_partitions(parts.admin, config, self._seen),
            refresh_seconds=config.topic_refresh_seconds,
            healthy=lambda: stream.healthy,
        )
        try:
            stream.run(watch)
        except StopRequestedError:
            if stream.idle:
                method.finish()
            raise
        method.finish()

    def _prepare(self, method: DriverSide, claim: Claim) -> PublishedLetters:
        """Make what the batches need, and find out what earlier runs published without committing it."""
        method.prepare(claim)
        self._parts.group.publish(claim.ledger.committed)
        if claim.owner is None or not claim.owner.letters:
            return {}
        # Also where the sink has no dead-letter topic any more: letters of earlier runs are dealt with.
        return uncommitted_letters(self._context, claim, claim.ledger.committed)

    def _wait_for_topics(self) -> None:
        """As Kafka Connect does: an expression that matches nothing yet is no fault.

        The sink has claimed, so that what appears now is no first start: it is read from its beginning.
        """
        parts, config = self._parts, self._context.config
        log.warning("No topic matches %r. The sink waits for one.", config.topics_regex)
        while not parts.stop.wait(config.topic_refresh_seconds):
            if (fault := parts.life.alive(idle=True)) is not None:
                raise fault
            if changed_partitions(parts.admin, config, {}):
                raise PlanAgainError("A topic matches: the sink claims it.")
            parts.deadline.succeeded()
        raise StopRequestedError("The sink was asked to stop.")

    def _new_stream(self, session: EpochSession, method: DriverSide, claim: Claim) -> Stream | ContinuousRun:
        """Batch after batch, or tasks that live as long as the epoch: as the method's rows travel."""
        config, parts = self._context.config, self._parts
        published, engine = self._prepare(method, claim), EpochEngine(parts.engine)

        if self._method.continuous:
            continuous = ContinuousParts(
                engine,
                self._ends,
                parts.targets if parts.once else None,
                parts.deadline,
                parts.stop,
                self._committed,
                parts.life.moved,
                self._schema_changed,
                config.trigger_seconds,
            )
            return ContinuousRun(session, claim, method, published, continuous)

        def committed(batch: CommittedBatch) -> None:
            if batch.moves:  # else nothing was committed, and it is no progress either
                parts.life.moved()
            self._committed(batch)

        dispatcher = Dispatcher(
            session, claim, method, parts.deadline, engine, parts.limit, self._schema_changed, parts.rejected
        )
        return Stream(
            Planner(self._ends, parts.limit, None if parts.once else config.buffer, parts.targets),
            BatchRunner(self._context, claim.ledger, method, dispatcher, self._confirm),
            claim.ledger,
            engine,
            published,
            parts.stop,
            seconds=config.trigger_seconds,
            on_commit=committed,
        )

    def _topics(self) -> dict[str, cluster.TopicInfo]:
        """The topics as they are now; none where an expression matches nothing yet and the sink may wait."""
        try:
            return topics_of(self._parts.admin, self._context.config)
        except NoTopicError:
            if self._parts.once:
                raise
            return {}

    def _schema_changed(self, changes: Sequence[SchemaChange]) -> None:
        """Count changes of tables, and emit an event for each."""
        self._parts.report.schema_changes += len(changes)
        self._parts.metrics.changed(len(changes))
        for change in changes:
            sentence = f"table {change.table} was changed: {change.statement}"
            emit("schema_changed", sentence, sink=self._context.config.name, **asdict(change))

    def _ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Kafka's end offsets, as `isolation.level` shows them: one request.

        Raises ClaimAgainError for a topic or partition that is gone: the claim knows what that means.
        """
        try:
            found = cluster.offsets(self._parts.admin, partitions, "latest")
        except ConfigError as error:
            raise ClaimAgainError(error.what, where=error.where) from error
        return {TopicPartition(*where): end for where, end in found.items()}

    def _confirm(self, topics: Iterable[str]) -> None:
        """Raise ClaimAgainError unless these topics are still the ones that were claimed, and not others of their name.

        Asked before a batch is read and before it is committed: what was read may be of the new topic.
        """
        claimed = {where.topic: partition.topic_id for where, partition in self._seen.items()}
        try:
            cluster.check_topic_ids(self._parts.admin, {topic: claimed[topic] for topic in topics})
        except cluster.RecreatedTopicError as error:
            raise ClaimAgainError(error.what, where=error.where) from error

    def _committed(self, batch: CommittedBatch) -> None:
        parts, config = self._parts, self._context.config
        log_tolerated(config.name, config.errors, batch.tolerated)
        if not batch.moves:
            return
        parts.deadline.succeeded()
        parts.group.publish({move.where: move.end for move in batch.moves})
        parts.limit.observe(batch.rows, batch.text_bytes)
        parts.life.loaded(batch.rows, batch.text_bytes)
        parts.report.add(batch.totals, batch.reasons, staged_bytes=batch.bytes, files=batch.receipts)
        parts.metrics.committed(batch)
        emit_committed(config.name, batch)


def _describe_start(committed: Mapping[TopicPartition, int], waiting: Mapping[TopicPartition, int]) -> str:
    """From where a run reads and how many records wait there, at most (gaps count); the longest backlogs first."""
    first = sorted(waiting, key=lambda where: (-waiting[where], where))[:PARTITIONS_IN_LINE]
    parts = [f"{where} from {committed[where]} ({waiting[where]} waiting)" for where in first]
    if len(waiting) > PARTITIONS_IN_LINE:
        parts.append(f"{len(waiting) - PARTITIONS_IN_LINE} more")
    head = f"{counted(len(waiting), 'partition')}, {counted(sum(waiting.values()), 'record')} waiting"
    return f"{head}: {', '.join(parts)}" if parts else head
