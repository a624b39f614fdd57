"""How rows travel from tasks into tables: what each ingestion method implements, and all that the sink knows of one.

A method has a driver side and a task side. One epoch goes like this:

1. `DriverSide.prepare`: find out and sweep what earlier epochs left. From here on the claim's positions hold.
2. `DriverSide.prepare_table`, for each table before rows go there, and again whenever its loader changes.
3. In tasks, for each partition's range: `TaskSide.writer`, which takes rows and gives receipts for them.
4. `DriverSide.commit`, batch after batch in order: the rows of these receipts count, and the ledger may move. When it
   returns, everything below the ends of the batch's moves is durable.
5. `DriverSide.finish`, at an orderly end: the ledger says all that is durable.

A batch between 3 and 4 may be given up at any time, and so may the process: the next epoch's `prepare` deals with it.
`registry.of` gives the method of a configuration. Reasons: docs/decisions/0009-methods-behind-a-contract.md. Not for
what rows are (`columns`, `metadata`), which ranges are read (`planner`), or who owns the sink (`firn.ledger`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from snowflake.connector import SnowflakeConnection

from firn.errors import TerminalError
from firn.kafka.partitions import TopicPartition
from firn.ledger.owner import Owner, Totals
from firn.ledger.positions import Ledger, Move
from firn.ledger.table import LedgerTable
from firn.operations.residue.finding import MethodResidue
from firn.sinks.context import SinkContext
from firn.snowflake.identifiers import Namespace
from firn.snowflake.requirements import Requirement
from spark_jobs.sink.values.reports import Receipt
from spark_jobs.sink.values.table_loaders import TableLoader

InSession: TypeAlias = Callable[[Callable[[SnowflakeConnection], None]], None]
"""Runs work in a task's Snowflake session, again while it fails transiently and the task has patience."""


class RefusedRowsError(TerminalError):
    """Snowflake does not take what tasks handed over. Damage on the way is possible: the batch is read again once."""


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

    folder: a local one for files, removed with the task.
    """

    where: TopicPartition
    table: str
    loader: TableLoader
    folder: Path


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

        Receipts cover each row once and no other. Nothing counts before `flush`.
        """
        ...


class TaskSide(Protocol):
    """A method in the tasks of one epoch. Travels to them with the plan, so it holds no connection."""

    def writer(self, target: PartitionRange, in_session: InSession) -> Writer:
        """A writer for one range of a partition."""
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
        RefusedRowsError, FencedError, ClaimAgainError, and MissingObjectError where something was dropped; then the
        ledger alone knows what happened.
        """
        ...

    def finish(self) -> None:
        """Bring the ledger to what is durable, at an orderly end."""
        ...


class IngestionMethod(Protocol):
    """One value of snowflake.ingestion.method."""

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

    def privileges(self, connection: SnowflakeConnection, namespace: Namespace) -> Sequence[Requirement]:
        """What the role needs for this method beside the tables, as the objects of this schema are now."""
        ...

    def leftovers(
        self, connection: SnowflakeConnection, namespace: Namespace, sink: str, owner: Owner | None
    ) -> MethodResidue:
        """What a retired sink left behind, for `firn sink clean`; changes nothing. owner: the sink's owner row."""
        ...
