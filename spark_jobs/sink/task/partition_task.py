"""What runs on executors: one pass over ranges of offsets, from Kafka's records to the method's receipts.

`run_task` is the task of a batch's Spark job. A task reads its partitions one after the other, each from the ledger's
position on. It does not raise: it reports (`reports`), because Spark would turn an error into text and lose its kind.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext

from firn.dead_letters.published import PartitionLetters
from firn.errors import FirnError, TransientError, unexpected
from firn.kafka.fetching import BATCH_BYTES
from firn.kafka.partitions import OffsetRange, TopicPartition
from firn.kafka.ranges import StalledRangeError
from firn.logs import add_to_log_context, log_context, log_fields
from firn.plural import counted
from firn.retry import RETRIES
from firn.sinks.context import SinkContext
from firn.snowflake.identifiers import table_for
from spark_jobs.sink.columns.required_schema_changes import RequiredSchemaChanges, schema_change_request
from spark_jobs.sink.columns.staged_columns import column_builder_for
from spark_jobs.sink.dead_letters.tolerance import Tolerance
from spark_jobs.sink.decode.base.contract import Decoder, OutputTooLargeError
from spark_jobs.sink.methods.base import PartitionRange, TaskSide
from spark_jobs.sink.task.convert import Converted, convert
from spark_jobs.sink.task.worker import (
    begin_task,
    confirm_epoch,
    decoders_of,
    patience,
    reader_for,
    schema_types_of,
    session_of,
)
from spark_jobs.sink.values.bad_records import OF_THE_TABLE, TOO_LARGE, BadRecord
from spark_jobs.sink.values.reports import Cut, Failed, RangeRead, Report, Retried, Stopped, SuspectedStaleSchema, dump
from spark_jobs.sink.values.table_loaders import TableLoader

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RangeWork:
    """One range that a task reads. Holds no credential: Spark writes it to a file on its way to the task.

    topic_id: Kafka's id of the topic. bytes: of text, after which the range ends, wherever it is. letters: which dead
    letters of the partition are out already.
    """

    offsets: OffsetRange
    topic_id: str
    bytes: int
    letters: PartitionLetters

    @property
    def where(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.offsets.topic, self.offsets.partition)


@dataclass(frozen=True)
class TaskPlan:
    """What every task of a batch needs to know.

    loaders: of each topic's table. patience: seconds that a task may go on failing. unverified: topics whose tables
    were not described since the batch began, so that they may have changed. log_fields: of the driver's lines about the
    batch, for those of the task.
    """

    context: SinkContext
    method: TaskSide
    epoch: int
    loaders: Mapping[str, TableLoader]
    patience: float
    unverified: frozenset[str] = frozenset()
    log_fields: Mapping[str, object] = field(default_factory=log_fields)


def run_task(plan: TaskPlan, groups: Iterator[Sequence[RangeWork]]) -> Iterator[str]:
    """Read and convert the ranges of a task, and write their rows; yields its reports as texts (`reports.dump`)."""
    RETRIES.take()  # of the worker's last task
    with log_context(**plan.log_fields):
        reports = _run(plan, [work for group in groups for work in group])
    if retried := RETRIES.take():
        reports.append(Retried(retried))
    gc.collect()  # a worker has no other collection (`daemon`)
    yield from map(dump, reports)


def _run(plan: TaskPlan, works: Sequence[RangeWork]) -> list[Report]:
    begin_task(plan.patience)
    try:
        _refuse_second_attempt(works)
        with tempfile.TemporaryDirectory(prefix="firn-") as folder:
            return [report for work in works for report in _run_range(plan, work, Path(folder))]
    except StalledRangeError as error:
        return [Failed.of(error, max(patience.failing_for(), error.seconds))]
    except FirnError as error:
        return [Failed.of(error, patience.failing_for())]
    except OSError as error:
        return [Failed.of(_of_the_disk(error))]
    except Exception as error:
        log.exception("a task of the sink failed")
        return [Failed.of(unexpected(error))]


def _refuse_second_attempt(works: Sequence[RangeWork]) -> None:
    """Raise TransientError in a task that Spark runs again, as it does for one that an executor took with it.

    The attempt that was lost may have published dead letters, and may yet. A new epoch settles that.
    """
    task = TaskContext.get()
    if task is not None and task.attemptNumber() > 0:
        raise TransientError(
            f"Spark lost a task of {', '.join(str(work.where) for work in works)} and ran it again.",
            where=f"attempt {task.attemptNumber()}",
            next_step="Nothing: the sink claims again and finds out what the lost task published.",
        )


def _run_range(plan: TaskPlan, work: RangeWork, folder: Path) -> list[Report]:
    add_to_log_context(topic=work.offsets.topic, partition=work.offsets.partition)
    at = _Partition(plan, work, decoders_of(plan.context), folder)
    for batch in reader_for(plan.context, work.offsets).read(work.offsets, size=min(BATCH_BYTES, work.bytes)):
        at.take(batch)
        if at.ended:
            break
    return at.finish()


def _of_the_disk(error: OSError) -> FirnError:
    """A full disk may be emptied by somebody; whatever else it is, nobody foresaw it."""
    if error.errno not in _NO_SPACE:
        log.error("a task of the sink failed", exc_info=error)
        return unexpected(error)
    return TransientError(
        f"A file on its way to Snowflake could not be written: {os.strerror(error.errno or 0)}.",
        where=f"folder {tempfile.gettempdir()} of a Spark worker",
        next_step="Free space there, set TMPDIR to a larger volume, or raise the limit of open files. Nothing is lost: "
        "the batch is read again.",
    )


class _Partition:
    """One partition within a task: how far it was read, its writer, its bad records, and where it ended."""

    def __init__(self, plan: TaskPlan, work: RangeWork, decoders: tuple[Decoder, Decoder], folder: Path) -> None:
        where = self._where = work.where
        self._config, self._decoders, self._work = plan.context.config, decoders, work
        self._table = table_for(where.topic, self._config.table_map)
        loader = plan.loaders[where.topic]
        strict = self._config.errors.tolerance == "none"
        self._builder = column_builder_for(loader, schema_types_of(plan.context), strict=strict)
        target = PartitionRange(where, self._table, loader, folder)
        self._writer = plan.method.writer(target, session_of(plan.context))
        confirm = partial(confirm_epoch, plan.context, plan.epoch)
        self._tolerance = Tolerance(plan.context, where, work.topic_id, work.letters, folder, confirm)
        self._unverified, self._suspected_stale = where.topic in plan.unverified, False
        self._ended: Stopped | Cut | None = None
        self._records, self._read_to = 0, work.offsets.start

    @property
    def ended(self) -> bool:
        """Whether what comes next in the range is not wanted any more."""
        size = self._writer.text_bytes + self._tolerance.size
        return bool(self._ended or self._suspected_stale) or size >= self._work.bytes

    def take(self, batch: pa.RecordBatch) -> None:
        """Convert and write the rows that are no dead letters yet, up to where the range ends."""
        self._records += batch.num_rows
        self._read_to = batch.column("offset")[-1].as_py() + 1
        self._convert(batch)

    def _convert(self, batch: pa.RecordBatch) -> None:
        if self._ended or self._suspected_stale:
            return
        batch = self._tolerance.unpublished(batch)
        if batch.num_rows == 0:
            return
        try:
            converted = convert(self._config, self._where, batch, self._decoders, self._builder)
        except OutputTooLargeError:
            self._take_in_halves(batch)
            return
        self._suspected_stale = self._unverified and any(each.reason in OF_THE_TABLE for each in converted.bad)
        if self._suspected_stale:
            return
        if not converted.bad or self._config.errors.tolerance == "none":
            self._write(converted)
            self._stop(batch, converted.bad)
        elif self._leave_out(batch, converted.bad):
            self._write(converted)

    def _write(self, converted: Converted) -> None:
        if not self._required_changes:  # else these columns are not those that the table will have
            self._writer.write(converted.offsets, converted.columns, converted.schema_ids)

    @property
    def _required_changes(self) -> RequiredSchemaChanges | None:
        """What the table would need to take these records, if anything."""
        changes = self._builder.required_changes
        return changes if changes and changes.any else None

    def _stop(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> None:
        if bad:
            offset = batch.column("offset")[bad[0].row].as_py()
            self._ended = Stopped(*self._where, offset, bad[0].reason, bad[0].detail)

    def _leave_out(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> bool:
        """Tolerate these records of `batch`; False where the range must end among them, and what is before is taken."""
        cut = self._tolerance.cut(batch, bad)
        if cut is None:
            self._tolerance.add(batch, bad)
            return True
        self._convert(batch.slice(0, cut.row))
        self._ended = Cut(*self._where, batch.column("offset")[cut.row].as_py(), cut.why)
        return False

    def _take_in_halves(self, batch: pa.RecordBatch) -> None:
        """Small records may unpack to more text than one Arrow array holds."""
        half = batch.num_rows // 2
        bad = (BadRecord(0, TOO_LARGE, "its JSON passes what one batch may hold"),)
        if half:
            self._convert(batch.slice(0, half))
            self._convert(batch.slice(half))
        elif self._config.errors.tolerance == "none":
            self._stop(batch, bad)
        else:
            self._leave_out(batch, bad)

    def finish(self) -> list[Report]:
        """Flush the writer, then publish the dead letters; returns the partition's reports.

        Where the table must change or be described first, neither is done: the batch is dispatched again after that.
        """
        if changes := self._required_changes:
            return [schema_change_request(*self._where, self._table, changes)]
        if self._suspected_stale:
            return [SuspectedStaleSchema(*self._where, self._table)]
        receipts = self._writer.flush()
        log.debug("wrote %s", counted(sum(receipt.rows for receipt in receipts), "record"))
        tolerated = self._tolerance.publish()
        # Last: without it a batch does not count, so reports that were cut off on their way never pass for all.
        read = RangeRead(*self._where, self._work.offsets.start, self._end, self._records)
        return [*receipts, *(report for report in (tolerated, self._ended) if report), read]

    @property
    def _end(self) -> int:
        """How far the range was read: to its end, unless something ended it early."""
        if self._ended:
            return self._ended.offset
        return self._read_to if self.ended else self._work.offsets.end
