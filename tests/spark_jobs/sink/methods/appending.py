"""A method of tests alone, as unlike SNOWPIPE as the contract allows: it appends rows to channels.

It follows the rules of Snowpipe Streaming in miniature. A channel belongs to who opened it last; rows are durable when
they are appended, before any commit; the channel's token says how far. The ledger moves at a claim and at the orderly
end alone. Channels live in this process, rows go to the table by INSERT.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from snowflake.connector import SnowflakeConnection

from firn.errors import ConfigError, FencedError
from firn.kafka.partitions import TopicPartition
from firn.ledger.owner import Totals
from firn.ledger.positions import Move
from firn.ledger.table import LedgerTable
from firn.operations.residue.finding import Finding, RetiredSink
from firn.snowflake.connection import execute
from firn.snowflake.identifiers import Namespace
from firn.snowflake.requirements import Requirement
from firn.snowflake.tables import describe_named
from firn.snowflake.transactions import transaction
from spark_jobs.sink.decode.base.scalars import CLASSIC_ZONE
from spark_jobs.sink.methods.base import (
    Claim,
    EpochSession,
    InSession,
    LedgerUpdate,
    PartitionRange,
)
from spark_jobs.sink.values.reports import Receipt
from spark_jobs.sink.values.table_loaders import PipeLoader, TableLoader


@dataclass
class Channel:
    """What the service keeps: who may append, how far rows are durable, the epoch that opened it last."""

    owner: int = 0
    token: int = -1
    epoch: int = 0

    def open(self, epoch: int) -> int:
        """Open it: whoever did before is fenced. Returns the owner's number."""
        self.owner, self.epoch = self.owner + 1, epoch
        return self.owner


_channels: dict[tuple[Namespace, str], dict[TopicPartition, Channel]] = {}


def channels_of(namespace: Namespace, sink: str) -> dict[TopicPartition, Channel]:
    """The channels of a sink."""
    return _channels.setdefault((namespace, sink), {})


class Appending:
    """The method as a registry would know it."""

    continuous = False
    time_zone = CLASSIC_ZONE
    row_bytes = None

    def driver_side(self, session: EpochSession) -> AppendingDriver:
        return AppendingDriver(session)

    def check_table(
        self, connection: SnowflakeConnection, _namespace: Namespace, _table: str, loader: TableLoader
    ) -> None:
        if isinstance(loader, PipeLoader) and describe_named(connection, loader.table) is None:
            raise ConfigError(f"Table not found: {loader.table}.")

    def privileges(self, _connection: SnowflakeConnection, _namespace: Namespace) -> list[Requirement]:
        return []

    def leftovers(self, _connection: SnowflakeConnection, sink: RetiredSink) -> ChannelResidue:
        return ChannelResidue(channels_of(sink.namespace, sink.name))


@dataclass(frozen=True)
class ChannelResidue:
    """The channels of a retired sink."""

    channels: dict[TopicPartition, Channel]

    @property
    def newest_epoch(self) -> int:
        return max((channel.epoch for channel in self.channels.values()), default=0)

    def findings(self) -> list[Finding]:
        return [Finding("channel", str(where)) for where in sorted(self.channels)]

    def shared(self) -> list[Finding]:
        return []

    def remove(self, _connection: SnowflakeConnection, epoch: int) -> None:
        for where in [where for where, channel in self.channels.items() if channel.epoch <= epoch]:
            del self.channels[where]


@dataclass(frozen=True)
class AppendingTasks:
    """The task side."""

    namespace: Namespace
    sink: str
    epoch: int

    def writer(self, target: PartitionRange, in_session: InSession) -> AppendingWriter:
        return AppendingWriter(self, target, in_session)


class AppendingWriter:
    """Opens the channel, then asks for the epoch, and only then appends."""

    def __init__(self, tasks: AppendingTasks, target: PartitionRange, in_session: InSession) -> None:
        self._target, self._in_session = target, in_session
        self._table = tasks.namespace.qualified(target.table)
        self._channel = channels_of(tasks.namespace, tasks.sink).setdefault(target.where, Channel())
        self._owner = self._channel.open(tasks.epoch)
        ledger = LedgerTable(tasks.namespace, tasks.sink)
        in_session(lambda connection: ledger.check_epoch(connection, tasks.epoch))
        self._rows: list[tuple[int, tuple[str, ...]]] = []
        self._schema_ids: set[int] = set()
        self.text_bytes = 0

    def write(self, offsets: Any, columns: Sequence[Any], schema_ids: Iterable[int] = ()) -> None:
        texts = zip(*(column.to_pylist() for column in columns), strict=True)
        self._rows += [(int(at), row) for at, row in zip(offsets, texts, strict=True) if at > self._channel.token]
        self._schema_ids |= set(schema_ids)
        self.text_bytes += sum(len(text.encode()) for column in columns for text in column.to_pylist())

    def flush(self) -> list[Receipt]:
        if self._channel.owner != self._owner:
            raise FencedError("Somebody else opened the channel.")
        rows, self._rows = self._rows, []
        if not rows:
            return []
        self._in_session(lambda connection: self._append(connection, [row for _, row in rows]))
        self._channel.token = rows[-1][0]
        size = sum(len(text.encode()) for _, row in rows for text in row)
        ids = sorted(self._schema_ids)
        return [Receipt(*self._target.where, self._target.table, rows[0][0], rows[-1][0], len(rows), size, size, ids)]

    def _append(self, connection: SnowflakeConnection, rows: Sequence[tuple[str, ...]]) -> None:
        for row in rows:
            execute(connection, f"INSERT INTO {self._table} SELECT PARSE_JSON(?), PARSE_JSON(?)", list(row))


@dataclass
class AppendingDriver:
    """The driver side: updates of the ledger wait until the end."""

    session: EpochSession
    updates: list[LedgerUpdate] = field(default_factory=list)

    @property
    def task_side(self) -> AppendingTasks:
        context = self.session.context
        return AppendingTasks(context.namespace, context.config.name, self.session.epoch)

    def prepare(self, claim: Claim) -> None:
        """Fence earlier writers, and fold what they made durable into the ledger."""
        context, moves = self.session.context, []
        for where, start in claim.ledger.positions().items():
            channel = channels_of(context.namespace, context.config.name).setdefault(where, Channel())
            channel.open(self.session.epoch)
            if channel.token >= start:
                moves.append(Move(where, start, channel.token + 1))
        folded = claim.ledger.add_in_flight(moves, {})
        self._move("fold", folded, Totals())
        claim.ledger.advance(folded)
        self.sweep(claim)

    def sweep(self, _claim: Claim) -> None:
        """A channel that is opened again leaves nothing."""

    def prepare_table(self, _table: str, _loader: TableLoader) -> None:
        """Nothing: the table is there."""

    def commit(self, _receipts: Sequence[Receipt], update: LedgerUpdate) -> None:
        self.session.ledger.check_epoch(self.session.connection, self.session.epoch)
        self.updates.append(update)

    def finish(self) -> None:
        starts: dict[TopicPartition, int] = {}
        ends: dict[TopicPartition, int] = {}
        for move in (move for update in self.updates for move in update.moves):
            starts.setdefault(move.where, move.start)
            ends[move.where] = move.end
        moves = tuple(Move(where, start, ends[where]) for where, start in starts.items())
        self._move("end", moves, sum((update.totals for update in self.updates), Totals()))
        self.updates = []

    def _move(self, batch: str, moves: tuple[Move, ...], totals: Totals) -> None:
        if moves:
            with transaction(self.session.connection):
                self.session.ledger.move(self.session.connection, self.session.epoch, batch, moves, totals)
