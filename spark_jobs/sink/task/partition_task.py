"""What runs on executors: one pass over ranges of offsets, from Kafka's records to the method's receipts.

`run_task` is the task of a batch's Spark job. A task reads its partitions one after the other, each from the ledger's
position on. It does not raise: it reports (`reports`), because Spark would turn an error into text and lose its kind.
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pyarrow as pa

from firn.dead_letters.published import PartitionLetters
from firn.kafka.fetching import BATCH_BYTES
from firn.kafka.partitions import OffsetRange, TopicPartition
from firn.logs import add_to_log_context, log_fields
from firn.plural import counted
from firn.sinks.context import SinkContext
from firn.snowflake.identifiers import table_for
from spark_jobs.sink.dead_letters.tolerance import Tolerance
from spark_jobs.sink.decode.base.contract import Decoder
from spark_jobs.sink.methods.base import PartitionRange, TaskSide
from spark_jobs.sink.task.partition_rows import PartitionRows
from spark_jobs.sink.task.reporting import run_reporting
from spark_jobs.sink.task.worker import confirm_epoch, decoders_of, reader_for, session_of
from spark_jobs.sink.values.reports import RangeRead, Report
from spark_jobs.sink.values.table_loaders import TableLoader

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RangeWork:
    """One range that a task reads. Holds no credential: Spark writes it to a file on its way to the task.

    topic_id: Kafka's id of the topic. bytes: of text, after which the range ends, wherever it is. letters: which dead
    letters of the partition are out already. rejected: records that Snowflake refused before, and why.
    """

    offsets: OffsetRange
    topic_id: str
    bytes: int
    letters: PartitionLetters
    rejected: Mapping[int, str] = field(default_factory=dict)

    @property
    def where(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.offsets.topic, self.offsets.partition)


@dataclass(frozen=True)
class TaskPlan:
    """What every task of a batch needs to know.

    epoch, ledger_id: the right to write, and of which ledger. loaders: of each topic's table. patience: seconds that a
    task may go on failing. unverified: topics whose tables were not described since the batch began, so that they may
    have changed. log_fields: of the driver's lines about the batch, for those of the task.
    """

    context: SinkContext
    method: TaskSide
    epoch: int
    ledger_id: str
    loaders: Mapping[str, TableLoader]
    patience: float
    unverified: frozenset[str] = frozenset()
    log_fields: Mapping[str, object] = field(default_factory=log_fields)


def run_task(plan: TaskPlan, groups: Iterator[Sequence[RangeWork]]) -> Iterator[str]:
    """Read and convert the ranges of a task, and write their rows; yields its reports as texts (`reports.dump`).

    A task that fails reports nothing but that.
    """
    works = [work for group in groups for work in group]

    def work(reports: list[Report]) -> None:
        with tempfile.TemporaryDirectory(prefix="firn-") as folder:
            reports.extend([report for work in works for report in _run_range(plan, work, Path(folder))])

    return run_reporting(work, plan.patience, plan.log_fields, [work.where for work in works])


def _run_range(plan: TaskPlan, work: RangeWork, folder: Path) -> list[Report]:
    add_to_log_context(topic=work.offsets.topic, partition=work.offsets.partition)
    at = _Range(plan, work, decoders_of(plan.context), folder)
    for batch in reader_for(plan.context, work.offsets).read(work.offsets, size=min(BATCH_BYTES, work.bytes)):
        at.take(batch)
        if at.ended:
            break
    return at.finish()


class _Range:
    """One range within a task: how far it was read, its writer, its bad records, and where it ended."""

    def __init__(self, plan: TaskPlan, work: RangeWork, decoders: tuple[Decoder, Decoder], folder: Path) -> None:
        where, loader, self._work = work.where, plan.loaders[work.where.topic], work
        table = table_for(where.topic, plan.context.config.table_map)
        target = PartitionRange(where, table, loader, folder, plan.context)
        self._writer = plan.method.writer(target, session_of(plan.context))
        confirm = partial(confirm_epoch, plan.context, plan.epoch)
        self._tolerance = Tolerance(plan.context, plan.ledger_id, where, work.topic_id, work.letters, folder, confirm)
        self._rows = PartitionRows(
            plan.context,
            where,
            loader,
            decoders,
            self._tolerance,
            write=self._writer.write,
            stale=lambda: where.topic in plan.unverified,
            rejected=work.rejected,
        )
        self._records, self._read_to = 0, work.offsets.start

    @property
    def ended(self) -> bool:
        """Whether what comes next in the range is not wanted any more."""
        return self._rows.closed or self._writer.text_bytes + self._tolerance.size >= self._work.bytes

    def take(self, batch: pa.RecordBatch) -> None:
        """Convert and write the rows that are no dead letters yet, up to where the range ends."""
        self._records += batch.num_rows
        self._read_to = batch.column("offset")[-1].as_py() + 1
        self._rows.convert(batch)

    def finish(self) -> list[Report]:
        """Flush the writer, then publish the dead letters; returns the partition's reports.

        Where the table must change or be described first, neither is done: the batch is dispatched again after that.
        """
        if about_schema := self._rows.schema_report:
            return [about_schema]
        receipts = self._writer.flush()
        log.debug("wrote %s", counted(sum(receipt.rows for receipt in receipts), "record"))
        tolerated = self._tolerance.publish()
        # Last: without it a batch does not count, so reports that were cut off on their way never pass for all.
        read = RangeRead(*self._work.where, self._work.offsets.start, self._end, self._records)
        return [*receipts, *(report for report in (tolerated, self._rows.ended) if report), read]

    @property
    def _end(self) -> int:
        """How far the range was read: to its end, unless something ended it early."""
        if self._rows.ended:
            return self._rows.ended.offset
        return self._read_to if self.ended else self._work.offsets.end
