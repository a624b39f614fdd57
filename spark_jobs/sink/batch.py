"""The protocol of one batch, on the driver: dispatch, then commit. Not for when batches begin and end (`stream`).

docs/decisions/0001-commit-protocol.md gives the reasons.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from firn.connector.config import ErrorsConfig
from firn.errors import ClaimAgainError, FirnError, TerminalError, TransientError, unexpected
from firn.kafka.partitions import OffsetRange
from firn.ledger.positions import Ledger, Move
from firn.logs import log_context
from firn.sinks.context import SinkContext
from firn.snowflake.faults import MissingObjectError
from spark_jobs.sink.dispatch import Dispatcher, claim_again
from spark_jobs.sink.methods.base import DriverSide, LedgerUpdate, RejectedRowsError
from spark_jobs.sink.telemetry.bad_records import log_stopped, stopped_error
from spark_jobs.sink.values.bad_records import OF_THE_TABLE
from spark_jobs.sink.values.batches import CommittedBatch, DispatchedBatch, PublishedLetters
from spark_jobs.sink.values.reports import Cut, RangeRead, Receipt, Stopped, Tolerated
from spark_jobs.spark.engine import EngineFailedError

log = logging.getLogger(__name__)


class StopRequestedError(TransientError):
    """The run was asked to stop."""


class PlanAgainError(FirnError):
    """Nothing failed: there are new partitions, or what is planned must be cut otherwise. Claim and plan again."""


class BatchFailedError(EngineFailedError):
    """Spark failed over a batch. `ranges`: what it was to read, for who counts how often it failed there."""

    ranges: tuple[OffsetRange, ...] = ()


@contextmanager
def ended_by(stop: threading.Event, what: str) -> Iterator[None]:
    """What work of an epoch raises: StopRequestedError for all but terminal errors once a stop was asked for.

    What nobody foresaw becomes a FirnError, and is logged as `what`.
    """
    try:
        yield
    except FirnError as error:
        if not stop.is_set() or isinstance(error, TerminalError | StopRequestedError):
            raise
        raise stop_requested() from error
    except Exception as error:
        if stop.is_set():
            log.debug("%s while it was stopping", what, exc_info=True)
            raise stop_requested() from error
        log.exception("%s", what)
        raise unexpected(error) from error


def stop_requested() -> StopRequestedError:
    """The end that somebody asked for."""
    return StopRequestedError("The sink was asked to stop.")


class BatchRunner:
    """Dispatches and commits the batches of one epoch: one thread may dispatch while another commits the batch before.

    confirm: raises unless these topics are still the ones that were claimed, and not others of their name.
    """

    def __init__(
        self,
        context: SinkContext,
        ledger: Ledger,
        method: DriverSide,
        dispatcher: Dispatcher,
        confirm: Callable[[Iterable[str]], None],
    ) -> None:
        self._errors = context.config.errors
        self._sink, self._epoch = ledger.sink, ledger.epoch
        self._method, self._dispatcher, self._confirm = method, dispatcher, confirm

    def dispatch(
        self,
        number: int,
        ranges: Sequence[OffsetRange],
        published: PublishedLetters,
        wait_for_previous: Callable[[], None],
    ) -> DispatchedBatch:
        """Read these ranges and hand their rows to the method. wait_for_previous: as `Dispatcher.dispatch` says."""
        name, begun = f"{self._epoch}-{number}", time.monotonic()
        with log_context(sink=self._sink, epoch=self._epoch, batch=name):
            self._confirm(sorted({each.topic for each in ranges}))
            try:
                result = self._dispatcher.dispatch(ranges, published, wait_for_previous)
                _check_read(ranges, result.reports.of(RangeRead))
            except EngineFailedError as error:
                raise _failed(error, ranges) from error
            tolerated = result.reports.of(Tolerated)
            self._dispatcher.loaders.refused({t.where.topic for t in tolerated if OF_THE_TABLE & t.reasons.keys()})
            return DispatchedBatch(name, result.reports, result.published, time.monotonic() - begun)

    def commit(self, batch: DispatchedBatch, moves: tuple[Move, ...]) -> CommittedBatch:
        """Make its rows count, with these moves. Raises ClaimAgainError where the ledger alone knows what happened."""
        begun, receipts, totals = time.monotonic(), batch.receipts, batch.totals
        with log_context(sink=self._sink, epoch=self._epoch, batch=batch.name):
            _check_inside(receipts, moves)
            if moves:
                self._commit(receipts, LedgerUpdate(batch.name, moves, totals))
        return CommittedBatch(
            name=batch.name,
            rows=totals.records,
            bytes=sum(receipt.bytes for receipt in receipts),
            text_bytes=totals.bytes,
            receipts=len(receipts),
            moves=moves,
            tolerated=tuple(batch.tolerated),
            dispatch_seconds=batch.seconds,
            commit_seconds=time.monotonic() - begun,
            schema_ids=tuple(sorted({schema_id for receipt in receipts for schema_id in receipt.schema_ids})),
        )

    def _commit(self, receipts: Sequence[Receipt], update: LedgerUpdate) -> None:
        self._confirm(sorted({move.where.topic for move in update.moves}))
        try:
            self._method.commit(receipts, update)
        except MissingObjectError as error:
            raise claim_again(error) from error
        except RejectedRowsError as error:
            # Nothing was committed: read again, these records are bad ones like any others.
            self._dispatcher.reject(error.rows)
            raise PlanAgainError(f"{error.what} The batch is read again, and these records are bad.") from error

    def after(self, batch: DispatchedBatch, moves: tuple[Move, ...]) -> None:
        """Raise what ends the stream behind this batch, which is committed: a bad record, or a plan that was cut."""
        raise_stopped(self._sink, self._errors, batch.reports.of(Stopped))
        if cuts := batch.reports.of(Cut):
            why = f"{cuts[0].where} is planned again from offset {cuts[0].offset}: {cuts[0].why}."
            # Without a step forward it would be planned the same way for ever: that is a fault, with a deadline.
            raise PlanAgainError(why) if moves else ClaimAgainError(why)


def raise_stopped(sink: str, errors: ErrorsConfig, stops: Sequence[Stopped]) -> None:
    """Raise BadRecordError where records stopped the sink, and log them as it is configured."""
    if stops:
        log_stopped(errors, stops)
        raise stopped_error(sink, stops)


def _failed(error: EngineFailedError, ranges: Sequence[OffsetRange]) -> BatchFailedError:
    failed = BatchFailedError(error.what, where=error.where, next_step=error.next_step)
    failed.ranges = tuple(ranges)
    return failed


def _check_read(ranges: Sequence[OffsetRange], read: Sequence[RangeRead]) -> None:
    """A range that no task reported, or two did, would be left out or doubled."""
    planned = sorted((each.topic, each.partition, each.start) for each in ranges)
    if planned != sorted((each.topic, each.partition, each.start) for each in read):
        raise EngineFailedError(
            f"{len(planned)} ranges were planned, and the tasks reported {len(read)}.",
            where=", ".join(map(str, ranges)),
            next_step="See Spark's log in FIRN_HOME/logs.",
        )


def _check_inside(receipts: Sequence[Receipt], moves: Sequence[Move]) -> None:
    """A receipt outside its partition's move would be rows that the ledger does not know."""
    by_partition = {move.where: move for move in moves}
    for receipt in receipts:
        move = by_partition.get(receipt.where)
        if move is None or receipt.first < move.start or receipt.last >= move.end:
            raise FirnError(f"The rows of {receipt} lie outside the range that is committed ({move}).")
