"""A run of a sink: claim, stream, and claim again after anything transient, until it is done or a person must act.

A run never resumes the checkpoint of another: each epoch plans from the ledger, so restart and first start are one
path. Transient failures are tried again as long as something is committed within the deadline.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from contextlib import suppress

from pyspark.errors import PySparkException
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
from spark_jobs.sink.source import NoTopicError, has_new_partitions, open_stream, partitions_of, topics_of
from spark_jobs.sink.stage import Stage

STOP_SECONDS = 40.0
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
        self._limit = BatchLimit(context.config)
        self._seen: dict[TopicPartition, KafkaPartition] = {}
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
            except NoTopicError as error:
                self._wait_for_topics(error)
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

    def _wait_for_topics(self, error: NoTopicError) -> None:
        """As Kafka Connect does: an expression that matches nothing yet is no fault, unless this is to end at once."""
        if self._once:
            raise error
        log.warning("%s The sink waits for one.", error.what)
        while not self._stop.wait(self._context.config.topic_refresh_seconds):
            with suppress(NoTopicError):
                topics_of(self._admin, self._context.config)
                return

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
                self._await(ledger, *self._start(connection, ledger))
            except StopRequestedError:
                self._measure(connection)
                raise
            self._measure(connection)

    def _start(self, connection: SnowflakeConnection, ledger: Ledger) -> tuple[StreamingQuery, BatchRunner]:
        context, spark = self._context, self._spark
        checkpoint = new_checkpoint(spark, context.checkpoints, ledger.epoch)
        runner = BatchRunner(
            context, connection, ledger, self._table, lambda b: planned_ends(spark, checkpoint, b), self._committed
        )
        self._plan_limit(ledger)
        frame = open_stream(spark, context.config, context.kafka, ledger, limit=self._limit.records, once=self._once)
        writer = frame.writeStream.foreachBatch(runner).option("checkpointLocation", checkpoint)
        interval = f"{int(context.config.trigger_seconds * 1000)} milliseconds"
        trigger = writer.trigger(availableNow=True) if self._once else writer.trigger(processingTime=interval)
        return trigger.queryName(f"{context.config.name}-{ledger.epoch}").start(), runner

    def _observe(self) -> dict[TopicPartition, KafkaPartition]:
        self._seen = partitions_of(self._admin, self._context.config)
        return self._seen

    def _plan_limit(self, ledger: Ledger) -> None:
        """Set how many records a batch may hold; a backlog that nobody has seen yet is looked at first."""
        behind = {where: at for where, at in ledger.committed.items() if (p := self._seen.get(where)) and p.latest > at}
        backlog = sum(self._seen[where].latest - at for where, at in behind.items())
        if self._limit.unknown and backlog > SAMPLE_RECORDS:
            self._limit.observe(*sample(self._context.kafka, behind))
        self._limit.settle()

    def _await(self, ledger: Ledger, query: StreamingQuery, runner: BatchRunner) -> None:
        """Wait for the query's end. Raises the runner's own error rather than Spark's text about it."""
        look = time.monotonic() + self._context.config.topic_refresh_seconds
        try:
            while not query.awaitTermination(1):
                if self._stop.is_set():
                    self._end(query, runner, StopRequestedError("The sink was asked to stop."))
                if self._limit.outgrown():
                    self._end(query, runner, _PlanAgainError("Records changed their size: batches get another limit."))
                if not self._once and time.monotonic() > look:
                    look = time.monotonic() + self._context.config.topic_refresh_seconds
                    self._look_for_partitions(ledger, query, runner)
        except PySparkException as error:
            if runner.failure:
                raise runner.failure from None
            raise TransientError(
                f"Spark's query failed: {_cause(error)}",
                where=f"sink {self._context.config.name}",
                next_step="See Spark's log in FIRN_HOME/logs.",
            ) from error

    def _look_for_partitions(self, ledger: Ledger, query: StreamingQuery, runner: BatchRunner) -> None:
        """Topics that match the expression now, and partitions that topics got, are claimed and read from earliest."""
        try:
            grown = has_new_partitions(self._admin, self._context.config, ledger)
        except FirnError as error:
            log.warning("New partitions could not be looked for: %s", error.what)
            return
        if grown:
            self._end(query, runner, _PlanAgainError("There are new partitions: the sink claims them."))

    def _end(self, query: StreamingQuery, runner: BatchRunner, why: TransientError) -> None:
        """Let the running batch end within the deadline, refuse the next one, stop the query and raise `why`."""
        runner.stopping.set()
        # Not held while the query stops: a batch that is just beginning waits for it, and the stop for that batch.
        if runner.idle.acquire(timeout=STOP_SECONDS):
            runner.idle.release()
        query.stop()
        if runner.failure and not isinstance(runner.failure, TransientError):
            raise runner.failure
        raise why

    def _committed(self, batch: Committed) -> None:
        if not batch.moves:
            return  # nothing was committed, so it is no progress either
        self._limit.observe(batch.rows, batch.text_size)
        self.report.add(batch)
        text = "committed batch %s: %d records in %d files, %d partitions moved (ship %.1f s, commit %.1f s)"
        phases = (batch.ship_seconds, batch.commit_seconds)
        log.info(text, batch.batch, batch.rows, batch.files, len(batch.moves), *phases)

    def _measure(self, connection: SnowflakeConnection) -> None:
        partitions = partitions_of(self._admin, self._context.config)
        positions = self._table.positions(connection)
        self.report.tables = {w.topic: table_for(w.topic, self._context.config.table_map) for w in partitions}
        self.report.measure({where: p.next_offset for where, p in positions.items()}, partitions)


def _cause(error: Exception) -> str:
    """The line of Spark's message that tells what happened."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if "Caused by:" in line]
    return (causes or lines or [type(error).__name__])[-1 if causes else 0][:500]
