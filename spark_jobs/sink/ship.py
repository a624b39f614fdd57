"""What runs on executors: one pass over the Arrow batches of some Kafka partitions, from bytes to acknowledged files.

`ship` is the function of `mapInArrow`. A task gets its partitions one after the other, each in offset order
(`minPartitions` is never set; `tasks.max` puts several into one task). It must not raise: it reports (see `reports`),
and reads its input to the end either way, because a worker that leaves input behind cannot be used again.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.errors import FirnError, unexpected
from spark_jobs.sink.context import SinkContext
from spark_jobs.sink.convert import convert
from spark_jobs.sink.decode.records import TOO_LARGE, BadRecord, Decoder, OutputTooLargeError
from spark_jobs.sink.files import PartitionFiles
from spark_jobs.sink.ledger import TopicPartition
from spark_jobs.sink.reports import Failed, Report, Stopped, dump
from spark_jobs.sink.stage import Stage
from spark_jobs.sink.worker import decoders_of

REPORT_SCHEMA = pa.schema([("report", pa.string())])
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShipPlan:
    """What every task of a run is told. `committed` is the ledger's NEXT_OFFSET for each partition."""

    context: SinkContext
    stage: Stage
    committed: Mapping[TopicPartition, int]


def ship(plan: ShipPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Convert and stage the records of a task's partitions; yields one batch of reports."""
    reports = _ship(plan, batches)
    for _ in batches:
        pass
    yield pa.record_batch([pa.array([dump(report) for report in reports], pa.string())], schema=REPORT_SCHEMA)


def _ship(plan: ShipPlan, batches: Iterator[pa.RecordBatch]) -> list[Report]:
    try:
        with tempfile.TemporaryDirectory(prefix="firn-") as folder:
            return _Task(plan, Path(folder)).run(batches)
    except FirnError as error:
        return [Failed.of(error)]
    except Exception as error:
        log.exception("a task of the sink failed")
        return [Failed.of(unexpected(error))]


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
            self._at = _Partition(self._plan, where, self._decoders, self._folder)
        return self._at

    def _leave(self) -> None:
        if self._at is not None:
            self._reports += self._at.finish()


class _Partition:
    """One partition within a task: what of it is still to do, its open file, and where it stopped."""

    def __init__(self, plan: ShipPlan, where: TopicPartition, decoders: tuple[Decoder, Decoder], folder: Path) -> None:
        self.where = where
        self._config, self._decoders = plan.context.config, decoders
        self._committed = plan.committed.get(where, 0)
        self._files = PartitionFiles(plan.context, plan.stage, where, folder)
        self._stopped: Stopped | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        """Convert and write the rows that are not committed yet, up to the first bad one."""
        if self._stopped:
            return
        batch = _above(batch, self._committed)
        if batch.num_rows == 0:
            return
        try:
            converted = convert(self._config, self.where, batch, *self._decoders)
        except OutputTooLargeError:
            self._take_in_halves(batch)
            return
        self._files.write(converted.offsets, converted.metadata, converted.content)
        if converted.bad:
            self._stop(batch, converted.bad)

    def _take_in_halves(self, batch: pa.RecordBatch) -> None:
        """Small records may unpack to more text than one Arrow array holds."""
        half = batch.num_rows // 2
        if half:
            self.take(batch.slice(0, half))
            self.take(batch.slice(half))
        else:
            self._stop(batch, BadRecord(0, TOO_LARGE, "its JSON passes what one Arrow array holds"))

    def _stop(self, batch: pa.RecordBatch, bad: BadRecord) -> None:
        offset = batch.column("offset")[bad.row].as_py()
        self._stopped = Stopped(*self.where, offset, bad.reason, bad.detail)

    def finish(self) -> list[Report]:
        """Stage what is still open; returns the partition's reports."""
        self._files.close()
        return [*self._files.staged, *([self._stopped] if self._stopped else [])]


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
    if offsets[0] >= committed:
        return batch
    return batch.slice(int(np.searchsorted(offsets, committed)))
