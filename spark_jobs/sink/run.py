"""A run of a sink: claim, stream, and claim again after anything transient, until it is done or a person must act.

A run never resumes the checkpoint of another: each epoch plans from the ledger, so restart and first start are one
path. Transient failures are tried again as long as something is committed within the deadline.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterable

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from snowflake.connector import SnowflakeConnection

from firn import kafka
from firn.errors import FirnError, TransientError
from firn.retry import with_retries_until
from firn.snowflake import connect
from spark_jobs.sink.batch import BatchRunner, Committed, StopRequestedError
from spark_jobs.sink.checkpoint import new_checkpoint, planned_ends
from spark_jobs.sink.context import SinkContext
from spark_jobs.sink.identifiers import table_for
from spark_jobs.sink.ledger import ClaimAgainError, KafkaPartition, Ledger, TopicPartition
from spark_jobs.sink.ledger_table import LedgerTable
from spark_jobs.sink.limits import SAMPLE_RECORDS, BatchLimit, sample
from spark_jobs.sink.progress import RunReport
from spark_jobs.sink.source import NoTopicError, changed_partitions, open_stream, partitions_of
from spark_jobs.sink.stage import Stage
from spark_jobs.sink.streaming import RunningQuery

log = logging.getLogger(__name__)


class _ProgressedError(Exception):
    """A transient fault after commits, or a plan that is to be made anew: patience starts anew."""


class _PlanAgainError(ClaimAgainError):
    """Nothing failed: there are new partitions, or batches need another limit. Claim and plan again."""


class SinkRun:
    """One process's run of one sink. `stop` asks it to end after the batch that is running."""

    def __init__(self, context: SinkContext, spark: SparkSession, *, once: bool, stop: threading.Event) -> None:
        self._context, self._spark, self._once, self._stop = context, spark, once, stop
        self._table = LedgerTable(context.namespace, context.config.name, uuid.uuid4().hex)
        self._admin = kafka.admin_client(context.kafka)
        self._limit = BatchLimit(context.config, waits=not once)
        self._seen: dict[TopicPartition, KafkaPartition] = {}
        self._next_look = 0.0
        self.report = RunReport(context.config.name)

    def run(self) -> RunReport:
        """Run to the end: all that is available (`once`), or until `stop` is set. Raises what a person must see."""
        begun = time.monotonic()
        while not self._stop.is_set():
            try:
                with_retries_until(self._stop, self._context.settings.retry_deadline_seconds, self._attempt)
                break
            except _ProgressedError:
                continue
            except StopRequestedError:
                break
        self.report.seconds = time.monotonic() - begun
        return self.report

    def _attempt(self) -> None:
        before = self.report.batches
        try:
            self._epoch()
        except StopRequestedError:
            raise
        except _PlanAgainError as error:
            log.info(error.what)
            raise _ProgressedError from error
        except TransientError as error:
            if self.report.batches == before:
                raise
            log.warning("%s The sink claims again and goes on.", error.what)
            raise _ProgressedError from error

    def _epoch(self) -> None:
        """Claim and stream until the query ends."""
        context = self._context
        with connect(context.login, query_tag=f"firn sink {context.config.name}") as connection:
            self._table.ensure(connection)
            ledger = self._table.claim(connection, self._observe, context.config.first_offset)
            self.report.epoch = ledger.epoch
            log.info("claimed sink %s, epoch %d", context.config.name, ledger.epoch)
            stage = Stage(context.namespace, context.config.name, ledger.epoch)
            stage.ensure(connection)
            stage.remove_older(connection)
            try:
                self._stream(connection, ledger)
            except StopRequestedError:
                self._measure(connection)
                raise
            self._measure(connection)

    def _stream(self, connection: SnowflakeConnection, ledger: Ledger) -> None:
        if not ledger.committed:
            self._wait_for_topics()
        else:
            RunningQuery(*self._start(connection, ledger), self._stop).wait(self._reason_to_end)

    def _wait_for_topics(self) -> None:
        """As Kafka Connect does: an expression that matches nothing yet is no fault.

        The sink has claimed, so that what appears now is no first start: it is read from its beginning.
        """
        log.warning("No topic matches %r. The sink waits for one.", self._context.config.topics_regex)
        while not self._stop.wait(self._context.config.topic_refresh_seconds):
            if changed_partitions(self._admin, self._context.config, {}):
                raise _PlanAgainError("A topic matches: the sink claims it.")
        raise StopRequestedError("The sink was asked to stop.")

    def _start(self, connection: SnowflakeConnection, ledger: Ledger) -> tuple[StreamingQuery, BatchRunner]:
        context, spark = self._context, self._spark
        checkpoint = new_checkpoint(spark, context.checkpoints, ledger.epoch)
        runner = BatchRunner(
            context,
            connection,
            ledger,
            self._table,
            planned_ends=lambda batch: planned_ends(spark, checkpoint, batch),
            confirm=self._confirm,
            on_commit=self._committed,
        )
        self._plan_limit(ledger)
        self._next_look = time.monotonic() + context.config.topic_refresh_seconds
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

    def _reason_to_end(self) -> TransientError | None:
        """Why the running query should end now, if it should. Asked every second."""
        if self._stop.is_set():
            return StopRequestedError("The sink was asked to stop.")
        if self._limit.outgrown():
            return _PlanAgainError("Records changed their size: batches get another limit.")
        if not self._once and time.monotonic() > self._next_look:
            self._next_look = time.monotonic() + self._context.config.topic_refresh_seconds
            if self._partitions_changed():
                return _PlanAgainError("There are new partitions: the sink claims them.")
        return None

    def _partitions_changed(self) -> bool:
        """Whether topics match now that did not, or topics got partitions, or are not the ones that were claimed."""
        try:
            return changed_partitions(self._admin, self._context.config, self._seen)
        except FirnError as error:
            log.warning("New partitions could not be looked for: %s", error.what)
            return False

    def _committed(self, batch: Committed) -> None:
        if not batch.moves:
            return  # nothing was committed, so it is no progress either
        self._limit.observe(batch.rows, batch.text_size)
        self.report.add(batch)
        text = "committed batch %s: %d records in %d files, %d partitions moved (ship %.1f s, commit %.1f s)"
        phases = (batch.ship_seconds, batch.commit_seconds)
        log.info(text, batch.batch, batch.rows, batch.files, len(batch.moves), *phases)

    def _measure(self, connection: SnowflakeConnection) -> None:
        partitions = self._observe()
        positions = self._table.positions(connection)
        self.report.tables = {w.topic: table_for(w.topic, self._context.config.table_map) for w in partitions}
        self.report.measure({where: p.next_offset for where, p in positions.items()}, partitions)
