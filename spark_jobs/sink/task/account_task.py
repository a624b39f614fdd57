"""What runs on executors when Snowflake refused rows of a channel: found out which, and made dead letters.

A channel counts its row errors and names only the last one. So the partition's range is read from Kafka again and
compared with the offsets that its table holds: what became a row and is not there was refused. Each of these becomes a
dead letter once; the driver then moves the ledger and the baseline of errors together. A refused row may be in the
table all the same, from an earlier time (the sink's positions were set back, or another sink fills the table too): its
record is not lost, and is no letter. Records that were bad on their own are letters already: these are published before
any row behind them is written. Not for the driver's side (`continuous.accounting`).
"""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from snowflake.connector import SnowflakeConnection

from firn.dead_letters.published import PartitionLetters
from firn.errors import TerminalError
from firn.kafka import cluster
from firn.kafka.partitions import OffsetRange, TopicPartition
from firn.plural import counted
from firn.sinks.context import SinkContext
from firn.snowflake.columns import METADATA
from firn.snowflake.connection import query
from firn.snowflake.identifiers import table_for
from spark_jobs.sink.dead_letters.tolerance import Tolerance
from spark_jobs.sink.task.partition_rows import PartitionRows
from spark_jobs.sink.task.reporting import run_reporting
from spark_jobs.sink.task.worker import confirm_epoch, confirm_topics, decoders_of, reader_for, session_of
from spark_jobs.sink.values.bad_records import REJECTED, BadRecord
from spark_jobs.sink.values.reports import Accounted, Report
from spark_jobs.sink.values.table_loaders import TableLoader

# Offsets that a table holds of a partition, in a range, and when the records were made. GET_PATH by colon and casts:
# https://docs.snowflake.com/en/user-guide/querying-semistructured
_ROWS = """
SELECT {metadata}:offset::NUMBER(38, 0) AS AT,
  COALESCE({metadata}:CreateTime::NUMBER(38, 0), {metadata}:LogAppendTime::NUMBER(38, 0)) AS TIME FROM {table}
WHERE {metadata}:topic::VARCHAR = ? AND {metadata}:partition::NUMBER(38, 0) = ?
AND {metadata}:offset::NUMBER(38, 0) BETWEEN ? AND ?
"""
_UNTIMED = -1
_Offsets: TypeAlias = npt.NDArray[np.int64]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class AccountWork:
    """A range of which Snowflake refused some rows. Holds no credential.

    letters: what is published of it. unaccounted: how many rows are missing. message: what Snowflake says of the last.
    """

    offsets: OffsetRange
    topic_id: str
    letters: PartitionLetters
    unaccounted: int
    message: str


@dataclass(frozen=True)
class AccountPlan:
    """What the task needs to know beside its work: as `group_task.GroupPlan`."""

    context: SinkContext
    epoch: int
    ledger_id: str
    loader: TableLoader
    patience: float
    log_fields: Mapping[str, object]


def run_account(plan: AccountPlan, works: Iterator[AccountWork]) -> Iterator[str]:
    """Account for refused rows; yields a Tolerated and an Accounted of each range, as texts (`reports.dump`)."""
    todo = list(works)

    def work(reports: list[Report]) -> None:
        with tempfile.TemporaryDirectory(prefix="firn-") as folder:
            for each in todo:
                reports.extend(_account(plan, each, Path(folder)))

    return run_reporting(work, plan.patience, plan.log_fields, [each.offsets for each in todo])


def _account(plan: AccountPlan, work: AccountWork, folder: Path) -> list[Report]:
    context, where = plan.context, TopicPartition(work.offsets.topic, work.offsets.partition)
    admin, ids = cluster.admin_client(context.kafka), {where.topic: work.topic_id}
    confirm_topics(admin, ids, ids)
    comparison = _Comparison(plan, work, where, folder)
    for batch in reader_for(context, work.offsets).read(work.offsets):
        comparison.take(batch)
        if comparison.cut_at is not None:
            break
    confirm_topics(admin, ids, ids)
    return comparison.finish()


