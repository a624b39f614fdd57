"""What runs on executors: one pass over the Arrow batches of some Kafka partitions, from bytes to acknowledged files.

`ship` is the function of `mapInArrow`. A task gets its partitions one after the other, each in offset order
(`minPartitions` is never set; `tasks.max` puts several into one task). It must not raise: it reports (see `reports`),
and reads its input to the end either way, because a worker that leaves input behind cannot be used again.
"""

from __future__ import annotations

import errno
import logging
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.errors import FirnError, TransientError, unexpected
from firn.logs import add_to_log_context, log_context, log_fields
from firn.plural import counted
from firn.retry import RETRIES
from spark_jobs.sink.columns.load import Load
from spark_jobs.sink.columns.shape import file_columns, shaper_for
from spark_jobs.sink.columns.wishes import Wishes, wanted
from spark_jobs.sink.context import SinkContext
from spark_jobs.sink.convert import Converted, convert
from spark_jobs.sink.dead_letters import Letters
from spark_jobs.sink.decode.records import OF_THE_TABLE, TOO_LARGE, BadRecord, Decoder, OutputTooLargeError
from spark_jobs.sink.files import PartitionFiles
from spark_jobs.sink.identifiers import table_for
from spark_jobs.sink.ledger import TopicPartition
from spark_jobs.sink.reports import Cut, Doubted, Failed, Report, Retried, Stopped, dump
from spark_jobs.sink.stage import Stage
from spark_jobs.sink.tolerance import Tolerance
from spark_jobs.sink.worker import begin_task, confirm_epoch, decoders_of, patience, schema_types_of

REPORT_SCHEMA = pa.schema([("report", pa.string())])
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShipPlan:
    """What every task of a batch is told.

    committed: the ledger's NEXT_OFFSET for each partition. loads: how the records of each topic are staged. letters:
    which dead letters are out already; topic_ids: Kafka's id of each topic. patience: seconds that a task may go on
    failing. unsure: topics whose tables were not looked at since the batch began, and may be other ones by now.
    log_fields: of the driver's lines about the batch, for those of the task.
    """

    context: SinkContext
    stage: Stage
    committed: Mapping[TopicPartition, int]
    loads: Mapping[str, Load]
    letters: Mapping[TopicPartition, Letters]
    topic_ids: Mapping[str, str]
    patience: float
    unsure: frozenset[str] = frozenset()
    log_fields: Mapping[str, object] = field(default_factory=log_fields)


