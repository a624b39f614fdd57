"""How rows travel from tasks into tables: what each ingestion method implements, and all that the sink knows of one.

A method has a driver side and a task side. One epoch goes like this:

1. `DriverSide.prepare`: find out and sweep what earlier epochs left. From here on the claim's positions hold.
2. `DriverSide.prepare_table`, for each table before rows go there, and again whenever its loader changes.
3. In tasks, for each partition's range: `TaskSide.writer`, which takes rows and gives receipts for them.
4. `DriverSide.commit`, batch after batch in order: the rows of these receipts count, and the ledger may move. When it
   returns, everything below the ends of the batch's moves is durable.
5. `DriverSide.finish`, at an orderly end: the ledger says all that is durable.

A continuous method's rows travel in tasks that live as long as the run instead of 3 and 4: such a task opens a
`ContinuousWriter` for each of its partitions, reads from `position` on, writes, and reports `progress`; the driver
moves the ledger by these reports, rarely, and `finish` takes in what they left out.

A batch between 3 and 4 may be given up at any time, and so may the process: the next epoch's `prepare` deals with it.
`registry.of` gives the method of a configuration. Reasons: docs/decisions/0009-methods-behind-a-contract.md. Not for
what rows are (`columns`, `metadata`), which ranges are read (`planner`), or who owns the sink (`firn.ledger`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from snowflake.connector import SnowflakeConnection

from firn.errors import FirnError, TerminalError
from firn.kafka.partitions import TopicPartition
from firn.ledger.folding import Fold
from firn.ledger.owner import Owner, Totals
from firn.ledger.positions import Ledger, Move
from firn.ledger.table import LedgerTable
from firn.operations.residue.finding import MethodResidue, RetiredSink
from firn.settings import Settings
from firn.sinks.context import SinkContext
from firn.snowflake.connection import SnowflakeLogin
from firn.snowflake.identifiers import Namespace
from firn.snowflake.requirements import Requirement
from spark_jobs.sink.values.batches import RejectedRows
from spark_jobs.sink.values.reports import Receipt
from spark_jobs.sink.values.table_loaders import TableLoader

InSession: TypeAlias = Callable[[Callable[[SnowflakeConnection], None]], None]
"""Runs work in a task's Snowflake session, again while it fails transiently and the task has patience."""


class RefusedRowsError(TerminalError):
    """Snowflake does not take what tasks handed over. Damage on the way is possible: the batch is read again once."""


class RejectedRowsError(FirnError):
    """Snowflake refuses single rows of a batch, and `rows` says which. Nothing was committed."""

    def __init__(self, what: str, rows: RejectedRows) -> None:
        super().__init__(what)
        self.rows = rows


@dataclass(frozen=True)
class Claim:
    """What a claim found out, for all batches of its epoch.

    ledger: where each partition goes on. owner: the owner row as the claim wrote it. topic_ids: Kafka's id of each
    topic.
    """

    ledger: Ledger
    owner: Owner | None
    topic_ids: Mapping[str, str]


@dataclass(frozen=True)
class EpochSession:
    """What the driver side of a method works with, for one epoch.

    connection: used by nobody else while a function of the method runs. ledger: the table that `epoch` may move.
    """

    context: SinkContext
    connection: SnowflakeConnection
    ledger: LedgerTable
    epoch: int


@dataclass(frozen=True)
class LedgerUpdate:
    """The step of the ledger that belongs to a batch: how far each partition moves, and what is added to the totals."""

    batch: str
    moves: tuple[Move, ...]
    totals: Totals


@dataclass(frozen=True)
class PartitionRange:
    """Where the rows of one writer come from and go to.

    folder: a local one for files, removed with the task. context: of the sink; made in the task, it never travels.
    """

    where: TopicPartition
    table: str
    loader: TableLoader
    folder: Path
    context: SinkContext


class Writer(Protocol):
    """Takes the rows of one partition's range, in order of their offsets. Used by one task.

    text_bytes: of the texts taken so far.
    """

    text_bytes: int

    def write(
        self, offsets: npt.NDArray[np.int64], columns: Sequence[pa.StringArray], schema_ids: Iterable[int] = ()
    ) -> None:
        """Take n rows: their offsets, a text for each of the loader's columns, the schema ids of their values.

        Rows that are durable already are passed over. Raises as the method's statements do.
        """
        ...

    def flush(self) -> list[Receipt]:
        """Hand over what was taken, and give a receipt for each part of it since the last flush.

        Receipts cover each row once and no other. Rows of a method that is not continuous count no earlier.
        """
        ...


@dataclass(frozen=True)
class Progress:
    """How far the rows of a partition are durable.

    next_offset: the first offset that is not durable. token: the channel's, as the ledger remembers it. rows: that the
    writer has written since it was opened. row_errors: that the channel counts, over its whole life; unaccounted: those
    of them that no ledger accounts for, with which nothing of the partition may count as durable; last_error: what
    Snowflake says of the last one, and error_bound the token at or before which it was.
    """

    next_offset: int
    token: str | None
    rows: int
    row_errors: int
    unaccounted: int = 0
    last_error: str | None = None
    error_bound: str | None = None


