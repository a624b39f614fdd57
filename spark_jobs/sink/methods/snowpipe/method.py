"""Method SNOWPIPE behind the contract of `methods.base`: tasks stage files, and the driver copies them.

COPY and the ledger's move are one transaction, the ledger last, so that its lock is held for a moment only. After
COMMIT the batch's own files are removed, each by its name: files of the next batch may be in the stage already.
Docs: docs/decisions/0001-commit-protocol.md. Not for the statements (`stage`, `copy_into`, `pipe_input_table`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from snowflake.connector import SnowflakeConnection

from firn.connector.config import BufferConfig
from firn.errors import ClaimAgainError, FirnError
from firn.ledger.folding import Fold
from firn.operations.residue.finding import RetiredSink
from firn.settings import Settings
from firn.sinks.channel_folding import ChannelFolder
from firn.sinks.context import SinkContext
from firn.snowflake.connection import SnowflakeLogin
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace
from firn.snowflake.requirements import Requirement
from firn.snowflake.transactions import transaction
from spark_jobs.sink.decode.base.scalars import CLASSIC_ZONE
from spark_jobs.sink.methods.base import (
    Claim,
    EpochSession,
    InSession,
    LedgerUpdate,
    PartitionRange,
    RejectedRowsError,
)
from spark_jobs.sink.methods.snowpipe.copy_into import RefusedFilesError, copy_files
from spark_jobs.sink.methods.snowpipe.files import PartitionFiles
from spark_jobs.sink.methods.snowpipe.pipe_input_table import PipeInputTable, RefusedByPipeError, check_pipe
from spark_jobs.sink.methods.snowpipe.privileges import stage_privileges
from spark_jobs.sink.methods.snowpipe.refused_files import forget_others, refused_files, remember_refused
from spark_jobs.sink.methods.snowpipe.refused_rows import RowSearch
from spark_jobs.sink.methods.snowpipe.residue import StageResidue, find_stage_residue
from spark_jobs.sink.methods.snowpipe.stage import Stage
from spark_jobs.sink.values.reports import Receipt
from spark_jobs.sink.values.table_loaders import PipeLoader, TableLoader

log = logging.getLogger(__name__)


class Snowpipe:
    """The method as the registry knows it."""

    continuous = False
    time_zone = CLASSIC_ZONE
    row_bytes = None

    def fold(self, context: SinkContext, _connection: SnowflakeConnection, ledger_id: str) -> Fold:
        """As `IngestionMethod.fold`: this method has no channels of its own."""
        return ChannelFolder(context, ledger_id)

    def driver_side(self, session: EpochSession) -> SnowpipeDriver:
        """As `IngestionMethod.driver_side`."""
        return SnowpipeDriver(session)

    def check_table(
        self, connection: SnowflakeConnection, namespace: Namespace, table: str, loader: TableLoader
    ) -> None:
        """As `IngestionMethod.check_table`: a user's pipe is tried out on no record."""
        if isinstance(loader, PipeLoader):
            check_pipe(connection, namespace, table, loader)

    def check_service(
        self,
        _login: SnowflakeLogin,
        _settings: Settings,
        _connection: SnowflakeConnection,
        _loaders: Mapping[str, TableLoader],
    ) -> list[str]:
        """As `IngestionMethod.check_service`: there is none beside the session's own."""
        return []

    def privileges(
        self, connection: SnowflakeConnection, namespace: Namespace, _tables: Sequence[str]
    ) -> list[Requirement]:
        """As `IngestionMethod.privileges`: for the stage."""
        return stage_privileges(connection, namespace)

    def leftovers(self, connection: SnowflakeConnection, sink: RetiredSink) -> StageResidue:
        """As `IngestionMethod.leftovers`: the sink's files in the stage."""
        return find_stage_residue(connection, sink.namespace, sink.name, sink.owner)


