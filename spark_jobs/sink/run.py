"""A run of a sink: claim, stream, and claim again after anything transient, until it is done or a person must act.

A run never resumes the checkpoint of another: each epoch plans from the ledger, so restart and first start are one
path. Transient failures are tried again until nothing was committed for as long as the sink has patience.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from snowflake.connector import SnowflakeConnection

from firn import kafka
from firn.errors import AuthenticationError, FencedError, TerminalError
from firn.retry import Deadline, with_retries_until
from firn.snowflake import connect
from spark_jobs.sink.batch import BatchRunner, Claimed, Committed, PlanAgainError, StopRequestedError
from spark_jobs.sink.checkpoint import new_checkpoint, planned_ends
from spark_jobs.sink.context import SinkContext
from spark_jobs.sink.copy_into import RefusedError
from spark_jobs.sink.dead_letters import Letters, dead_letter_queue, ensure_topic, published_letters
from spark_jobs.sink.group_offsets import GroupOffsets, group_of
from spark_jobs.sink.identifiers import table_for
from spark_jobs.sink.ledger import ClaimAgainError, KafkaPartition, Ledger, TopicPartition
from spark_jobs.sink.ledger_table import LedgerTable
from spark_jobs.sink.limits import SAMPLE_RECORDS, BatchLimit, sample
from spark_jobs.sink.progress import RunReport
from spark_jobs.sink.source import NoTopicError, changed_partitions, open_stream, partitions_of
from spark_jobs.sink.stage import Stage
from spark_jobs.sink.streaming import RunningQuery
from spark_jobs.sink.watch import Heartbeat, Watch

log = logging.getLogger(__name__)


class SinkRun:
    """One process's run of one sink. `stop` asks it to end after the batch that is running.

    `reload` reads the configuration and its secrets anew: once a login is refused, for a key that was rotated.
    """

    def __init__(
        self,
        context: SinkContext,
        spark: SparkSession,
        *,
        once: bool,
        stop: threading.Event,
        reload: Callable[[], SinkContext] | None = None,
    ) -> None:
        self._context, self._spark, self._once, self._stop, self._reload = context, spark, once, stop, reload
        self._table = LedgerTable(context.namespace, context.config.name, uuid.uuid4().hex)
        self._admin = kafka.admin_client(context.kafka)
        self._limit = BatchLimit(context.config, waits=not once)
        self._deadline = Deadline(context.settings.sink_patience_seconds)
        self._group = GroupOffsets(context.kafka, group_of(context.config))
        self._heartbeat = Heartbeat(lambda: None, 0)
        self._seen: dict[TopicPartition, KafkaPartition] = {}
        self._refused = False
        self.report = RunReport(context.config.name)

    def run(self) -> RunReport:
        """Run to the end: all that is available (`once`), or until `stop` is set. Raises what a person must see."""
        begun = time.monotonic()
        try:
            while not self._stop.is_set() and not self._done():
                pass
        finally:
            self._group.close()
        self.report.seconds = time.monotonic() - begun
        return self.report

    def _done(self) -> bool:
        """Run epochs until one ends by itself, or only a new claim is wanted (False)."""
        try:
            with_retries_until(self._stop, self._deadline, self._epoch)
        except StopRequestedError:
            return True
        except PlanAgainError as again:
            log.info(again.what)
            return False
        except AuthenticationError as error:
            self._renew(error)
            return False
        except RefusedError as error:
            if self._refused:
                raise
            # A file may have been damaged on its way: the batch is read again, once, under new names.
            self._refused = True
            log.warning("%s The sink claims again and stages these records anew.", error.what)
            return False
        return True

    def _renew(self, error: AuthenticationError) -> None:
        """Go on with other credentials, if there are any by now; else raise `error`."""
        renewed = self._reload() if self._reload else self._context
        logins = (renewed.login, renewed.value_registry, renewed.key_registry)
        if logins == (self._context.login, self._context.value_registry, self._context.key_registry):
            raise error
        log.warning("A login was refused, and there are other credentials by now: the sink goes on with those.")
        login, value, key = logins
        self._context = replace(self._context, login=login, value_registry=value, key_registry=key)

    def _epoch(self) -> None:
        """Claim and stream until the query ends."""
        context = self._context
        with connect(context.login, query_tag=f"firn sink {context.config.name}") as connection:
            self._table.ensure(connection)
            ledger = self._claim(connection)
            try:
                self._stream(connection, ledger)
            except FencedError:
                raise
            except StopRequestedError:
                self._leave(connection, ledger)
                raise
            except TerminalError:
                self._table.release(connection, ledger.epoch)
                raise
            self._leave(connection, ledger)

    def _claim(self, connection: SnowflakeConnection) -> Ledger:
        config = self._context.config
        ledger = self._table.claim(
            connection, self._observe, config.first_offset, self._table_of, share_target=config.share_target
        )
        self.report.epoch = ledger.epoch
        self._heartbeat = Heartbeat(lambda: self._table.beat(connection, ledger.epoch), config.heartbeat_seconds)
        log.info("claimed sink %s, epoch %d", config.name, ledger.epoch)
        return ledger

    def _leave(self, connection: SnowflakeConnection, ledger: Ledger) -> None:
        """The orderly end: what is committed is measured, and nobody runs the sink any more."""
        self._measure(connection)
        self._table.release(connection, ledger.epoch)

    def _table_of(self, topic: str) -> str:
        return table_for(topic, self._context.config.table_map)

    def _stream(self, connection: SnowflakeConnection, ledger: Ledger) -> None:
        if not ledger.committed:
            self._wait_for_topics()
            return
        claimed = self._look_around(connection, ledger)
        query, runner = self._start(connection, claimed)
        config = self._context.config
        changed = None if self._once else self._partitions_changed
        watch = Watch(runner, self._heartbeat, self._limit, self._deadline, changed, config.topic_refresh_seconds)
        RunningQuery(query, runner, self._stop).wait(watch)

    def _look_around(self, connection: SnowflakeConnection, ledger: Ledger) -> Claimed:
        """Make what the batches need, and find out what earlier runs left."""
        context = self._context
        stage = Stage(context.namespace, context.config.name, ledger.epoch)
        stage.ensure(connection)
        owner = self._table.owner(connection)
        stage.remove_older(connection, owner.kept if owner else ())
        self._group.publish(ledger.committed)
        topic_ids = {where.topic: seen.topic_id for where, seen in self._seen.items()}
        letters: dict[TopicPartition, Letters] = {}
        if queue := dead_letter_queue(context):
            ensure_topic(self._admin, queue, context.config.errors.dead_letter_replication, topic_ids)
            letters = published_letters(queue, {w: (topic_ids[w.topic], at) for w, at in ledger.committed.items()})
        return Claimed(ledger, topic_ids, letters)

    def _wait_for_topics(self) -> None:
        """As Kafka Connect does: an expression that matches nothing yet is no fault.

        The sink has claimed, so that what appears now is no first start: it is read from its beginning.
        """
        log.warning("No topic matches %r. The sink waits for one.", self._context.config.topics_regex)
        while not self._stop.wait(self._context.config.topic_refresh_seconds):
            if self._heartbeat.due():
                self._heartbeat.send()
            if changed_partitions(self._admin, self._context.config, {}):
                raise PlanAgainError("A topic matches: the sink claims it.")
        raise StopRequestedError("The sink was asked to stop.")

    def _start(self, connection: SnowflakeConnection, claimed: Claimed) -> tuple[StreamingQuery, BatchRunner]:
        context, spark, ledger = self._context, self._spark, claimed.ledger
        checkpoint = new_checkpoint(spark, context.checkpoints, ledger.epoch)
        runner = BatchRunner(
            context,
            connection,
            claimed,
            self._table,
            self._deadline,
            planned_ends=lambda batch: planned_ends(spark, checkpoint, batch),
            confirm=self._confirm,
            on_commit=self._committed,
        )
        self._plan_limit(ledger)
        frame = open_stream(spark, context.kafka, ledger, self._limit, None if self._once else context.config.buffer)
        writer = frame.writeStream.foreachBatch(runner).option("checkpointLocation", checkpoint)
        interval = f"{int(context.config.trigger_seconds * 1000)} milliseconds"
        trigger = writer.trigger(availableNow=True) if self._once else writer.trigger(processingTime=interval)
        return trigger.queryName(f"{context.config.name}-{ledger.epoch}").start(), runner

    def _observe(self) -> dict[TopicPartition, KafkaPartition]:
        """The partitions as they are now; none where an expression matches nothing yet and the sink may wait."""
        try:
            self._seen = partitions_of(self._admin, self._context.config)
        except NoTopicError:
            if self._once:
                raise
            self._seen = {}
        return self._seen

    def _confirm(self, topics: Iterable[str]) -> None:
        """Raise ClaimAgainError unless these topics are still the ones that were claimed, and not others of their name.

        Asked after a batch was read and before it is committed: what was read may be of the new topic.
        """
        claimed = {where.topic: partition.topic_id for where, partition in self._seen.items()}
        found = kafka.find_topics(self._admin, topics)
        gone = sorted(t for t in topics if t not in found or found[t].topic_id != claimed[t])
        if gone:
            raise ClaimAgainError(f"Topics were deleted, or made again, while they were read: {', '.join(gone)}.")

    def _plan_limit(self, ledger: Ledger) -> None:
        """Set how many records a batch may hold; a backlog that nobody has seen yet is looked at first."""
        behind = {where: at for where, at in ledger.committed.items() if (p := self._seen.get(where)) and p.latest > at}
        backlog = sum(self._seen[where].latest - at for where, at in behind.items())
        if self._limit.unknown and backlog > SAMPLE_RECORDS:
            self._limit.observe(*sample(self._context.kafka, behind))
        self._limit.settle()

    def _partitions_changed(self) -> bool:
        """Whether topics match now that did not, or topics got partitions, or are not the ones that were claimed."""
        return changed_partitions(self._admin, self._context.config, self._seen)

    def _committed(self, batch: Committed) -> None:
        if not batch.moves:
            return  # nothing was committed, so it is no progress either
        self._deadline.succeeded()
        self._heartbeat.committed()
        self._refused = False
        self._group.publish({move.where: move.end for move in batch.moves})
        self._limit.observe(batch.rows, batch.text_size)
        self.report.add(batch)
        text = "committed batch %s: %d records in %d files, %d partitions moved (ship %.1f s, commit %.1f s)"
        phases = (batch.ship_seconds, batch.commit_seconds)
        log.info(text, batch.batch, batch.rows, batch.files, len(batch.moves), *phases)

    def _measure(self, connection: SnowflakeConnection) -> None:
        partitions = self._observe()
        positions = self._table.positions(connection)
        self.report.tables = {where.topic: self._table_of(where.topic) for where in partitions}
        self.report.measure({where: p.next_offset for where, p in positions.items()}, partitions)
