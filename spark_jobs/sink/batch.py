"""The protocol of one batch, on the driver: stage, then commit. Not for when batches begin and end (`stream`).

docs/decisions/0001-commit-protocol.md gives the reasons.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from snowflake.connector import SnowflakeConnection

from firn.errors import ClaimAgainError, FirnError, TransientError
from firn.kafka.partitions import OffsetRange, TopicPartition
from firn.ledger.owner import Totals
from firn.ledger.positions import Ledger, Move
from firn.ledger.table import LedgerTable
from firn.logs import log_context
from firn.sinks.context import SinkContext
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.transactions import transaction
from spark_jobs.sink.bad_records import log_stopped, stopped_error
from spark_jobs.sink.dispatch import LettersOut, Shipped, Shipping, dropped
from spark_jobs.sink.methods.snowpipe.copy_into import RefusedError, copy_files
from spark_jobs.sink.methods.snowpipe.refused_files import remember_refused
from spark_jobs.sink.spark.faults import EngineFailedError
from spark_jobs.sink.values.bad_records import OF_THE_TABLE
from spark_jobs.sink.values.reports import Cut, Read, Staged, Stopped, Tolerated

log = logging.getLogger(__name__)


class StopRequestedError(TransientError):
    """The run was asked to stop."""


class PlanAgainError(FirnError):
    """Nothing failed: there are new partitions, or what is planned must be cut otherwise. Claim and plan again."""


class BatchFailedError(EngineFailedError):
    """Spark failed over a batch. `ranges`: where it began, for who counts how often it failed there."""

    ranges: tuple[OffsetRange, ...] = ()


@dataclass(frozen=True)
class StagedBatch:
    """A batch that was read and staged: it waits for its commit. seconds: how long that took."""

    name: str
    shipped: Shipped
    seconds: float

    @property
    def files(self) -> list[Staged]:
        """The files that the stage acknowledged."""
        return self.shipped.reports.of(Staged)

    @property
    def ranges(self) -> list[Move]:
        """How far each range was read."""
        return [each.move for each in self.shipped.reports.of(Read)]

    @property
    def ends(self) -> list[Stopped | Cut]:
        """Where partitions must not be passed: nothing behind is planned from here."""
        return [*self.shipped.reports.of(Stopped), *self.shipped.reports.of(Cut)]

    @property
    def tolerated(self) -> list[Tolerated]:
        """The bad records that were left out."""
        return self.shipped.reports.of(Tolerated)


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
    """Stages and commits the batches of one epoch: one thread may stage while another commits the batch before.

    confirm: raises unless these topics are still the ones that were claimed, and not others of their name.
    """

    def __init__(
        self,
        context: SinkContext,
        connection: SnowflakeConnection,
        ledger: Ledger,
        table: LedgerTable,
        shipping: Shipping,
        confirm: Callable[[Iterable[str]], None],
    ) -> None:
        self._context, self._connection, self._table = context, connection, table
        self._sink, self._epoch = ledger.sink, ledger.epoch
        self._shipping, self._confirm = shipping, confirm

    def stage(
        self, number: int, ranges: Sequence[OffsetRange], letters: LettersOut, settled: Callable[[], None]
    ) -> StagedBatch:
        """Read these ranges and stage them. letters: which dead letters are out. settled: as `Shipping.ship` says."""
        name, begun = f"{self._epoch}-{number}", time.monotonic()
        with log_context(sink=self._sink, epoch=self._epoch, batch=name):
            self._confirm(sorted({each.topic for each in ranges}))
            try:
                shipped = self._shipping.ship(ranges, letters, settled)
                _check_read(ranges, shipped.reports.of(Read))
            except EngineFailedError as error:
                raise _failed(error, ranges) from error
            refusing = {t.where.topic for t in shipped.reports.of(Tolerated) if OF_THE_TABLE & t.reasons.keys()}
            self._shipping.loads.refused(refusing)
            return StagedBatch(name, shipped, time.monotonic() - begun)

    def commit(self, batch: StagedBatch, moves: tuple[Move, ...]) -> Committed:
        """Rows and ledger in one transaction. Raises ClaimAgainError where the ledger has to tell what happened."""
        begun, brought = time.monotonic(), _brought(batch)
        with log_context(sink=self._sink, epoch=self._epoch, batch=batch.name):
            _check_inside(batch.files, moves)
            if moves:
                self._commit(batch, moves, brought)
        return Committed(
            batch=batch.name,
            rows=brought.records,
            size=sum(file.size for file in batch.files),
            text_size=brought.bytes,
            files=len(batch.files),
            moves=moves,
            tolerated=tuple(batch.tolerated),
            ship_seconds=batch.seconds,
            commit_seconds=time.monotonic() - begun,
            schema_ids=tuple(sorted({schema_id for file in batch.files for schema_id in file.schema_ids})),
        )

    def _commit(self, batch: StagedBatch, moves: tuple[Move, ...], brought: Totals) -> None:
        """The ledger comes last, so that its lock is held for a moment only."""
        self._confirm(sorted({move.where.topic for move in moves}))
        try:
            with transaction(self._connection):
                copy_files(
                    self._connection, self._context.namespace, self._shipping.stage, batch.files, self._shipping.loads
                )
                self._table.move(self._connection, self._epoch, batch.name, moves, brought)
        except RefusedError as error:
            remember_refused(self._table, self._connection, self._epoch, error.files)
            raise
        except MissingObjectError as error:
            raise dropped(error) from error
        try:
            self._shipping.stage.remove_files(self._connection, [file.path for file in batch.files])
        except FirnError:
            log.warning("Staged files could not be removed; the next start removes them", exc_info=True)

    def after(self, batch: StagedBatch, moves: tuple[Move, ...]) -> None:
        """Raise what ends the stream behind this batch, which is committed: a bad record, or a plan that was cut."""
        reports = batch.shipped.reports
        if stops := reports.of(Stopped):
            log_stopped(self._context.config.errors, stops)
            raise stopped_error(self._sink, stops)
        if cuts := reports.of(Cut):
            why = f"{cuts[0].where} is planned again from offset {cuts[0].offset}: {cuts[0].why}."
            # Without a step forward it would be planned the same way for ever: that is a fault, with a deadline.
            raise PlanAgainError(why) if moves else ClaimAgainError(why)


def _failed(error: EngineFailedError, ranges: Sequence[OffsetRange]) -> BatchFailedError:
    failed = BatchFailedError(error.what, where=error.where, next_step=error.next_step)
    failed.ranges = tuple(ranges)
    return failed


def _brought(batch: StagedBatch) -> Totals:
    """What a batch adds to the totals of its sink."""
    rows, text_size = sum(file.rows for file in batch.files), sum(file.text_size for file in batch.files)
    bad, letters = sum(each.records for each in batch.tolerated), sum(each.letters for each in batch.tolerated)
    return Totals(rows, text_size, 1, bad, letters)


def _check_read(ranges: Sequence[OffsetRange], read: Sequence[Read]) -> None:
    """A range that no task reported, or two did, would be left out or doubled."""
    planned = sorted((each.topic, each.partition, each.start) for each in ranges)
    if planned != sorted((each.topic, each.partition, each.start) for each in read):
        raise EngineFailedError(
            f"Of {len(planned)} ranges that were planned the tasks reported {len(read)}.",
            where=", ".join(map(str, ranges)),
            next_step="See Spark's log in FIRN_HOME/logs.",
        )


def _check_inside(staged: Sequence[Staged], moves: Sequence[Move]) -> None:
    """A file outside its partition's move would be rows that the ledger does not know."""
    ranges = {move.where: move for move in moves}
    for file in staged:
        move = ranges.get(TopicPartition(file.topic, file.partition))
        if move is None or file.first < move.start or file.last >= move.end:
            raise FirnError(f"File {file.path} lies outside the range that is committed ({move}).")
