"""One partition's records in a task: converted, bad ones told apart, and where the partition ends for now.

What becomes of its rows is the caller's (`write`), as is what it reads. Both kinds of task use it: `partition_task`
for a range of a batch, `group_task` for as long as a run lives. Not for single formats (`convert`, `decode`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firn.kafka.partitions import TopicPartition
from firn.sinks.context import SinkContext
from firn.snowflake.identifiers import table_for
from spark_jobs.sink.columns.required_schema_changes import RequiredSchemaChanges, schema_change_request
from spark_jobs.sink.columns.staged_columns import column_builder_for
from spark_jobs.sink.dead_letters.tolerance import CutAt
from spark_jobs.sink.decode.base.contract import Decoder, OutputTooLargeError
from spark_jobs.sink.methods import registry
from spark_jobs.sink.task.convert import Converted, convert
from spark_jobs.sink.task.worker import schema_types_of
from spark_jobs.sink.values.bad_records import OF_THE_TABLE, TOO_LARGE, BadRecord
from spark_jobs.sink.values.reports import Cut, SchemaChangeRequest, Stopped, SuspectedStaleSchema
from spark_jobs.sink.values.table_loaders import TableLoader

Write: TypeAlias = Callable[[npt.NDArray[np.int64], Sequence[pa.StringArray], Iterable[int]], None]
"""Takes rows, as `methods.base.Writer.write` does."""


class BadRecords(Protocol):
    """What becomes of bad records that are left out: `dead_letters.tolerance.Tolerance`."""

    def unpublished(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Without the records that are dealt with already."""
        ...

    def cut(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> CutAt | None:
        """Where the partition must end for now, if these are its next bad records."""
        ...

    def add(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> None:
        """Take them over."""
        ...


class PartitionRows:
    """Converts the records of one partition, in order of their offsets.

    tolerance: takes the bad records that are left out. write: takes the rows. stale: whether the table may have changed
    since its loader was made; asked where records have no place in it. rejected: as `convert`. ended: set where
    the partition must not be passed; nothing behind is converted.
    """

    def __init__(
        self,
        context: SinkContext,
        where: TopicPartition,
        loader: TableLoader,
        decoders: tuple[Decoder, Decoder],
        tolerance: BadRecords,
        *,
        write: Write,
        stale: Callable[[], bool],
        rejected: Mapping[int, str] | None = None,
    ) -> None:
        self._config, self._where, self._decoders = context.config, where, decoders
        self._strict = context.config.errors.tolerance == "none"
        row_bytes = registry.of(context.config.method).row_bytes
        self._builder = column_builder_for(loader, schema_types_of(context), strict=self._strict, row_bytes=row_bytes)
        self.tolerance, self._write_rows, self._stale = tolerance, write, stale
        self._rejected = rejected or {}
        self.table = table_for(where.topic, context.config.table_map)
        self.ended: Stopped | Cut | None = None
        self._suspected_stale = False

    @property
    def closed(self) -> bool:
        """Whether what comes next is not wanted any more."""
        return bool(self.ended) or self._suspected_stale

    @property
    def schema_report(self) -> SchemaChangeRequest | SuspectedStaleSchema | None:
        """What must happen to the table before these records can be taken; what was taken since then does not count."""
        if changes := self._required_changes:
            return schema_change_request(*self._where, self.table, changes)
        return SuspectedStaleSchema(*self._where, self.table) if self._suspected_stale else None

    def convert(self, batch: pa.RecordBatch) -> None:
        """Convert the records that are no dead letters yet, up to where the partition ends, and write their rows."""
        if self.closed:
            return
        batch = self.tolerance.unpublished(batch)
        if batch.num_rows == 0:
            return
        try:
            converted = convert(self._config, self._where, batch, self._decoders, self._builder, self._rejected)
        except OutputTooLargeError:
            self._take_in_halves(batch)
            return
        self._suspected_stale = any(each.reason in OF_THE_TABLE for each in converted.bad) and self._stale()
        if self._suspected_stale:
            return
        if not converted.bad or self._strict:
            self._write(converted)
            self._stop(batch, converted.bad)
        elif self._leave_out(batch, converted.bad):
            self._write(converted)

    def _write(self, converted: Converted) -> None:
        if not self._required_changes:  # else these columns are not those that the table will have
            self._write_rows(converted.offsets, converted.columns, converted.schema_ids)

    @property
    def _required_changes(self) -> RequiredSchemaChanges | None:
        """What the table would need to take these records, if anything."""
        changes = self._builder.required_changes
        return changes if changes and changes.any else None

    def _stop(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> None:
        if bad:
            offset = batch.column("offset")[bad[0].row].as_py()
            self.ended = Stopped(*self._where, offset, bad[0].reason, bad[0].detail)

    def _leave_out(self, batch: pa.RecordBatch, bad: Sequence[BadRecord]) -> bool:
        """Tolerate these records of `batch`; False where the range must end among them, and what is before is taken."""
        cut = self.tolerance.cut(batch, bad)
        if cut is None:
            self.tolerance.add(batch, bad)
            return True
        self.convert(batch.slice(0, cut.row))
        self.ended = Cut(*self._where, batch.column("offset")[cut.row].as_py(), cut.why)
        return False

    def _take_in_halves(self, batch: pa.RecordBatch) -> None:
        """Small records may unpack to more text than one Arrow array holds."""
        half = batch.num_rows // 2
        bad = (BadRecord(0, TOO_LARGE, "its JSON passes what one batch may hold"),)
        if half:
            self.convert(batch.slice(0, half))
            self.convert(batch.slice(half))
        elif self._strict:
            self._stop(batch, bad)
        else:
            self._leave_out(batch, bad)
