"""A sink's statements on a local Snowflake whose clock stands still until it is moved: hours of a sink in seconds.

The statements are the product's own: the ledger's claim and moves, the method's PUT, COPY and REMOVE, through the
driver, over HTTP. What is left out needs no Snowflake: Kafka, Spark and converters. A batch carries a few rows,
whatever it stands for, because a warehouse bills time and not rows. Statements take no time on this clock.
"""

from __future__ import annotations

import json
import logging
import tempfile
import uuid
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import SecretStr
from snowflake.connector import SnowflakeConnection

from firn.channels.recorded import RecordedChannel
from firn.connector.config import Method, SinkConfig, TableConfig
from firn.kafka.client import KafkaClient
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.owner import Owner, Totals
from firn.ledger.positions import Ledger, Move, Position
from firn.ledger.table import LedgerTable
from firn.settings import load_settings
from firn.sinks.context import SinkContext
from firn.snowflake.connection import SnowflakeLogin, connect
from firn.snowflake.identifiers import table_for
from firn_local.admin import new_private_key
from firn_local.snowflake.instance import LocalSnowflake
from firn_local.snowflake.metering.meter import FastClock, Meter
from firn_local.snowflake.server.serving import served
from spark_jobs.sink.methods import registry
from spark_jobs.sink.methods.base import Claim, DriverSide, EpochSession, LedgerUpdate, PartitionRange
from spark_jobs.sink.planner import BatchLimit, Planner
from spark_jobs.sink.tables.target_tables import ensure_variant_table
from spark_jobs.sink.values.table_loaders import VariantLoader

WAREHOUSE = "INGEST_WH"
PARTITIONS = 3
_TOPIC_ID = "topic-id"
_MADE = (
    f"CREATE WAREHOUSE {WAREHOUSE} WAREHOUSE_SIZE = XSMALL AUTO_SUSPEND = 60 INITIALLY_SUSPENDED = TRUE",
    "CREATE DATABASE STREAMING",
)


@dataclass
class Account:
    """A local Snowflake behind HTTP, its clock and its meter."""

    clock: FastClock
    meter: Meter
    login: SnowflakeLogin


@contextmanager
def account() -> Iterator[Account]:
    """An empty account with an X-Small warehouse that sleeps after 60 seconds."""
    warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")
    clock = FastClock()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tmp").mkdir()
        snowflake = LocalSnowflake(Path(folder), threads=1, clock=clock)
        with snowflake.session("MAKER", "ACCOUNTADMIN") as session:
            for statement in _MADE:
                snowflake.run(session, statement)
        with served(snowflake) as port:
            yield Account(clock, snowflake.meter, _login(port))


def _login(port: int) -> SnowflakeLogin:
    return SnowflakeLogin(
        account="local",
        user="SVC_KAFKA_CONNECTOR",
        role="ACCOUNTADMIN",
        warehouse=WAREHOUSE,
        database="STREAMING",
        schema="PUBLIC",
        host="127.0.0.1",
        port=port,
        protocol="http",
        private_key=SecretStr(new_private_key()),
    )


