"""Method SNOWPIPE_STREAMING behind the contract of `methods.base`: tasks append to channels, tokens say what counts.

The ledger is a lower bound while the sink runs, with what is needed to find its channels and trust their tokens: the
claim opens them and writes that down before anything is appended, and the orderly end takes in their tokens, again by
opening them, for a look alone would miss rows that are on their way.
Docs: docs/decisions/0001-commit-protocol.md. Not for tasks (`tasks`, `writer`), nor for folding
(`firn.sinks.channel_folding`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from snowflake.connector import SnowflakeConnection

from firn.channels.client import answering
from firn.errors import FirnError
from firn.kafka.partitions import TopicPartition
from firn.ledger.folding import Fold, FoldedPosition
from firn.ledger.owner import Totals
from firn.ledger.positions import Position
from firn.operations.residue.finding import RetiredSink
from firn.settings import Settings
from firn.sinks.channel_folding import ChannelFolder, UnaccountedRowsError
from firn.sinks.context import SinkContext
from firn.snowflake.connection import SnowflakeLogin
from firn.snowflake.identifiers import Namespace, table_for
from firn.snowflake.requirements import Requirement
from spark_jobs.sink.decode.base.scalars import STREAMING_ZONE
from spark_jobs.sink.methods.base import Claim, EpochSession, LedgerUpdate
from spark_jobs.sink.methods.streaming.pipes import check_target, pipe_of
from spark_jobs.sink.methods.streaming.privileges import pipe_privileges
from spark_jobs.sink.methods.streaming.residue import ChannelResidue, find_channel_residue
from spark_jobs.sink.methods.streaming.tasks import StreamingTasks
from spark_jobs.sink.tables.loaders import TableLoaders
from spark_jobs.sink.values.reports import Receipt
from spark_jobs.sink.values.table_loaders import TableLoader

ROW_BYTES = 16_000_000
"""What one request to the service may hold
(https://docs.snowflake.com/en/user-guide/snowpipe-streaming/snowpipe-streaming-high-performance-rest-api)."""
log = logging.getLogger(__name__)


class Streaming:
    """The method as the registry knows it."""

    continuous = True
    time_zone = STREAMING_ZONE
    row_bytes = ROW_BYTES

    def fold(self, context: SinkContext, connection: SnowflakeConnection, ledger_id: str) -> Fold:
        """As `IngestionMethod.fold`: a channel for each partition whose table is there; the sink makes it if it can."""
        tables = TableLoaders(context, connection, lambda _table, _loader: None)
        known: dict[str, str | None] = {}

        def pipe(where: TopicPartition) -> str | None:
            table = table_for(where.topic, context.config.table_map)
            if table not in known:
                loader = tables.of_topics([where.topic])[where.topic]
                known[table] = pipe_of(connection, context.namespace, table, loader)
            return known[table]

        return ChannelFolder(context, ledger_id, pipe)

    def driver_side(self, session: EpochSession) -> StreamingDriver:
        """As `IngestionMethod.driver_side`."""
        return StreamingDriver(session)

    def check_table(
        self, connection: SnowflakeConnection, namespace: Namespace, table: str, loader: TableLoader
    ) -> None:
        """As `IngestionMethod.check_table`."""
        check_target(connection, namespace, table, loader)

    def check_service(
        self,
        login: SnowflakeLogin,
        settings: Settings,
        connection: SnowflakeConnection,
        loaders: Mapping[str, TableLoader],
    ) -> list[str]:
        """As `IngestionMethod.check_service`: a client logs in and finds each table's pipe; it opens no channel."""
        namespace, found = Namespace(login.database, login.schema), []
        for table, loader in loaders.items():
            if pipe := pipe_of(connection, namespace, table, loader):
                answering(login, settings, (*namespace.full_name(table)[:2], pipe))
                found.append(f"pipe {pipe} takes rows")
        return found

    def privileges(
        self, connection: SnowflakeConnection, namespace: Namespace, tables: Sequence[str]
    ) -> list[Requirement]:
        """As `IngestionMethod.privileges`: for pipes that somebody made."""
        return pipe_privileges(connection, namespace, tables)

    def leftovers(self, _connection: SnowflakeConnection, sink: RetiredSink) -> ChannelResidue:
        """As `IngestionMethod.leftovers`: the sink's channels."""
        return find_channel_residue(sink)


class StreamingDriver:
    """The driver side, for one epoch. Updates of the ledger wait for the orderly end."""

    def __init__(self, session: EpochSession) -> None:
        self._session, self._connection = session, session.connection
        self._claim: Claim | None = None
        self._pipes: dict[str, str] = {}
        self._updates: list[LedgerUpdate] = []

    @property
    def task_side(self) -> StreamingTasks:
        """As `DriverSide.task_side`: once the epoch is prepared."""
        ledger = self._claimed.ledger
        return StreamingTasks(ledger.epoch, ledger.ledger_id, ledger.generation, ledger.channels, self._pipes)

    @property
    def _claimed(self) -> Claim:
        if self._claim is None:
            raise FirnError("The epoch is not prepared.")
        return self._claim

    def prepare(self, claim: Claim) -> None:
        """As `DriverSide.prepare`: the claim has folded the channels."""
        self._claim = claim

    def sweep(self, claim: Claim) -> None:
        """As `DriverSide.sweep`: a channel that is opened again leaves nothing."""

    def prepare_table(self, table: str, loader: TableLoader) -> None:
        """As `DriverSide.prepare_table`: finds the pipe that the rows go through."""
        namespace = self._session.context.namespace
        check_target(self._connection, namespace, table, loader)
        if pipe := pipe_of(self._connection, namespace, table, loader):
            self._pipes[table] = pipe

    def commit(self, _receipts: Sequence[Receipt], update: LedgerUpdate) -> None:
        """As `DriverSide.commit`: the rows are durable by their receipts; the ledger moves at the end."""
        self._session.ledger.check_epoch(self._connection, self._session.epoch)
        self._updates.append(update)

    def finish(self) -> None:
        """As `DriverSide.finish`: folds the channels, and says that no token is ahead of the ledger any more.

        The epoch is sealed first: no task that lives on takes its channel back.

        Where rows were rejected that nobody accounted for, the ledger stays as it is: the next claim finds them.
        """
        claim, context = self._claimed, self._session.context
        if claim.owner is None:
            return
        ends = {move.where: move.end for update in self._updates for move in update.moves}
        ledger = claim.ledger
        positions = {
            where: Position(max(ends.get(where, 0), at), claim.topic_ids.get(where.topic, ""), None, channel)
            for where, at in ledger.committed.items()
            if (channel := ledger.channels.get(where))
        }
        epoch = self._session.ledger.seal(self._connection, self._session.epoch)
        try:
            folded = ChannelFolder(context, ledger.ledger_id)(replace(claim.owner, tokens_ahead=True), positions, {})
        except UnaccountedRowsError as error:
            log.warning("The ledger stays behind its channels: %s", error.what)
            return
        totals = sum((update.totals for update in self._updates), Totals())
        settled: dict[TopicPartition, FoldedPosition] = {**folded}
        self._session.ledger.settle(self._connection, epoch, settled, totals)
        self._updates = []