class _Present:
    """The rows that a table holds of a range. untimed: whether some do not say when their records were made.

    A row is of a record where offset and time are: an older topic of the same name had the same offsets.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        found = sorted((int(row["AT"]), _UNTIMED if row["TIME"] is None else int(row["TIME"])) for row in rows)
        self._offsets, self._times = np.array(found, np.int64).reshape(-1, 2).T
        self.untimed = False

    def missing(self, batch: pa.RecordBatch, written: _Offsets) -> tuple[_Offsets, _Offsets]:
        """(offsets of records of a batch that lack rows, how many). written: the offset of each row they became."""
        wanted, rows = np.unique(written, return_counts=True)
        there, count = np.unique(self._of(batch), return_counts=True)
        _, of_wanted, of_there = np.intersect1d(wanted, there, assume_unique=True, return_indices=True)
        rows[of_wanted] -= count[of_there]
        return wanted[rows > 0], rows[rows > 0]

    def _of(self, batch: pa.RecordBatch) -> _Offsets:
        """The offset of each row that is of one of these records."""
        offsets, times = batch.column("offset").to_numpy(), batch.column("timestamp").to_numpy()
        times = np.where(batch.column("timestamp_type").to_numpy() < 0, _UNTIMED, times)
        here = slice(*np.searchsorted(self._offsets, [offsets[0], offsets[-1] + 1]))
        at, known = self._offsets[here], self._times[here]
        made = times[np.searchsorted(offsets, at)]  # where a row's record is gone, another's: nobody looks for that row
        unsaid = (known == _UNTIMED) & (made != _UNTIMED)
        self.untimed = self.untimed or bool(unsaid.any())
        found: _Offsets = at[unsaid | (known == made)]
        return found


class _Comparison:
    """Records of one range against the rows in its table."""

    def __init__(self, plan: AccountPlan, work: AccountWork, where: TopicPartition, folder: Path) -> None:
        context = plan.context
        self._work, self._where = work, where
        self._table = context.namespace.qualified(table_for(where.topic, context.config.table_map))
        found: list[_Present] = []
        session_of(context)(lambda connection: found.append(self._there(connection)))
        self._present, self._rows = found[-1], 0
        self._published = np.fromiter(work.letters.published, np.int64)
        confirm = partial(confirm_epoch, context, plan.epoch)
        self._refused = Tolerance(context, plan.ledger_id, where, work.topic_id, work.letters, folder, confirm)
        self._new = self._known = 0
        self._written: list[_Offsets] = []
        self._conversion = PartitionRows(
            context,
            where,
            plan.loader,
            decoders_of(context),
            _LeftOut(),
            write=lambda offsets, _columns, _ids: self._written.append(offsets),
            stale=lambda: False,
        )
        self.cut_at: int | None = None

    def _there(self, connection: SnowflakeConnection) -> _Present:
        statement = _ROWS.format(metadata=METADATA, table=self._table)
        given = [*self._where, self._work.offsets.start, self._work.offsets.end - 1]
        return _Present(query(connection, statement, given))

    def take(self, batch: pa.RecordBatch) -> None:
        """Find out which of these became rows and are not in the table."""
        self._written.clear()
        self._conversion.convert(batch)
        written = np.concatenate(self._written) if self._written else np.empty(0, np.int64)
        missing, rows = self._present.missing(batch, written)
        offsets, new = batch.column("offset").to_numpy(), ~np.isin(missing, self._published)
        bad = tuple(BadRecord(int(row), REJECTED, self._work.message) for row in np.searchsorted(offsets, missing[new]))
        if (cut := self._refused.cut(batch, bad)) is not None:
            self.cut_at, bad = int(offsets[cut.row]), tuple(each for each in bad if each.row < cut.row)
            before = missing < self.cut_at
            written, rows, new = written[written < self.cut_at], rows[before], new[before]
        self._rows += len(written) - int(rows.sum())
        self._new += int(rows[new].sum())
        self._known += int(rows[~new].sum())
        self._refused.add(batch, bad)

    def finish(self) -> list[Report]:
        """Publish what was refused, once the numbers agree."""
        there = self._there_before()
        tolerated = self._refused.publish()
        end = self._work.offsets.end if self.cut_at is None else self.cut_at
        missing = self._new + self._known
        accounted = Accounted(*self._where, self._work.offsets.start, end, self._rows - there, missing)
        return [*([tolerated] if tolerated else []), accounted]

    def _there_before(self) -> int:
        """How many refused rows the table has from another time; of a range that was cut nobody can say yet.

        Raises TerminalError where nobody can tell which rows were refused. Letters of an earlier try of these accounts
        are among what is missing, and letters of records that were bad on their own when they were read first, and
        would not be now.
        """
        refused, missing = self._work.unaccounted, self._new + self._known
        if self._new > refused:
            raise self._unclear(f"{missing} are not in the table", "Find out who deletes rows there.")
        there = 0 if self.cut_at is not None else max(0, refused - missing)
        if there and self._present.untimed:
            raise self._unclear(
                f"{missing} are not in the table, whose rows do not say when their records were made",
                "Let RECORD_METADATA have that (snowflake.metadata.createtime), or find out whether another sink "
                "writes there.",
            )
        if there:
            log.warning(
                "%s of %s that Snowflake refused: the table has these records already, from before the sink's "
                "positions were set back, or by another sink. They are no dead letters.",
                counted(there, "row"),
                self._work.offsets,
            )
        return there

    def _unclear(self, what: str, next_step: str) -> TerminalError:
        work, missing = self._work, self._new + self._known
        return TerminalError(
            f"Snowflake refused {counted(work.unaccounted, 'row')} of {work.offsets}, and {what}. {work.message}",
            where=f"table {self._table}",
            next_step=f"{next_step} Which of these rows were refused nobody can tell. To accept that {missing} are "
            f"missing: firn sink offsets <config> --reset {work.offsets.end} --topic {self._where.topic} --partition "
            f"{self._where.partition}",
        )


class _LeftOut:
    """Records that are bad on their own: they are dead letters already, and nothing more becomes of them."""

    def unpublished(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def cut(self, _batch: pa.RecordBatch, _bad: Sequence[BadRecord]) -> None:
        return None

    def add(self, _batch: pa.RecordBatch, _bad: Iterable[BadRecord]) -> None:
        return None