def ship(plan: ShipPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Convert and stage the records of a task's partitions; yields one batch of reports."""
    RETRIES.take()  # of the worker's last task
    with log_context(**plan.log_fields):
        reports = _ship(plan, batches)
    if retried := RETRIES.take():
        reports.append(Retried(retried))
    for _ in batches:
        pass
    yield pa.record_batch([pa.array([dump(report) for report in reports], pa.string())], schema=REPORT_SCHEMA)


def _ship(plan: ShipPlan, batches: Iterator[pa.RecordBatch]) -> list[Report]:
    begin_task(plan.patience)
    try:
        with tempfile.TemporaryDirectory(prefix="firn-") as folder:
            return _Task(plan, Path(folder)).run(batches)
    except FirnError as error:
        return [Failed.of(error, patience.failing_for())]
    except OSError as error:
        return [Failed.of(_of_the_disk(error))]
    except Exception as error:
        log.exception("a task of the sink failed")
        return [Failed.of(unexpected(error))]


def _of_the_disk(error: OSError) -> FirnError:
    """A full disk may be emptied by somebody; whatever else it is, nobody foresaw it."""
    if error.errno not in _NO_SPACE:
        log.error("a task of the sink failed", exc_info=error)
        return unexpected(error)
    return TransientError(
        f"A file on its way to the stage could not be written: {os.strerror(error.errno or 0)}.",
        where=f"folder {tempfile.gettempdir()} of a Spark worker",
        next_step="Free space there, or set TMPDIR to a larger volume. Nothing is lost: the batch is read again.",
    )


class _Task:
    """One task's state: the partition it is at, and what it reports."""

    def __init__(self, plan: ShipPlan, folder: Path) -> None:
        self._plan, self._folder = plan, folder
        self._decoders = decoders_of(plan.context)
        self._reports: list[Report] = []
        self._at: _Partition | None = None

    def run(self, batches: Iterator[pa.RecordBatch]) -> list[Report]:
        for batch in batches:
            for piece in by_partition(batch):
                self._partition_of(piece).take(piece)
        self._leave()
        return self._reports

    def _partition_of(self, piece: pa.RecordBatch) -> _Partition:
        where = TopicPartition(piece.column("topic")[0].as_py(), piece.column("partition")[0].as_py())
        if self._at is None or self._at.where != where:
            self._leave()
            add_to_log_context(topic=where.topic, partition=where.partition)
            self._at = _Partition(self._plan, where, self._decoders, self._folder)
        return self._at

    def _leave(self) -> None:
        if self._at is not None:
            self._reports += self._at.finish()


class _Partition:
    """One partition within a task: what of it is still to do, its open file, its bad records, and where it ended."""

    def __init__(self, plan: ShipPlan, where: TopicPartition, decoders: tuple[Decoder, Decoder], folder: Path) -> None:
        self.where = where
        self._config, self._decoders = plan.context.config, decoders
        self._committed = plan.committed.get(where, 0)
        load = plan.loads[where.topic]
        strict = self._config.errors.tolerance == "none"
        self._shaper = shaper_for(load, schema_types_of(plan.context), strict=strict)
        self._files = PartitionFiles(plan.context, plan.stage, where, folder, file_columns(load))
        letters, confirm = plan.letters.get(where), partial(confirm_epoch, plan.context, plan.stage.epoch)
        self._tolerance = Tolerance(plan.context, where, plan.topic_ids, letters, folder, confirm)
        self._unsure, self._doubted = where.topic in plan.unsure, False
        self._ended: Stopped | Cut | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        """Convert and write the rows that are neither committed nor dead letters yet, up to where the range ends."""
        if self._ended or self._doubted:
            return
        batch = self._tolerance.unpublished(_above(batch, self._committed))
        if batch.num_rows == 0:
            return
        try:
            converted = convert(self._config, self.where, batch, self._decoders, self._shaper)
        except OutputTooLargeError:
            self._take_in_halves(batch)
            return
        self._doubted = self._unsure and any(each.reason in OF_THE_TABLE for each in converted.bad)
        if self._doubted:
            return
        if not converted.bad or self._config.errors.tolerance == "none":
            self._write(converted)
            self._stop(batch, converted.bad)
        elif self._leave_out(batch, converted.bad):
            self._write(converted)

    def _write(self, converted: Converted) -> None:
        if not self._wishes:  # else these columns are not those that the table will have
            self._files.write(converted.offsets, converted.columns, converted.schema_ids)

    @property
    def _wishes(self) -> Wishes | None:
        """What the table would need to take these records, if anything."""
        wishes = self._shaper.wishes
        return wishes if wishes and wishes.any else None

    def _stop(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> None:
        if bad:
            offset = batch.column("offset")[bad[0].row].as_py()
            self._ended = Stopped(*self.where, offset, bad[0].reason, bad[0].detail)

    def _leave_out(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> bool:
        """Tolerate these records of `batch`; False where the range must end among them, and what is before is taken."""
        cut = self._tolerance.cut(batch, bad)
        if cut is None:
            self._tolerance.add(batch, bad)
            return True
        self.take(batch.slice(0, cut.row))
        self._ended = Cut(*self.where, batch.column("offset")[cut.row].as_py(), cut.why)
        return False

    def _take_in_halves(self, batch: pa.RecordBatch) -> None:
        """Small records may unpack to more text than one Arrow array holds."""
        half = batch.num_rows // 2
        bad = (BadRecord(0, TOO_LARGE, "its JSON passes what one Arrow array holds"),)
        if half:
            self.take(batch.slice(0, half))
            self.take(batch.slice(half))
        elif self._config.errors.tolerance == "none":
            self._stop(batch, bad)
        else:
            self._leave_out(batch, bad)

    def finish(self) -> list[Report]:
        """Stage what is still open, then publish the dead letters; returns the partition's reports.

        Where the table must change or be looked at first, neither is done: the batch is shipped again after that.
        """
        table = table_for(self.where.topic, self._config.table_map)
        if wishes := self._wishes:
            return [wanted(*self.where, table, wishes)]
        if self._doubted:
            return [Doubted(*self.where, table)]
        self._files.close()
        staged = self._files.staged
        log.debug("staged %s in %s", counted(sum(f.rows for f in staged), "record"), counted(len(staged), "file"))
        tolerated = self._tolerance.publish()
        return [*staged, *(report for report in (tolerated, self._ended) if report)]


def by_partition(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The runs of rows of one partition each; there is nearly always one."""
    if batch.num_rows == 0:
        return
    topics, partitions = batch.column("topic"), batch.column("partition")
    if topics[0] == topics[-1] and partitions[0] == partitions[-1]:
        yield batch  # a partition that a task has left does not come back
        return
    codes = pc.dictionary_encode(topics).indices.to_numpy()
    changes = (np.diff(codes) != 0) | (np.diff(partitions.to_numpy()) != 0)
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
    for start, stop in pairwise(bounds):
        yield batch.slice(start, stop - start)


def _above(batch: pa.RecordBatch, committed: int) -> pa.RecordBatch:
    """The rows at or above the committed position; offsets rise within a batch."""
    offsets = batch.column("offset").to_numpy()
    if len(offsets) == 0 or offsets[0] >= committed:
        return batch
    return batch.slice(int(np.searchsorted(offsets, committed)))
