"""What runs on executors: one pass over a Kafka partition's Arrow batches, from bytes to acknowledged files.

`ship` is the function of `mapInArrow`. Spark gives each task one partition of one topic, in offset order
(`minPartitions` is never set). It must not raise: it reports (see `reports`), and reads its input to the end either
way, because a worker that leaves input behind cannot be used again.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from firn.errors import FirnError, unexpected
from spark_jobs.sink.context import SinkContext
from spark_jobs.sink.decode import AvroValueDecoder, Decoded
from spark_jobs.sink.identifiers import table_for
from spark_jobs.sink.ledger import TopicPartition
from spark_jobs.sink.metadata import record_metadata
from spark_jobs.sink.reports import Failed, Report, Staged, Stopped, dump
from spark_jobs.sink.stage import ParquetFile, Stage
from spark_jobs.sink.worker import decoder_of, now_ms, upload

REPORT_SCHEMA = pa.schema([("report", pa.string())])
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShipPlan:
    """What every task of a run is told. `committed` is the ledger's NEXT_OFFSET for each partition."""

    context: SinkContext
    stage: Stage
    committed: Mapping[TopicPartition, int]


def ship(plan: ShipPlan, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Decode and stage one partition's records; yields one batch of reports."""
    reports = _ship(plan, batches)
    for _ in batches:
        pass
    yield pa.record_batch([pa.array([dump(report) for report in reports], pa.string())], schema=REPORT_SCHEMA)


def _ship(plan: ShipPlan, batches: Iterator[pa.RecordBatch]) -> list[Report]:
    try:
        with tempfile.TemporaryDirectory(prefix="firn-") as folder:
            shipment = Shipment(plan, Path(folder))
            for batch in batches:
                shipment.take(batch)
            return shipment.finish()
    except FirnError as error:
        return [Failed.of(error)]
    except Exception as error:
        log.exception("a task of the sink failed")
        return [Failed.of(unexpected(error))]


class Shipment:
    """One task's state: the file that is open, what was staged, and where it stopped."""

    def __init__(self, plan: ShipPlan, folder: Path) -> None:
        self._plan, self._folder = plan, folder
        self._config = plan.context.config
        self._decoder: AvroValueDecoder = decoder_of(plan.context)
        self._reports: list[Report] = []
        self._stopped = False
        self._where: TopicPartition | None = None
        self._file: ParquetFile | None = None
        self._file_bytes = 0
        self._first = self._last = -1

    def take(self, batch: pa.RecordBatch) -> None:
        """Convert and write the rows of one Arrow batch that are not committed yet."""
        if self._stopped or batch.num_rows == 0:
            return
        where = self._partition_of(batch)
        batch = _above(batch, self._plan.committed.get(where, 0))
        if batch.num_rows == 0:
            return
        decoded = self._decoder.decode(batch.column("value"))
        good = batch.num_rows
        if decoded.bad:
            good = self._stop(where, batch, decoded)
        if good:
            self._write(where, batch.slice(0, good), decoded)

    def finish(self) -> list[Report]:
        """Stage what is still open; returns every report of the task."""
        self._close_file()
        return self._reports

    def _partition_of(self, batch: pa.RecordBatch) -> TopicPartition:
        first = TopicPartition(batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py())
        if self._where is None:
            self._where = first
        last = TopicPartition(batch.column("topic")[-1].as_py(), batch.column("partition")[-1].as_py())
        if first != self._where or last != self._where:
            raise FirnError(f"A task got records of {first} and {last} beside {self._where}.")
        return first

    def _stop(self, where: TopicPartition, batch: pa.RecordBatch, decoded: Decoded) -> int:
        """Report the first bad record; returns how many rows stand before it."""
        bad = decoded.bad[0]
        offset = batch.column("offset")[bad.row].as_py()
        self._reports.append(Stopped(where.topic, where.partition, offset, bad.reason, bad.detail))
        self._stopped = True
        return int(bad.row)

    def _write(self, where: TopicPartition, batch: pa.RecordBatch, decoded: Decoded) -> None:
        """Append the rows of `batch`, which are the first ones of what was decoded, to one file or several."""
        good = batch.num_rows
        metadata = record_metadata(
            topic=where.topic,
            partition=where.partition,
            offsets=batch.column("offset"),
            timestamps=pc.divide(batch.column("timestamp").cast(pa.int64()), 1000),
            timestamp_types=batch.column("timestampType"),
            keys=batch.column("key"),
            schema_ids=decoded.schema_ids.slice(0, good),
            headers=batch.column("headers"),
            push_time=now_ms(),
        )
        content = decoded.content.slice(0, good)
        offsets = batch.column("offset").to_numpy()
        row_bytes = max(1, (metadata.nbytes + content.nbytes) // good)
        start = 0
        while start < good:
            count = min(good - start, self._room(row_bytes))
            file = self._open_file(int(offsets[start]))
            file.write(metadata.slice(start, count), content.slice(start, count))
            self._file_bytes += count * row_bytes
            start += count
            self._last = int(offsets[start - 1])
            if self._room(row_bytes) <= 0:
                self._close_file()

    def _room(self, row_bytes: int) -> int:
        """How many more rows the open file takes; a file takes one row at least, however large."""
        if self._file is None:
            return max(1, min(self._config.file_records, self._config.file_bytes // row_bytes))
        by_bytes = (self._config.file_bytes - self._file_bytes) // row_bytes
        return min(self._config.file_records - self._file.rows, by_bytes)

    def _open_file(self, first: int) -> ParquetFile:
        if self._file is None:
            self._file = ParquetFile(self._folder / "open.parquet")
            self._first, self._file_bytes = first, 0
        return self._file

    def _close_file(self) -> None:
        """Finish the open file, upload it under its final name and report it."""
        if self._file is None or self._where is None:
            return
        topic, partition = self._where
        stage, rows, size = self._plan.stage, self._file.rows, self._file.close()
        table = table_for(topic, self._config.table_map)
        task = TaskContext.get()
        attempt = task.attemptNumber() if task else 0
        folder, name = stage.folder(table, topic, partition), stage.file_name(self._first, self._last, attempt)
        local = self._file.path.rename(self._folder / name)
        upload(self._plan.context, stage, local, folder)
        local.unlink()
        self._reports.append(Staged(topic, partition, table, folder + name, self._first, self._last, rows, size))
        self._file = None


def _above(batch: pa.RecordBatch, committed: int) -> pa.RecordBatch:
    """The rows at or above the committed position; offsets rise within a batch."""
    offsets = batch.column("offset").to_numpy()
    if offsets[0] >= committed:
        return batch
    return batch.slice(int(np.searchsorted(offsets, committed)))