@dataclass(frozen=True)
class SnowpipeTasks:
    """The task side: files of the epoch in the stage, bounded by `buffer`."""

    stage: Stage
    buffer: BufferConfig

    def writer(self, target: PartitionRange, in_session: InSession) -> PartitionFiles:
        """As `TaskSide.writer`. Raises ClaimAgainError for a stage that is gone: the next `prepare` makes it."""

        def upload(file: Path, folder: str) -> None:
            try:
                in_session(lambda connection: self.stage.put(connection, file, folder))
            except MissingObjectError as error:
                raise ClaimAgainError(f"The stage is gone: {error.what}", where=error.where) from error

        return PartitionFiles(self.stage, self.buffer, target, upload)


class SnowpipeDriver:
    """The driver side, for one epoch. It knows the loader of each table, and the input table of each user's pipe."""

    def __init__(self, session: EpochSession) -> None:
        self._session, self._connection = session, session.connection
        context = session.context
        self._sink, self._namespace = context.config.name, context.namespace
        self._stage = Stage(self._namespace, self._sink, session.epoch)
        self.task_side = SnowpipeTasks(self._stage, context.config.buffer)
        self._loaders: dict[str, TableLoader] = {}
        self._inputs: dict[str, PipeInputTable] = {}

    def prepare(self, claim: Claim) -> None:
        """As `DriverSide.prepare`: the stage is made. The ledger alone says where partitions go on."""
        self._stage.ensure(self._connection)
        self.sweep(claim)

    def sweep(self, claim: Claim) -> None:
        """As `DriverSide.sweep`: files of earlier epochs go, those that COPY refused stay."""
        refused = refused_files(claim.owner)
        there = self._stage.remove_older(self._connection, refused)
        if not there.issuperset(refused):
            forget_others(self._session.ledger, self._connection, self._session.epoch, there)

    def prepare_table(self, table: str, loader: TableLoader) -> None:
        """As `DriverSide.prepare_table`: a user's pipe is tried out, and gets its input table in this session."""
        if isinstance(loader, PipeLoader):
            check_pipe(self._connection, self._namespace, table, loader)
            self._inputs[table] = PipeInputTable(self._namespace, self._sink, table)
            self._inputs[table].prepare(self._connection)
        self._loaders[table] = loader

    def commit(self, receipts: Sequence[Receipt], update: LedgerUpdate) -> None:
        """As `DriverSide.commit`: COPY of exactly these files, then the ledger, in one transaction."""
        ledger, connection, epoch = self._session.ledger, self._connection, self._session.epoch
        try:
            with transaction(connection):
                copy_files(connection, self._stage, receipts, self._loaders, self._inputs)
                ledger.move(connection, epoch, update.batch, update.moves, update.totals)
        except RefusedFilesError as error:
            remember_refused(ledger, connection, epoch, error.files)
            raise
        except RefusedByPipeError as error:
            self._search_refused(receipts, error)
            raise
        self._remove_committed(receipts)

    def _search_refused(self, receipts: Sequence[Receipt], error: RefusedByPipeError) -> None:
        """Raise RejectedRowsError for the rows that users' pipes refuse; return where they refuse none by itself."""
        strict = self._session.context.config.errors.tolerance == "none"
        search = RowSearch(self._connection, self._stage, first_only=strict)
        for table, waiting in self._inputs.items():
            loader = self._loaders[table]
            if isinstance(loader, PipeLoader):
                search.look(waiting, loader, [receipt for receipt in receipts if receipt.table == table])
        if search.found:
            raise RejectedRowsError(error.what, search.found) from error

    def _remove_committed(self, receipts: Sequence[Receipt]) -> None:
        try:
            self._stage.remove_files(self._connection, [receipt.detail for receipt in receipts])
        except FirnError:
            log.warning("Staged files could not be removed; the next start removes them", exc_info=True)

    def finish(self) -> None:
        """As `DriverSide.finish`: every commit has moved the ledger already."""
