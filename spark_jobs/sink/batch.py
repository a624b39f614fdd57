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

from pyspark.sql import DataFrame
from snowflake.connector import SnowflakeConnection

from firn.errors import FirnError, TransientError, unexpected
from firn.logs import log_context
from firn.snowflake_faults import MissingObjectError
from spark_jobs.sink.bad_records import log_stopped, log_tolerated, stopped_error
from spark_jobs.sink.context import SinkContext
from spark_jobs.sink.copy_into import RefusedError, copy_files
from spark_jobs.sink.decode.records import OF_THE_TABLE
from spark_jobs.sink.ledger import ClaimAgainError, Ledger, Move, TopicPartition
from spark_jobs.sink.ledger_owner import Totals
from spark_jobs.sink.ledger_table import LedgerTable
from spark_jobs.sink.reports import Cut, Staged, Stopped, Tolerated
from spark_jobs.sink.shipping import Shipping, dropped
from spark_jobs.sink.spark_faults import translated
from spark_jobs.sink.transaction import transaction

log = logging.getLogger(__name__)
PlannedEnds = Callable[[int], Mapping[TopicPartition, int]]


class StopRequestedError(TransientError):
    """The run was asked to stop between two batches."""


class BatchFailedError(Exception):
    """What Spark is told of a batch that failed: that it did. Why is in `BatchRunner.failure`."""


class PlanAgainError(FirnError):
    """Nothing failed: there are new partitions, or what is planned must be cut otherwise. Claim and plan again."""


@dataclass(frozen=True)
class Committed:
    """What one batch brought: rows, bytes staged and of JSON, files, moves, and how long each phase took.

    tolerated: the bad records that errors.tolerance=all left out. schema_ids: of the values, each once.
    """

    batch: str
    rows: int
    size: int
    text_size: int
    files: int
    moves: tuple[Move, ...]
    tolerated: tuple[Tolerated, ...]
    ship_seconds: float
    commit_seconds: float
    schema_ids: tuple[int, ...] = ()

    @property
    def bad_records(self) -> int:
        """Records that were left out."""
        return sum(each.records for each in self.tolerated)

    @property
    def dead_letters(self) -> int:
        """How many of them were published just now."""
        return sum(each.letters for each in self.tolerated)


class BatchRunner:
    """Runs the batches of one epoch. `idle` is held while a batch runs; `stopping` refuses the next one."""

    def __init__(
        self,
        context: SinkContext,
        connection: SnowflakeConnection,
        ledger: Ledger,
        table: LedgerTable,
        shipping: Shipping,
        *,
        planned_ends: PlannedEnds,
        confirm: Callable[[Iterable[str]], None],
        on_commit: Callable[[Committed], None],
    ) -> None:
        self._context, self._connection, self._table, self._ledger = context, connection, table, ledger
        self._planned_ends, self._confirm, self._on_commit = planned_ends, confirm, on_commit
        self._shipping, self._stage, self._loads = shipping, shipping.stage, shipping.loads
        self.failure: FirnError | None = None
        self.stopping = threading.Event()
        self.idle = threading.Lock()

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """One batch. Whatever is raised is in `failure` first."""
        with self.idle, log_context(sink=self._ledger.sink, epoch=self._ledger.epoch, batch=self._name(batch_id)):
            try:
                with translated(f"batch {batch_id}"):
                    self._run(frame, batch_id)
            except FirnError as error:
                self.failure = error
            except Exception as error:
                self.failure = unexpected(error)
                log.exception("a batch of the sink failed")
            else:
                return
        # Short, and without a traceback: Spark takes the text apart with a regular expression, whose stack overflows on
        # a long one, and its stream would die without a word.
        raise BatchFailedError(type(self.failure).__name__)

    def _name(self, batch_id: int) -> str:
        return f"{self._ledger.epoch}-{batch_id}"

    def _run(self, frame: DataFrame, batch_id: int) -> None:
        if self.stopping.is_set():
            raise StopRequestedError("The sink was asked to stop.")
        begun = time.monotonic()
        ends = self._planned_ends(batch_id)
        self._loads.begin_batch()
        shipped = self._shipping.ship(
            frame, {w.topic for w, end in ends.items() if end > self._ledger.committed.get(w, 0)}
        )
        between = time.monotonic()
        staged, stops, cuts = shipped.of(Staged), shipped.of(Stopped), shipped.of(Cut)
        tolerated = shipped.of(Tolerated)
        self._loads.refused({each.where.topic for each in tolerated if OF_THE_TABLE & each.reasons.keys()})
        brought = _brought(staged, tolerated)
        ended: list[Stopped | Cut] = [*stops, *cuts]
        moves = self._ledger.plan(ends, {each.where: each.offset for each in ended})
        _check_inside(staged, moves)
        name = self._name(batch_id)
        if moves:
            self._commit(name, moves, staged, brought)
        self._ledger.advance(ends, moves)
        self._shipping.forget_letters(tolerated)
        committed = Committed(
            batch=name,
            rows=brought.records,
            size=sum(file.size for file in staged),
            text_size=brought.bytes,
            files=len(staged),
            moves=moves,
            tolerated=tuple(tolerated),
            ship_seconds=between - begun,
            commit_seconds=time.monotonic() - between,
            schema_ids=tuple(sorted({schema_id for file in staged for schema_id in file.schema_ids})),
        )
        log_tolerated(self._context.config.name, self._context.config.errors, committed.tolerated)
        self._on_commit(committed)
        if stops:
            log_stopped(self._context.config.errors, stops)
            raise stopped_error(self._context.config.name, stops)
        if cuts:
            why = f"{cuts[0].where} is planned anew from offset {cuts[0].offset}: {cuts[0].why}."
            # Without a step forward it would be planned the same way for ever: that is a fault, with a deadline.
            raise PlanAgainError(why) if moves else ClaimAgainError(why)

    def _commit(self, name: str, moves: tuple[Move, ...], staged: Sequence[Staged], brought: Totals) -> None:
        """Rows and ledger in one transaction; the ledger last, so that its lock is held for a moment only."""
        self._confirm(sorted({move.where.topic for move in moves}))
        try:
            with transaction(self._connection):
                copy_files(self._connection, self._context.namespace, self._stage, staged, self._loads)
                self._table.move(self._connection, self._ledger.epoch, name, moves, brought)
        except RefusedError as error:
            self._table.keep(self._connection, self._ledger.epoch, error.files)
            raise
        except MissingObjectError as error:
            raise dropped(error) from error
        try:
            self._stage.remove_own(self._connection)
        except FirnError:
            log.warning("Staged files could not be removed; the next start removes them", exc_info=True)


def _brought(staged: Sequence[Staged], tolerated: Sequence[Tolerated]) -> Totals:
    """What a batch adds to the totals of its sink."""
    rows, text_size = sum(file.rows for file in staged), sum(file.text_size for file in staged)
    bad, letters = sum(each.records for each in tolerated), sum(each.letters for each in tolerated)
    return Totals(rows, text_size, 1, bad, letters)


def _check_inside(staged: Sequence[Staged], moves: Sequence[Move]) -> None:
    """A file outside its partition's move would be rows that the ledger does not know."""
    ranges = {move.where: move for move in moves}
    for file in staged:
        move = ranges.get(TopicPartition(file.topic, file.partition))
        if move is None or file.first < move.start or file.last >= move.end:
            raise FirnError(f"File {file.path} lies outside the range that is committed ({move}).")
