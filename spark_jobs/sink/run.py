"""A run of a sink: claim, stream, and claim again after anything transient, until it is done or a person must act.

A run never resumes the checkpoint of another: each epoch plans from the ledger, so restart and first start are one
path. Transient failures are tried again as long as something is committed within the deadline.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from functools import partial

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from snowflake.connector import SnowflakeConnection

from firn import kafka
from firn.errors import TransientError
from firn.kafka_jvm import jvm_client_options
from firn.retry import with_retries_until
from firn.snowflake import connect
from spark_jobs.sink.batch import BatchRunner, Committed, StopRequestedError
from spark_jobs.sink.checkpoint import new_checkpoint, planned_ends
from spark_jobs.sink.context import SinkContext
from spark_jobs.sink.identifiers import table_for
from spark_jobs.sink.ledger import Ledger
from spark_jobs.sink.ledger_table import LedgerTable
from spark_jobs.sink.progress import RunReport
from spark_jobs.sink.source import open_stream, partitions_of
from spark_jobs.sink.stage import Stage

STOP_SECONDS = 40.0
log = logging.getLogger(__name__)


class _ProgressedError(Exception):
    """A transient fault after commits: patience starts anew."""


class SinkRun:
    """One process's run of one sink. `stop` asks it to end after the batch that is running."""

    def __init__(self, context: SinkContext, spark: SparkSession, *, once: bool, stop: threading.Event) -> None:
        self._context, self._spark, self._once, self._stop = context, spark, once, stop
        self._table = LedgerTable(context.namespace, context.config.name, uuid.uuid4().hex)
        self._admin = kafka.admin_client(context.settings, context.kafka)
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
            observe = partial(partitions_of, self._admin, context.config)
            ledger = self._table.claim(connection, observe, context.config.first_offset)
            self.report.epoch = ledger.epoch
            log.info("claimed sink %s, epoch %d", context.config.name, ledger.epoch)
            stage = Stage(context.namespace, context.config.name, ledger.epoch)
            stage.ensure(connection)
            stage.remove_older(connection)
            try:
                self._await(*self._start(connection, ledger))
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
        client = jvm_client_options(context.settings, context.kafka)
        frame = open_stream(spark, context.config, client, ledger, once=self._once)
        writer = frame.writeStream.foreachBatch(runner).option("checkpointLocation", checkpoint)
        trigger = writer.trigger(availableNow=True) if self._once else writer.trigger(processingTime="1 second")
        return trigger.queryName(f"{context.config.name}-{ledger.epoch}").start(), runner

    def _await(self, query: StreamingQuery, runner: BatchRunner) -> None:
        """Wait for the query's end. Raises the runner's own error rather than Spark's text about it."""
        try:
            while not query.awaitTermination(1):
                if self._stop.is_set():
                    self._end(query, runner)
        except PySparkException as error:
            if runner.failure:
                raise runner.failure from None
            raise TransientError(
                f"Spark's query failed: {_cause(error)}",
                where=f"sink {self._context.config.name}",
                next_step="See Spark's log in FIRN_HOME/logs.",
            ) from error

    def _end(self, query: StreamingQuery, runner: BatchRunner) -> None:
        """Let the running batch end within the deadline, refuse the next one, and stop the query."""
        runner.stopping.set()
        # Not held while the query stops: a batch that is just beginning waits for it, and the stop for that batch.
        if runner.idle.acquire(timeout=STOP_SECONDS):
            runner.idle.release()
        query.stop()
        if runner.failure and not isinstance(runner.failure, TransientError):
            raise runner.failure
        raise StopRequestedError("The sink was asked to stop.")

    def _committed(self, batch: Committed) -> None:
        if not batch.moves:
            return  # nothing was committed, so it is no progress either
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