class ContinuousWriter(Writer, Protocol):
    """A writer that lives as long as its task, and whose rows become durable on their own.

    position: the first offset that is not durable; read from there. `write` takes rows at once or not at all: it raises
    BackpressureError (`firn.channels.faults`) where the writer holds as much as it may, and the same rows are to be
    written again.
    """

    position: int

    def progress(self) -> Progress:
        """How far it is, at most a second old. Raises ChannelInvalidError where nothing more becomes durable."""
        ...

    def reopen(self) -> None:
        """Begin again after ChannelInvalidError: `position` is set back to what is durable, all behind is lost.

        Raises FencedError where another run holds the sink, ClaimAgainError where the sink's state has changed, and the
        error itself when it comes again and again.
        """
        ...

    def close(self, *, flush: bool) -> None:
        """Let go of it; flush: wait, in bounded time, until Snowflake has taken what was written. Never raises."""
        ...


class TaskSide(Protocol):
    """A method in the tasks of one epoch. Travels to them with the plan, so it holds no connection."""

    def writer(self, target: PartitionRange, in_session: InSession) -> Writer:
        """A writer for one range of a partition."""
        ...


@runtime_checkable
class ContinuousTaskSide(TaskSide, Protocol):
    """The task side of a continuous method. Its writers share what it holds, so a task uses one and closes it."""

    def writer(self, target: PartitionRange, in_session: InSession) -> ContinuousWriter:
        """A writer for one partition, that belongs to this epoch. Raises FencedError and ClaimAgainError.

        It takes the partition from every writer before it.
        """
        ...

    def writers(self, targets: Sequence[PartitionRange], in_session: InSession) -> list[ContinuousWriter]:
        """A writer for each of these partitions, of one sink, all of them or none; as `writer`, in less time."""
        ...

    def close(self, *, flush: bool) -> None:
        """Let go of all writers; flush: as `ContinuousWriter.close`. Never raises."""
        ...


class DriverSide(Protocol):
    """A method on the driver, for one epoch. One thread at a time."""

    @property
    def task_side(self) -> TaskSide:
        """The same method for this epoch's tasks."""
        ...

    def prepare(self, claim: Claim) -> None:
        """Make what the method needs, and `sweep`.

        Where a method's own truth is ahead of the ledger, it moves the ledger there, and `claim.ledger` with it.
        """
        ...

    def sweep(self, claim: Claim) -> None:
        """Remove what epochs before the claim's left and can no longer commit; evidence for a person stays."""
        ...

    def prepare_table(self, table: str, loader: TableLoader) -> None:
        """Get ready for rows to this table by this loader. Never inside a transaction.

        Raises ConfigError where the method cannot write there this way.
        """
        ...

    def commit(self, receipts: Sequence[Receipt], update: LedgerUpdate) -> None:
        """Make the rows of these receipts count, exactly once and whole, and move the ledger by `update`.

        A method whose rows are durable without the ledger may move it later, with several updates at a time. Raises
        RefusedRowsError, RejectedRowsError, FencedError, ClaimAgainError, and MissingObjectError where something was
        dropped; then the ledger alone knows what happened.
        """
        ...

    def finish(self) -> None:
        """Bring the ledger to what is durable, at an orderly end."""
        ...


class IngestionMethod(Protocol):
    """One value of snowflake.ingestion.method."""

    @property
    def continuous(self) -> bool:
        """Whether rows travel in tasks that live as long as the run (`ContinuousTaskSide`)."""
        ...

    @property
    def time_zone(self) -> str:
        """What a time of day ends with: one of the zones of `decode.base.scalars`."""
        ...

    @property
    def row_bytes(self) -> int | None:
        """How many bytes the texts of one row may have; None: as many as Snowflake's types hold."""
        ...

    def fold(self, context: SinkContext, connection: SnowflakeConnection, ledger_id: str) -> Fold:
        """How a claim of this method takes in what channels of before know, and opens those that it needs itself.

        connection: used between the transactions of the claim.
        """
        ...

    def driver_side(self, session: EpochSession) -> DriverSide:
        """The method for one epoch."""
        ...

    def check_table(
        self, connection: SnowflakeConnection, namespace: Namespace, table: str, loader: TableLoader
    ) -> None:
        """Raise ConfigError, with what to do, unless the method can write to this table by this loader.

        Changes nothing that anybody else sees.
        """
        ...

    def check_service(
        self,
        login: SnowflakeLogin,
        settings: Settings,
        connection: SnowflakeConnection,
        loaders: Mapping[str, TableLoader],
    ) -> Sequence[str]:
        """Ask the method's own service whether it takes rows for these tables: a sentence for each that it knows.

        Changes nothing. Raises FirnError with the service's answer where it refuses.
        """
        ...

    def privileges(
        self, connection: SnowflakeConnection, namespace: Namespace, tables: Sequence[str]
    ) -> Sequence[Requirement]:
        """What the role needs for this method beside the tables, as the objects of this schema are now.

        tables: by their names in the configuration.
        """
        ...

    def leftovers(self, connection: SnowflakeConnection, sink: RetiredSink) -> MethodResidue:
        """What a retired sink left behind, for `firn sink clean`; changes nothing.

        Every method is asked, whichever the sink had last: it may have had another one before.
        """
        ...