@dataclass
class MeteredSink:
    """One epoch of a sink of one topic, whose records come at a rate. `produced`: how many came, in all partitions."""

    account: Account
    config: SinkConfig
    folder: Path
    driver: SnowflakeConnection
    task: SnowflakeConnection
    produced: float = 0.0
    ledger: Ledger = field(init=False)
    _table: LedgerTable = field(init=False)
    _method: DriverSide | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Make its target and claim it, as the start of a run does."""
        namespace = self.context.namespace
        (self._topic,) = self.config.topics
        self._target = table_for(self._topic, ())
        self._partitions = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
        self._table = LedgerTable(namespace, self.config.name, uuid.uuid4().hex)
        ensure_variant_table(self.driver, namespace, self._target, create=True, tables=TableConfig())
        self._table.ensure(self.driver)
        kafka = {where: KafkaPartition(_TOPIC_ID, 0, 2**62) for where in self._partitions}
        streams = self.config.method is Method.SNOWPIPE_STREAMING
        self.ledger = self._table.claim(
            self.driver,
            lambda: kafka,
            "earliest",
            lambda _topic: self._target,
            method=self.config.method,
            tokens_ahead=streams,
            fold=_opened if streams else None,
        )
        if streams:
            for _ in self._partitions:  # each task looks once, when it has opened its channels
                self._table.standing(self.task)
        else:
            self._method = self._prepared()

    @property
    def context(self) -> SinkContext:
        """As a run has it, without Kafka."""
        return SinkContext(self.config, load_settings(), KafkaClient(()), None, None, self.account.login)

    def batches(self, rate: float, seconds: float, *, batch_seconds: float) -> int:
        """Method SNOWPIPE for so long, records coming at `rate` a second; how many batches the planner made.

        batch_seconds: what a batch takes at least, so that a full buffer does not make one each moment.
        """
        clock, until = self.account.clock, self.account.clock.now + seconds
        limit = BatchLimit(self.config, waits=True)
        planner = Planner(self._ends, limit, self.config.buffer, {}, clock)
        batches = 0
        while clock.now < until:
            step = 1.0
            if ranges := planner.next(self.ledger.positions()):
                read = [Move(TopicPartition(each.topic, each.partition), each.start, each.end) for each in ranges]
                self._commit(f"{self.ledger.epoch}-{batches}", read)
                batches += 1
                step = batch_seconds
            clock.advance(step)
            self.produced += rate * step
        return batches

    def _ends(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        each = int(self.produced) // PARTITIONS
        return dict.fromkeys(partitions, each)

    def _prepared(self) -> DriverSide:
        session = EpochSession(self.context, self.driver, self._table, self.ledger.epoch)
        made = registry.of(self.config.method).driver_side(session)
        made.prepare(Claim(self.ledger, self._table.owner(self.driver), {self._topic: _TOPIC_ID}))
        made.prepare_table(self._target, VariantLoader())
        return made

    def _commit(self, name: str, read: list[Move]) -> None:
        driver_side, receipts = self._method, []
        assert driver_side is not None
        for move in read:
            folder = self.folder / uuid.uuid4().hex
            folder.mkdir()
            target = PartitionRange(move.where, self._target, VariantLoader(), folder, self.context)
            writer = driver_side.task_side.writer(target, self._in_session)
            offsets = np.arange(move.start, min(move.end, move.start + 3), dtype=np.int64)
            metadata = [json.dumps({"topic": self._topic, "offset": int(at)}) for at in offsets]
            writer.write(offsets, (pa.array(metadata, pa.string()), pa.array(["{}"] * len(offsets), pa.string())))
            receipts += writer.flush()
        moves = self.ledger.add_in_flight(read, {})
        driver_side.commit(receipts, LedgerUpdate(name, moves, Totals(sum(r.rows for r in receipts), 0, 1, 0, 0)))
        self.ledger.advance(moves)

    def _in_session(self, work: Callable[[SnowflakeConnection], None]) -> None:
        work(self.task)

    def moves_of_the_ledger(self, rate: float, seconds: float) -> int:
        """Method SNOWPIPE_STREAMING for so long: rows travel without statements, the ledger moves now and then."""
        clock, until, moved = self.account.clock, self.account.clock.now + seconds, 0
        while clock.now < until:
            step = min(self.config.streaming.ledger_seconds, until - clock.now)
            clock.advance(step)
            self.produced += rate * step
            if read := self._read():
                moves = self.ledger.add_in_flight(read, {})
                self._table.move(self.driver, self.ledger.epoch, f"{self.ledger.epoch}-{moved}", moves)
                self.ledger.advance(moves)
                moved += 1
        return moved

    def _read(self) -> list[Move]:
        ends = self._ends(self._partitions)
        return [Move(w, at, ends[w]) for w, at in self.ledger.positions().items() if ends[w] > at]


@dataclass(frozen=True)
class _Folded:
    """A channel that was opened and has no row yet."""

    next_offset: int
    channel: RecordedChannel | None


def _opened(
    owner: Owner,  # noqa: ARG001  (as `firn.ledger.folding.Fold`)
    positions: Mapping[TopicPartition, Position],
    partitions: Mapping[TopicPartition, KafkaPartition],  # noqa: ARG001
    *,
    replaced: Collection[TopicPartition] = (),  # noqa: ARG001
) -> dict[TopicPartition, _Folded]:
    """Channels as they are when they were opened: that takes no statement."""
    channel = RecordedChannel(pipe="ORDERS-STREAMING", created_ms=1, token=None, row_errors=0)
    return {where: _Folded(position.next_offset, channel) for where, position in positions.items()}


@contextmanager
def sink(on: Account, config: SinkConfig) -> Iterator[MeteredSink]:
    """A sink that has claimed; an hour later, so that its start is behind it."""
    logging.getLogger("firn").setLevel(logging.WARNING)
    tag = f"firn sink {config.name}"
    with (
        tempfile.TemporaryDirectory() as folder,
        connect(on.login, query_tag=tag) as driver,
        connect(on.login, query_tag=tag) as task,
    ):
        made = MeteredSink(on, config, Path(folder), driver, task)
        on.clock.advance(3600)
        yield made
