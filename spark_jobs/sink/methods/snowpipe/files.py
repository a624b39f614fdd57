"""The files of one partition: opened, bounded by records and bytes, uploaded, reported.

Not for what is in them (`ship`), nor for how the stage names and takes them (`stage`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firn.kafka.partitions import TopicPartition
from firn.sinks.context import SinkContext
from firn.snowflake.identifiers import table_for
from spark_jobs.sink.decode.capacity import text_bounds
from spark_jobs.sink.methods.snowpipe.stage import ParquetFile, Stage
from spark_jobs.sink.task.worker import upload
from spark_jobs.sink.values.reports import Staged


class PartitionFiles:
    """Writes one partition's rows into files of `buffer.count.records` rows and `buffer.size.bytes` bytes at most.

    Bytes are those of the texts of all columns, as they are held before Parquet shrinks them. One row alone may
    be larger: a file holds one at least. text_size: bytes written so far, to all files.
    """

    def __init__(
        self, context: SinkContext, stage: Stage, where: TopicPartition, folder: Path, columns: Sequence[str]
    ) -> None:
        self._context, self._stage, self._where, self._folder = context, stage, where, folder
        self._columns = columns
        self._buffer = context.config.buffer
        self._file: ParquetFile | None = None
        self._first = self._last = -1
        self._bytes = 0
        self._schema_ids: set[int] = set()
        self.staged: list[Staged] = []
        self.text_size = 0

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
                self.close()
                continue
            file = self._open(int(offsets[start]))
            file.write([column.slice(start, stop - start) for column in columns])
            self._bytes += int(ends[stop - 1]) - before
            self.text_size += int(ends[stop - 1]) - before
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
            self._file = ParquetFile(self._folder / "open.parquet", self._columns)
            self._first, self._bytes = first, 0
        return self._file

    def close(self) -> None:
        """Finish the open file, upload it under its final name and report it."""
        if self._file is None:
            return
        topic, partition = self._where
        rows, size = self._file.rows, self._file.close()
        table = table_for(topic, self._context.config.table_map)
        folder = self._stage.folder(table, topic, partition)
        name = self._stage.file_name(self._first, self._last)
        local = self._file.path.rename(self._folder / name)
        upload(self._context, self._stage, local, folder)
        local.unlink()
        self._file = None
        ids = sorted(self._schema_ids)
        self._schema_ids.clear()
        self.staged.append(
            Staged(topic, partition, table, folder + name, self._first, self._last, rows, size, self._bytes, ids)
        )


def _lengths(texts: pa.StringArray) -> npt.NDArray[np.int64]:
    """UTF-8 bytes of each text; 0 for null."""
    return np.diff(text_bounds(texts)).astype(np.int64)
