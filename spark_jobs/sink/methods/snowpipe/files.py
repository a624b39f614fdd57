"""The files of one partition: written as Parquet, bounded by records and bytes, uploaded, and a receipt for each.

Not for what is in them (`columns`), nor for how the stage names and takes them (`stage`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from firn.connector.config import BufferConfig
from spark_jobs.sink.columns.staged_columns import OFFSET, file_columns
from spark_jobs.sink.decode.base.capacity import text_bounds
from spark_jobs.sink.methods.base import PartitionRange
from spark_jobs.sink.methods.snowpipe.stage import Stage
from spark_jobs.sink.values.reports import Receipt
from spark_jobs.sink.values.table_loaders import PipeLoader

ROW_GROUP_BYTES = 16 * 1024 * 1024
Upload: TypeAlias = Callable[[Path, str], None]
"""Uploads a local file to a folder of the stage."""


class PartitionFiles:
    """Writes one partition's rows into files of `buffer.count.records` rows and `buffer.size.bytes` bytes at most.

    Bytes are those of the texts of all columns, as they are held before Parquet shrinks them. One row alone may
    be larger: a file holds one at least. text_bytes: written so far, to all files.
    """

    def __init__(self, stage: Stage, buffer: BufferConfig, target: PartitionRange, upload: Upload) -> None:
        self._stage, self._buffer, self._target, self._upload = stage, buffer, target, upload
        self._numbered = isinstance(target.loader, PipeLoader)
        self._columns = (*file_columns(target.loader), *([OFFSET] if self._numbered else []))
        self._file: ParquetFile | None = None
        self._first = self._last = -1
        self._bytes = 0
        self._schema_ids: set[int] = set()
        self._receipts: list[Receipt] = []
        self.text_bytes = 0

    def write(
        self, offsets: npt.NDArray[np.int64], columns: Sequence[pa.StringArray], schema_ids: Iterable[int] = ()
    ) -> None:
        """Append rows in order of their offsets (all of equal length); `schema_ids` are those of their values."""
        if not len(offsets):  # perhaps without columns, too: the table is not made yet
            return
        self._schema_ids.update(schema_ids)
        ends = np.cumsum(np.sum([_lengths(column) for column in columns], axis=0))
        start = 0
        while start < len(ends):
            before = int(ends[start - 1]) if start else 0
            stop = self._stop(ends, start, before)
            if stop == start:
                self._finish_file()
                continue
            file = self._open(int(offsets[start]))
            texts = [column.slice(start, stop - start) for column in columns]
            file.write([*texts, pa.array(offsets[start:stop]).cast(pa.string())] if self._numbered else texts)
            self._bytes += int(ends[stop - 1]) - before
            self.text_bytes += int(ends[stop - 1]) - before
            self._last = int(offsets[stop - 1])
            start = stop

    def _stop(self, ends: npt.NDArray[np.int64], start: int, before: int) -> int:
        """The row in front of which the open file is full."""
        rows, size = (self._file.rows, self._bytes) if self._file else (0, 0)
        fitting = int(np.searchsorted(ends, before + self._buffer.bytes - size, side="right"))
        least = start if self._file else start + 1
        return min(max(fitting, least), start + self._buffer.records - rows, len(ends))

    def _open(self, first: int) -> ParquetFile:
        if self._file is None:
            self._file = ParquetFile(self._target.folder / "open.parquet", self._columns)
            self._first, self._bytes = first, 0
        return self._file

    def flush(self) -> list[Receipt]:
        """As `Writer.flush`: a receipt for each file. Finishes the open one."""
        self._finish_file()
        receipts, self._receipts = self._receipts, []
        return receipts

    def _finish_file(self) -> None:
        """Finish the open file and upload it under its final name."""
        if self._file is None:
            return
        target, (topic, partition) = self._target, self._target.where
        rows, size = self._file.rows, self._file.close()
        folder = self._stage.folder(target.table, topic, partition)
        name = self._stage.file_name(self._first, self._last)
        local = self._file.path.rename(target.folder / name)
        self._upload(local, folder)
        local.unlink()
        self._file = None
        receipt = Receipt(
            topic,
            partition,
            target.table,
            self._first,
            self._last,
            rows,
            size,
            self._bytes,
            sorted(self._schema_ids),
            folder + name,
        )
        self._schema_ids.clear()
        self._receipts.append(receipt)


def _lengths(texts: pa.StringArray) -> npt.NDArray[np.int64]:
    """UTF-8 bytes of each text; 0 for null."""
    return np.diff(text_bounds(texts)).astype(np.int64)


class ParquetFile:
    """A local file that grows batch by batch. Plain encoding and Snappy: it is read once and thrown away.

    Batches are gathered into row groups of ROW_GROUP_BYTES, which is also what it holds in memory: a reader pays for
    each row group, and Arrow batches are small.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self.path = path
        self.rows = 0
        self._schema = pa.schema([(name, pa.string()) for name in columns])
        self._gathered: list[pa.RecordBatch] = []
        self._writer = pq.ParquetWriter(
            path, self._schema, compression="snappy", use_dictionary=False, write_statistics=False
        )

    def write(self, columns: Sequence[pa.StringArray]) -> None:
        """Append rows: a text for each column, all of equal length."""
        self._gathered.append(pa.record_batch(list(columns), schema=self._schema))
        self.rows += len(columns[0])
        if sum(batch.nbytes for batch in self._gathered) >= ROW_GROUP_BYTES:
            self._write_row_group()

    def close(self) -> int:
        """Finish the file; returns its size in bytes."""
        self._write_row_group()
        self._writer.close()
        return self.path.stat().st_size

    def _write_row_group(self) -> None:
        if self._gathered:
            table = pa.Table.from_batches(self._gathered, self._schema)
            self._writer.write_table(table, row_group_size=table.num_rows)
            self._gathered = []
