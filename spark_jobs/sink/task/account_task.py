"""What runs on executors when Snowflake refused rows of a channel: found out which, and made dead letters.

A channel counts its row errors and names only the last one. So the partition's range is read from Kafka again and
compared with the offsets that its table holds: what became a row and is not there was refused. Each of these becomes a
dead letter once; the driver then moves the ledger and the baseline of errors together. Records that were bad on their
own are letters already: these are published before any row behind them is written. Not for the driver's side
(`continuous.accounting`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from snowflake.connector import SnowflakeConnection

from firn.dead_letters.published import PartitionLetters
from firn.errors import TerminalError, TransientError
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

# Offsets that a table holds of a partition, in a range. GET_PATH by colon and casts:
# https://docs.snowflake.com/en/user-guide/querying-semistructured
_OFFSETS = """
SELECT {metadata}:offset::NUMBER(38, 0) AS AT FROM {table}
WHERE {metadata}:topic::VARCHAR = ? AND {metadata}:partition::NUMBER(38, 0) = ?
AND {metadata}:offset::NUMBER(38, 0) BETWEEN ? AND ?
"""


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


class _Comparison:
    """Records of one range against the offsets in its table."""

    def __init__(self, plan: AccountPlan, work: AccountWork, where: TopicPartition, folder: Path) -> None:
        context = plan.context
        self._work, self._where = work, where
        self._table = context.namespace.qualified(table_for(where.topic, context.config.table_map))
        found: list[npt.NDArray[np.int64]] = []
        session_of(context)(lambda connection: found.append(self._there(connection)))
        self._present, self._rows = found[-1], 0
        self._published = np.fromiter(work.letters.published, np.int64)
        confirm = partial(confirm_epoch, context, plan.epoch)
        self._refused = Tolerance(context, plan.ledger_id, where, work.topic_id, work.letters, folder, confirm)
        self._new = self._known = 0
        self._written: list[npt.NDArray[np.int64]] = []
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

    def _there(self, connection: SnowflakeConnection) -> npt.NDArray[np.int64]:
        statement = _OFFSETS.format(metadata=METADATA, table=self._table)
        rows = query(connection, statement, [*self._where, self._work.offsets.start, self._work.offsets.end - 1])
        return np.fromiter((int(row["AT"]) for row in rows), np.int64, len(rows))

    def take(self, batch: pa.RecordBatch) -> None:
        """Find out which of these became rows and are not in the table."""
        self._written.clear()
        self._conversion.convert(batch)
        written = np.concatenate(self._written) if self._written else np.empty(0, np.int64)
        missing = written[~np.isin(written, self._present)]
        offsets = batch.column("offset").to_numpy()
        new = missing[~np.isin(missing, self._published)]
        bad = tuple(BadRecord(int(row), REJECTED, self._work.message) for row in np.searchsorted(offsets, new))
        if (cut := self._refused.cut(batch, bad)) is not None:
            self.cut_at, bad = int(offsets[cut.row]), tuple(each for each in bad if each.row < cut.row)
            written, missing = written[written < self.cut_at], missing[missing < self.cut_at]
        self._rows += len(written) - len(missing)
        self._new += len(bad)
        self._known += len(missing) - len(bad)
        self._refused.add(batch, bad)

    def finish(self) -> list[Report]:
        """Publish what was refused, once the numbers agree."""
        self._check()
        tolerated = self._refused.publish()
        end = self._work.offsets.end if self.cut_at is None else self.cut_at
        accounted = Accounted(*self._where, self._work.offsets.start, end, self._rows, self._new + self._known)
        return [*([tolerated] if tolerated else []), accounted]

    def _check(self) -> None:
        """Raise unless as many rows are missing as Snowflake refused.

        Letters of an earlier try of these accounts are among what is missing, and letters of records that were bad on
        their own when they were read first, and would not be now.
        """
        refused, missing = self._work.unaccounted, self._new + self._known
        if self._new > refused:
            raise TerminalError(
                f"Snowflake refused {counted(refused, 'row')} of {self._work.offsets}, and {missing} are not in the "
                f"table. {self._work.message}",
                where=f"table {self._table}",
                next_step="Find out who deletes rows there: which of them were refused nobody can tell then. To accept "
                f"that {missing} are missing: firn sink offsets <config> --reset {self._work.offsets.end} --topic "
                f"{self._where.topic} --partition {self._where.partition}",
            )
        if missing < refused and self.cut_at is None:
            raise TransientError(
                f"Snowflake refused {counted(refused, 'row')} of {self._work.offsets}, and only {missing} are missing "
                "in the table yet.",
                where=f"table {self._table}",
                next_step="Nothing at first: the sink claims again and compares again. If it stays so, find out who "
                "else writes there.",
            )


class _LeftOut:
    """Records that are bad on their own: they are dead letters already, and nothing more becomes of them."""

    def unpublished(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    def cut(self, _batch: pa.RecordBatch, _bad: Sequence[BadRecord]) -> None:
        return None

    def add(self, _batch: pa.RecordBatch, _bad: Iterable[BadRecord]) -> None:
        return None
