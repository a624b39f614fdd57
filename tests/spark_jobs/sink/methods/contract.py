"""A bench on which any ingestion method is driven by its contract alone (`spark_jobs.sink.methods.base`).

A sink of one topic with two partitions, in a schema of its own on the local Snowflake; no Kafka and no Spark: epochs
are claimed, rows are written as tasks write them, and batches are committed as the driver commits them.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig, TableConfig
from firn.kafka.client import KafkaClient
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.owner import Owner, Totals
from firn.ledger.positions import Move
from firn.ledger.table import LedgerTable
from firn.operations.residue.finding import MethodResidue, RetiredSink
from firn.settings import Settings
from firn.sinks.context import SinkContext
from firn.snowflake.connection import connect, query
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace
from spark_jobs.sink.methods.base import (
    Claim,
    DriverSide,
    EpochSession,
    IngestionMethod,
    LedgerUpdate,
    PartitionRange,
    Writer,
)
from spark_jobs.sink.tables.target_tables import ensure_variant_table
from spark_jobs.sink.values.reports import Receipt
from spark_jobs.sink.values.table_loaders import VariantLoader
from tests.support.sinks import login_of

TOPIC, TABLE = "orders", "ORDERS"
P0, P1 = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
KAFKA = {where: KafkaPartition("topic-id", 0, 1_000) for where in (P0, P1)}


@dataclass
class Bench:
    """One sink and its sessions: `driver` for epochs, `task` for writers."""

    method: IngestionMethod
    context: SinkContext
    driver: SnowflakeConnection
    task: SnowflakeConnection
    folder: Path
    sessions: list[AbstractContextManager[SnowflakeConnection]] = field(default_factory=list)

    @classmethod
    def of(cls, method: IngestionMethod, settings: Settings, folder: Path) -> Bench:
        """A bench in the schema of these settings, with an empty table."""
        login = login_of(settings)
        context = SinkContext(SinkConfig(f"s{uuid.uuid4().hex[:8]}"), settings, KafkaClient(()), None, None, login)
        sessions = [connect(login), connect(login)]
        driver, task = (session.__enter__() for session in sessions)
        ensure_variant_table(driver, context.namespace, TABLE, create=True, tables=TableConfig())
        return cls(method, context, driver, task, folder, sessions)

    @property
    def namespace(self) -> Namespace:
        """The schema."""
        return self.context.namespace

    def close(self) -> None:
        """End the sessions."""
        for session in self.sessions:
            session.__exit__(None, None, None)

    def claim(self) -> Epoch:
        """Claim the sink as a new run does, and prepare the method."""
        ledger = LedgerTable(self.namespace, self.context.config.name, uuid.uuid4().hex)
        ledger.ensure(self.driver)
        claimed = ledger.claim(
            self.driver,
            lambda: KAFKA,
            "earliest",
            lambda _topic: TABLE,
            tokens_ahead=self.method.continuous,
            fold=self.method.fold(self.context, self.driver, ledger.ledger_id(self.driver) or ""),
        )
        session = EpochSession(self.context, self.driver, ledger, claimed.epoch)
        claim = Claim(claimed, ledger.owner(self.driver), {TOPIC: "topic-id"})
        driver_side = self.method.driver_side(session)
        driver_side.prepare(claim)
        driver_side.prepare_table(TABLE, VariantLoader())
        return Epoch(self, session, claim, driver_side)

    def rows(self) -> list[tuple[int, int]]:
        """(partition, offset) of every row in the table, doubles included, in order."""
        statement = "SELECT RECORD_METADATA:partition::INT AS P, RECORD_METADATA:offset::INT AS O FROM "
        found = query(self.task, statement + self.namespace.qualified(TABLE))
        return sorted((int(row["P"]), int(row["O"])) for row in found)

    def ledger(self) -> tuple[Owner | None, dict[TopicPartition, int]]:
        """The owner row, and NEXT_OFFSET by partition."""
        table = LedgerTable(self.namespace, self.context.config.name)
        positions = table.positions(self.task)
        return table.owner(self.task), {where: position.next_offset for where, position in positions.items()}

    def leftovers(self) -> MethodResidue:
        """As `firn sink clean` finds them."""
        name, context = self.context.config.name, self.context
        sink, table = RetiredSink(name, context.login, context.settings), LedgerTable(self.namespace, name)
        with suppress(MissingObjectError):  # before the first claim
            owner, positions = table.owner(self.task), table.positions(self.task)
            ledger_id = table.ledger_id(self.task)
            sink = replace(sink, owner=owner, positions=positions, ledger_id=ledger_id)
        return self.method.leftovers(self.task, sink)


@dataclass
class Epoch:
    """One claim of the bench's sink, and its method's driver side."""

    bench: Bench
    session: EpochSession
    claim: Claim
    driver: DriverSide

    def writer(self, where: TopicPartition) -> Writer:
        """A writer as a task gets it: from what travelled to the task."""
        task_side = pickle.loads(pickle.dumps(self.driver.task_side))
        folder = self.bench.folder / uuid.uuid4().hex
        folder.mkdir()
        return task_side.writer(
            PartitionRange(where, TABLE, VariantLoader(), folder, self.bench.context), self._in_session
        )

    def _in_session(self, work: Callable[[SnowflakeConnection], None]) -> None:
        work(self.bench.task)

    def position(self, where: TopicPartition) -> int:
        """From where a partition is to be read."""
        return self.claim.ledger.positions()[where]

    def write(self, **ends: int) -> Batch:
        """Read each partition from its position to this end (p0=10, ...), and write its rows in one flush."""
        moves, receipts = [], []
        for name, end in ends.items():
            where = TopicPartition(TOPIC, int(name[1:]))
            moves.append(Move(where, self.position(where), end))
            writer = self.writer(where)
            take(writer, where, range(moves[-1].start, end))
            receipts += writer.flush()
        return Batch(self, moves, receipts)


@dataclass
class Batch:
    """Rows that were written, and how far their partitions were read."""

    epoch: Epoch
    read: Sequence[Move]
    receipts: list[Receipt]

    def commit(self) -> None:
        """Commit, and take the moves over, as the driver does."""
        ledger = self.epoch.claim.ledger
        moves = ledger.add_in_flight(self.read, {})
        rows = sum(receipt.rows for receipt in self.receipts)
        update = LedgerUpdate(f"{ledger.epoch}-0", moves, Totals(rows, 0, 1, 0, 0))
        self.epoch.driver.commit(self.receipts, update)
        ledger.advance(moves)


def take(writer: Writer, where: TopicPartition, offsets: Sequence[int]) -> None:
    """Write one row for each offset."""
    metadata = [f'{{"topic":"{where.topic}","partition":{where.partition},"offset":{at}}}' for at in offsets]
    content = [f'{{"n":{at}}}' for at in offsets]
    columns: Any = (pa.array(metadata, pa.string()), pa.array(content, pa.string()))
    writer.write(np.array(offsets, np.int64), columns, [7])


def rows_of(**ends: int) -> list[tuple[int, int]]:
    """Each offset from 0 to this end of each partition, once."""
    return [(int(name[1:]), at) for name, end in sorted(ends.items()) for at in range(end)]
