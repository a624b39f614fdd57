"""The protocol of one batch, on the driver: ship, plan, commit, advance. Called by foreachBatch, on its thread.

docs/decisions/0001-commit-protocol.md gives the reasons. Every error keeps its kind in `failure`, because what Spark
raises in its place is only text.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from snowflake.connector import SnowflakeConnection

from firn.connector.config import ErrorsConfig
from firn.errors import BadRecordError, FirnError, TransientError, unexpected
from spark_jobs.sink.context import SinkContext
from spark_jobs.sink.copy_into import copy_files
from spark_jobs.sink.identifiers import table_for
from spark_jobs.sink.ledger import Ledger, Move, TopicPartition
from spark_jobs.sink.ledger_table import LedgerTable
from spark_jobs.sink.reports import Failed, Report, Staged, Stopped, load
from spark_jobs.sink.ship import ShipPlan, ship
from spark_jobs.sink.spark_faults import cause
from spark_jobs.sink.stage import Stage
from spark_jobs.sink.tables import ensure_table
from spark_jobs.sink.transaction import transaction

log = logging.getLogger(__name__)
PlannedEnds = Callable[[int], Mapping[TopicPartition, int]]


class StopRequestedError(TransientError):
    """The run was asked to stop between two batches."""


@dataclass(frozen=True)
class Committed:
    """What one batch brought: rows, bytes staged and of JSON, files, moves, and how long each phase took."""

    batch: str
    rows: int
    size: int
    text_size: int
    files: int
    moves: tuple[Move, ...]
    ship_seconds: float
    commit_seconds: float


class BatchRunner:
    """Runs the batches of one epoch. `idle` is held while a batch runs; `stopping` refuses the next one."""

    def __init__(
        self,
        context: SinkContext,
        connection: SnowflakeConnection,
        ledger: Ledger,
        table: LedgerTable,
        *,
        planned_ends: PlannedEnds,
        confirm: Callable[[Iterable[str]], None],
        on_commit: Callable[[Committed], None],
    ) -> None:
        self._context, self._connection, self._ledger, self._table = context, connection, ledger, table
        self._planned_ends, self._confirm, self._on_commit = planned_ends, confirm, on_commit
        self._stage = Stage(context.namespace, context.config.name, ledger.epoch)
        self._ready: set[str] = set()
        self.failure: FirnError | None = None
        self.stopping = threading.Event()
        self.idle = threading.Lock()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """One batch. Whatever is raised is in `failure` first."""
        with self.idle:
            try:
                self._run(frame, batch_id)
            except FirnError as error:
                self.failure = error
                raise
            except (PySparkException, Py4JError) as error:
                self.failure = TransientError(f"Spark could not run batch {batch_id}: {cause(error)}")
                raise
            except Exception as error:
                self.failure = unexpected(error)
                raise

    def _run(self, frame: DataFrame, batch_id: int) -> None:
        if self.stopping.is_set():
            raise StopRequestedError("The sink was asked to stop.")
        begun = time.monotonic()
        ends = self._planned_ends(batch_id)
        staged, stops = self._ship(frame)
        shipped = time.monotonic()
        moves = self._ledger.plan(ends, {stop.where: stop.offset for stop in stops})
        _check_inside(staged, moves)
        name = f"{self._ledger.epoch}-{batch_id}"
        if moves:
            self._commit(name, moves, staged)
        self._ledger.advance(ends, moves)
        committed = Committed(
            batch=name,
            rows=sum(file.rows for file in staged),
            size=sum(file.size for file in staged),
            text_size=sum(file.text_size for file in staged),
            files=len(staged),
            moves=moves,
            ship_seconds=shipped - begun,
            commit_seconds=time.monotonic() - shipped,
        )
        self._on_commit(committed)
        if stops:
            _log_bad(self._context.config.errors, stops)
            raise _bad_record(self._context.config.name, stops)

    def _ship(self, frame: DataFrame) -> tuple[list[Staged], list[Stopped]]:
        """The one action of a batch: a task per partition, or `tasks.max` of them; only reports come back."""
        plan = ShipPlan(self._context, self._stage, dict(self._ledger.committed))
        if self._context.config.tasks_max:
            frame = frame.coalesce(self._context.config.tasks_max)
        rows = frame.mapInArrow(partial(ship, plan), "report string").collect()
        reports: list[Report] = [load(row["report"]) for row in rows]
        for report in reports:
            if isinstance(report, Failed):
                raise report.unwrap()
        return (
            [report for report in reports if isinstance(report, Staged)],
            [report for report in reports if isinstance(report, Stopped)],
        )

    def _commit(self, name: str, moves: tuple[Move, ...], staged: Sequence[Staged]) -> None:
        """Rows and ledger in one transaction; the ledger last, so that its lock is held for a moment only."""
        self._confirm(sorted({move.where.topic for move in moves}))
        # Outside the transaction: DDL would commit it.
        self._ensure_tables(table_for(move.where.topic, self._context.config.table_map) for move in moves)
        with transaction(self._connection):
            copy_files(self._connection, self._context.namespace, self._stage, staged)
            self._table.move(self._connection, self._ledger.epoch, name, moves)
        try:
            self._stage.remove_own(self._connection)
        except FirnError:
            log.warning("Staged files could not be removed; the next start removes them", exc_info=True)

    def _ensure_tables(self, tables: Iterable[str]) -> None:
        create = self._context.config.auto_create_tables
        for table in sorted(set(tables) - self._ready):
            ensure_table(self._connection, self._context.namespace, table, create=create)
            self._ready.add(table)


def _check_inside(staged: Sequence[Staged], moves: Sequence[Move]) -> None:
    """A file outside its partition's move would be rows that the ledger does not know."""
    ranges = {move.where: move for move in moves}
    for file in staged:
        move = ranges.get(TopicPartition(file.topic, file.partition))
        if move is None or file.first < move.start or file.last >= move.end:
            raise FirnError(f"File {file.path} lies outside the range that is committed ({move}).")


def _log_bad(errors: ErrorsConfig, stops: Sequence[Stopped]) -> None:
    """What Connect's errors.log.enable and errors.log.include.messages ask for."""
    for stop in stops if errors.log_enable else ():
        record = f" ({stop.where} offset {stop.offset}: {stop.detail})" if errors.log_messages else ""
        log.error("a record cannot be converted: %s%s", stop.reason, record)


def _bad_record(sink: str, stops: Sequence[Stopped]) -> BadRecordError:
    lines = [f"  {stop.where} offset {stop.offset}: {stop.reason}: {stop.detail}" for stop in stops]
    return BadRecordError(
        "The sink stopped in front of records that cannot be converted (errors.tolerance=none):\n" + "\n".join(lines),
        where=f"sink {sink}; everything before them is committed",
        next_step="Correct the producer or the registry and start the sink again: it goes on at these records.",
    )
