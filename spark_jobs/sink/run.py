"""A run of a sink: epoch after epoch, claimed again after anything transient, until it is done or a person must act.

Each epoch plans from the ledger alone, so restart and first start are one path. Transient failures are tried again
until nothing was committed for as long as the sink has patience; Spark's failures at the same offsets three times.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from snowflake.connector import SnowflakeConnection

from firn.errors import AuthenticationError, FencedError, FirnError, TerminalError, TransientError
from firn.kafka import cluster
from firn.kafka.partitions import TopicPartition
from firn.ledger.table import LedgerTable
from firn.logs import log_context
from firn.operations.run_report import RunReport
from firn.retry import Deadline, with_retries_until
from firn.sinks.context import SinkContext
from firn.sinks.group_offsets import GroupOffsets, group_of
from firn.sinks.topics import partitions_of
from firn.snowflake.connection import connect
from firn.snowflake.identifiers import quoted, table_for
from spark_jobs.sink.batch import BatchFailedError, PlanAgainError, StopRequestedError
from spark_jobs.sink.epoch import Epoch, RunParts
from spark_jobs.sink.life_signs import LifeSigns
from spark_jobs.sink.methods.base import RefusedRowsError
from spark_jobs.sink.planner import BatchLimit
from spark_jobs.sink.sign_thread import SignThread
from spark_jobs.sink.telemetry.metrics import SinkMetrics
from spark_jobs.sink.telemetry.metrics_endpoint import served
from spark_jobs.spark.engine import Engine, EngineLostError

SAME_FAILURES = 3
"""So often Spark may fail over a batch that begins at the same offsets."""
log = logging.getLogger(__name__)


class SinkRun:
    """One process's run of one sink. `stop` asks it to end after the batch that is running.

    `reload` reads the configuration and its secrets again, once a login is refused: a key may have been rotated.
    """

    def __init__(
        self,
        context: SinkContext,
        engine: Engine,
        *,
        once: bool,
        stop: threading.Event,
        reload: Callable[[], SinkContext] | None = None,
    ) -> None:
        self._context, self._stop, self._reload = context, stop, reload
        self._deadline = Deadline(context.settings.sink_patience_seconds)
        self._refused_after: int | None = None
        self._failed_at: tuple[set[tuple[str, int, int]], int] = (set(), 0)
        self.report = RunReport(context.config.name)
        table = LedgerTable(context.namespace, context.config.name, uuid.uuid4().hex)
        self._parts = RunParts(
            engine=engine,
            once=once,
            stop=stop,
            table=table,
            admin=cluster.admin_client(context.kafka),
            limit=BatchLimit(context.config, waits=not once),
            deadline=self._deadline,
            group=GroupOffsets(context.kafka, group_of(context.config)),
            life=SignThread(LifeSigns(context, table)),
            report=self.report,
            metrics=SinkMetrics(context.config.name, None if once else context.config.buffer),
        )

    def run(self) -> RunReport:
        """Run to the end: all that is available (`once`), or until `stop` is set. Raises what a person must see."""
        with log_context(sink=self.report.sink), served(self._parts.metrics, self._context.config.metrics, self._ends):
            return self._run()

    def _run(self) -> RunReport:
        begun = time.monotonic()
        try:
            while not self._stop.is_set() and not self._done():
                pass
            self._finish()
        except (FencedError, TransientError):
            raise  # the sink is another run's, or will be claimed again
        except FirnError:
            with suppress(FirnError):
                self._leave(lambda _connection: None)
            raise
        finally:
            self._parts.group.close()
        self.report.seconds = time.monotonic() - begun
        return self.report

    def _done(self) -> bool:
        """Run epochs until one ends by itself, or only a new claim is wanted (False)."""
        try:
            with_retries_until(self._stop, self._deadline, self._epoch)
        except PlanAgainError as again:
            log.info(again.what)
            return False
        except AuthenticationError as error:
            self._renew(error)
            return False
        except RefusedRowsError as error:
            self._retry_refused(error)
            return False
        except TransientError as error:
            if not self._stop.is_set():
                raise
            if not isinstance(error, StopRequestedError):
                log.warning("The sink was asked to stop while it could not go on: %s", error.what)
        return True

    def _epoch(self) -> None:
        try:
            Epoch(self._context, self._parts).run()
        except EngineLostError:
            # A process has one JVM: trying again helps in a new process only.
            self._deadline.failed(ago=self._deadline.seconds)
            raise
        except BatchFailedError as error:
            self._count_failure(error)
            raise

    def _count_failure(self, error: BatchFailedError) -> None:
        """Raise TerminalError where Spark failed over the same offsets too often: it would for ever."""
        starts = {(each.topic, each.partition, each.start) for each in error.ranges}
        before, times = self._failed_at
        times = times + 1 if starts & before else 1
        self._failed_at = (starts, times)
        if times >= SAME_FAILURES:
            raise TerminalError(
                f"Spark failed {times} times in a row over the same offsets: {error.what}",
                where=", ".join(map(str, error.ranges)),
                next_step=f"{error.next_step} Then start the sink again: it continues from the ledger.",
            ) from error

    def _retry_refused(self, error: RefusedRowsError) -> None:
        """Rows may have been damaged on their way: the batch is read and sent again, once; else raise."""
        if self._refused_after == self.report.batches:
            raise error
        self._refused_after = self.report.batches
        log.warning("%s The sink claims again and reads these records again.", error.what)

    def _renew(self, error: AuthenticationError) -> None:
        """Go on with other credentials, if there are any by now; else raise `error`.

        Credentials alone: a configuration that was edited meanwhile counts from the next start.
        """
        if self._reload is None:
            raise error
        try:
            renewed = with_retries_until(self._stop, self._deadline, self._reload)
        except TerminalError:
            raise error from None
        login = replace(
            self._context.login,
            user=renewed.login.user,
            private_key=renewed.login.private_key,
            private_key_passphrase=renewed.login.private_key_passphrase,
            key_place=renewed.login.key_place,
        )
        changed = replace(
            self._context, login=login, value_registry=renewed.value_registry, key_registry=renewed.key_registry
        )
        if renewed.kafka.brokers == self._context.kafka.brokers:
            changed = replace(changed, kafka=renewed.kafka)
        if changed == self._context:
            raise error
        if changed.kafka != self._context.kafka:
            self._parts.group.close()
            group = GroupOffsets(changed.kafka, group_of(changed.config))
            self._parts = replace(self._parts, admin=cluster.admin_client(changed.kafka), group=group)
        self._parts.life.close()
        self._parts = replace(self._parts, life=SignThread(LifeSigns(changed, self._parts.table)))
        log.warning("A login was refused, and there are other credentials by now: the sink goes on with those.")
        self._context = changed

    def _ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Kafka's end offsets."""
        ends = cluster.offsets(self._parts.admin, partitions, "high_watermark")
        return {TopicPartition(*where): end for where, end in ends.items()}

    def _finish(self) -> None:
        """The orderly end. A run that takes what is available must report how far it came; a stopped one tries to."""
        try:
            with_retries_until(self._stop, self._deadline, lambda: self._leave(self._measure))
        except FirnError as error:
            if not self._stop.is_set():
                raise
            log.warning("How far the sink is could not be measured at its end: %s", error.what)

    def _leave(self, last: Callable[[SnowflakeConnection], None]) -> None:
        """Say that nobody runs the sink any more, in a session of its own: a batch may still hang in the other."""
        if epoch := self._parts.table.held:
            with connect(self._context.login, query_tag=f"firn sink {self._context.config.name}") as connection:
                self._parts.table.release(connection, epoch)
                self._parts.life.ended()
                last(connection)

    def _measure(self, connection: SnowflakeConnection) -> None:
        config = self._context.config
        partitions = partitions_of(self._parts.admin, config)
        positions = self._parts.table.positions(connection)
        self.report.tables = {where.topic: quoted(table_for(where.topic, config.table_map)) for where in partitions}
        self.report.measure({where: p.next_offset for where, p in positions.items()}, partitions)
