"""One epoch of a sink: claim it, find out what earlier runs left, and stream until something ends it.

Not for what follows an epoch's end (`run`), nor for what a batch does (`batch`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from snowflake.connector import SnowflakeConnection

from firn.dead_letters.published import Letters
from firn.dead_letters.queue import dead_letter_queue
from firn.dead_letters.topic import ensure_topic
from firn.errors import ClaimAgainError, ConfigError
from firn.kafka import cluster
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.positions import Ledger
from firn.ledger.table import LedgerTable
from firn.logs import add_to_log_context
from firn.retry import Deadline
from firn.sinks.context import SinkContext
from firn.sinks.group_offsets import GroupOffsets
from firn.sinks.topics import NoTopicError, changed_partitions, partitions_in, topics_of
from firn.snowflake.connection import connect
from firn.snowflake.identifiers import check_table_map, table_for
from spark_jobs.sink.bad_records import log_tolerated
from spark_jobs.sink.batch import BatchRunner, Committed, PlanAgainError, StopRequestedError
from spark_jobs.sink.dispatch import Claimed, Shipping, letters_out
from spark_jobs.sink.limits import BatchLimit
from spark_jobs.sink.methods.snowpipe.refused_files import forget_others, refused_files
from spark_jobs.sink.methods.snowpipe.stage import Stage
from spark_jobs.sink.planner import Planner
from spark_jobs.sink.privileges import check_rights
from spark_jobs.sink.spark.engine import Engine, EpochEngine
from spark_jobs.sink.stream import Stream
from spark_jobs.sink.tables.evolution import SchemaChange
from spark_jobs.sink.telemetry.events import tell, tell_committed
from spark_jobs.sink.telemetry.metrics import SinkMetrics
from spark_jobs.sink.telemetry.progress import RunReport, spoken_start, waiting
from spark_jobs.sink.watch import Heartbeat, Watch

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunParts:
    """What the epochs of one run share. targets: where a run that takes what is available ends, once it knows."""

    engine: Engine
    once: bool
    stop: threading.Event
    table: LedgerTable
    admin: cluster.KafkaAdmin
    limit: BatchLimit
    deadline: Deadline
    group: GroupOffsets
    report: RunReport
    metrics: SinkMetrics
    targets: dict[TopicPartition, int] = field(default_factory=dict)


class Epoch:
    """From one claim to the end of its stream."""

    def __init__(self, context: SinkContext, parts: RunParts) -> None:
        self._context, self._parts = context, parts
        self._seen: dict[TopicPartition, KafkaPartition] = {}

    def run(self) -> None:
        """Claim, and stream until the stream ends by itself. Raises why it ended otherwise."""
        self._ensure_letters()  # before the claim: a sink that cannot run must not end one that does
        with connect(self._context.login, query_tag=f"firn sink {self._context.config.name}") as connection:
            self._check(connection)
            self._parts.table.ensure(connection)
            ledger = self._claim(connection)
            heartbeat = Heartbeat(
                self._context.login,
                lambda session: self._parts.table.beat(session, ledger.epoch),
                self._context.config.heartbeat_seconds,
            )
            try:
                self._stream(connection, ledger, heartbeat)
            finally:
                heartbeat.close()

    def _check(self, connection: SnowflakeConnection) -> None:
        """Raise ConfigError or PrivilegeError unless each topic has one table, and the role all rights."""
        config, topics = self._context.config, self._topics()
        check_table_map(topics, config.table_map)
        if not self._parts.report.epoch:  # once a run
            tables = {table_for(topic, config.table_map) for topic in topics}
            check_rights(connection, config, self._context.login, sorted(tables))

    def _ensure_letters(self) -> None:
        """Make the dead-letter topic, if there is to be one."""
        if queue := dead_letter_queue(self._context):
            replication = self._context.config.errors.dead_letter_replication
            ensure_topic(self._parts.admin, queue, replication, self._topics())

    def _claim(self, connection: SnowflakeConnection) -> Ledger:
        context = self._context
        ledger = self._parts.table.claim(
            connection,
            self._observe,
            context.config.first_offset,
            lambda topic: table_for(topic, context.config.table_map),
            share_target=context.config.share_target,
            letters=dead_letter_queue(context) is not None,
        )
        self._parts.report.epoch = ledger.epoch
        self._parts.metrics.claimed(ledger, self._seen)
        add_to_log_context(epoch=ledger.epoch)
        reads = spoken_start(ledger.committed, self._seen)
        tell(
            "started",
            f"claimed sink {ledger.sink}, epoch {ledger.epoch}: reads {reads}",
            sink=ledger.sink,
            epoch=ledger.epoch,
            partitions=len(ledger.committed),
            waiting=waiting(ledger.committed, self._seen),
        )
        return ledger

    def _stream(self, connection: SnowflakeConnection, ledger: Ledger, heartbeat: Heartbeat) -> None:
        if not ledger.committed:
            self._wait_for_topics(heartbeat)
            return
        claimed = self._look_around(connection, ledger)
        config, parts = self._context.config, self._parts
        stream = self._new_stream(connection, claimed, heartbeat)
        watch = Watch(
            heartbeat,
            parts.deadline,
            changed=None if parts.once else lambda: changed_partitions(parts.admin, config, self._seen),
            look_seconds=config.topic_refresh_seconds,
            well=lambda: stream.idle and stream.looked,
        )
        stream.run(watch)

    def _look_around(self, connection: SnowflakeConnection, ledger: Ledger) -> Claimed:
        """Make what the batches need, and find out what earlier runs left."""
        context, parts = self._context, self._parts
        owner = parts.table.owner(connection)
        stage = Stage(context.namespace, context.config.name, ledger.epoch)
        stage.ensure(connection)
        refused = refused_files(owner)
        there = stage.remove_older(connection, refused)
        if not there.issuperset(refused):
            forget_others(parts.table, connection, ledger.epoch, there)
        parts.group.publish(ledger.committed)
        topic_ids = {where.topic: seen.topic_id for where, seen in self._seen.items()}
        letters: dict[TopicPartition, Letters] = {}
        if owner and owner.letters:
            # Also where there is no queue any more: what an earlier run published without committing it is dealt with.
            letters = letters_out(context, topic_ids, ledger.committed)
        return Claimed(ledger, topic_ids, letters)

    def _wait_for_topics(self, heartbeat: Heartbeat) -> None:
        """As Kafka Connect does: an expression that matches nothing yet is no fault.

        The sink has claimed, so that what appears now is no first start: it is read from its beginning.
        """
        parts, config = self._parts, self._context.config
        log.warning("No topic matches %r. The sink waits for one.", config.topics_regex)
        while not parts.stop.wait(config.topic_refresh_seconds):
            if (fault := heartbeat.send_if_due()) is not None:
                raise fault
            if changed_partitions(parts.admin, config, {}):
                raise PlanAgainError("A topic matches: the sink claims it.")
            parts.deadline.succeeded()
        raise StopRequestedError("The sink was asked to stop.")

    def _new_stream(self, connection: SnowflakeConnection, claimed: Claimed, heartbeat: Heartbeat) -> Stream:
        context, parts, ledger = self._context, self._parts, claimed.ledger
        engine = EpochEngine(parts.engine)

        def committed(batch: Committed) -> None:
            log_tolerated(context.config.name, context.config.errors, batch.tolerated)
            if batch.moves:  # else nothing was committed, and it is no progress either
                heartbeat.committed()
                self._committed(batch)

        shipping = Shipping(
            context, connection, claimed, parts.table, parts.deadline, engine, parts.limit, self._changed
        )
        return Stream(
            Planner(self._ends, parts.limit, None if parts.once else context.config.buffer, parts.targets),
            BatchRunner(context, connection, ledger, parts.table, shipping, self._confirm),
            ledger,
            engine,
            claimed.letters,
            parts.stop,
            seconds=context.config.trigger_seconds,
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

    def _changed(self, changes: Sequence[SchemaChange]) -> None:
        """Count changes of tables and tell of each."""
        self._parts.report.schema_changes += len(changes)
        self._parts.metrics.changed(len(changes))
        for change in changes:
            sentence = f"table {change.table} was changed: {change.statement}"
            tell("schema_changed", sentence, sink=self._context.config.name, **asdict(change))

    def _observe(self) -> dict[TopicPartition, KafkaPartition]:
        """The partitions as they are now."""
        self._seen = partitions_in(self._parts.admin, self._topics())
        return self._seen

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

    def _committed(self, batch: Committed) -> None:
        parts = self._parts
        parts.deadline.succeeded()
        parts.group.publish({move.where: move.end for move in batch.moves})
        parts.limit.observe(batch.rows, batch.text_size)
        parts.report.add(batch)
        parts.metrics.committed(batch)
        tell_committed(self._context.config.name, batch)
