"""Method SNOWPIPE_STREAMING in the tasks of one epoch: a client for each pipe, a channel for each partition.

A task opens a channel, and only then asks the ledger who may write: whoever opened it meanwhile has the channel, and
whoever claimed meanwhile is in the ledger, so a task that comes late appends nothing. Not for what one channel is told
(`writer`), nor for what rows are (`rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snowflake.connector import SnowflakeConnection

from firn.channels.client import ChannelClient, OpenChannel
from firn.channels.names import channel_name
from firn.channels.recorded import RecordedChannel
from firn.errors import ClaimAgainError, FencedError
from firn.kafka.partitions import TopicPartition
from firn.ledger.positions import Standing
from firn.ledger.table import LedgerTable
from firn.sinks.channel_folding import clients_of
from firn.sinks.context import SinkContext
from spark_jobs.sink.methods.base import ContinuousWriter, InSession, PartitionRange
from spark_jobs.sink.methods.streaming.writer import ChannelWriter, Opening, UnmadeTableWriter
from spark_jobs.sink.values.table_loaders import ColumnsLoader


class StreamingTasks:
    """The task side. What travels to tasks is what the claim found out; clients are made where they are used.

    channels: as the ledger remembers them. pipes: of each table. Both are the driver's own, which may change them until
    they travel.
    """

    def __init__(
        self,
        epoch: int,
        ledger_id: str,
        generation: int,
        channels: Mapping[TopicPartition, RecordedChannel],
        pipes: Mapping[str, str],
    ) -> None:
        self._epoch, self._ledger_id, self._generation = epoch, ledger_id, generation
        self._channels, self._pipes = channels, pipes
        self._clients: dict[str, ChannelClient] = {}

    def __getstate__(self) -> dict[str, Any]:
        """Without clients, which do not travel."""
        return self.__dict__ | {"_clients": {}}

    def writer(self, target: PartitionRange, in_session: InSession) -> ContinuousWriter:
        """As `ContinuousTaskSide.writer`. A table that is not made yet has no pipe, and no rows either."""
        if isinstance(target.loader, ColumnsLoader) and not target.loader.exists:
            return UnmadeTableWriter(self._position(target, in_session))
        recorded, pipe = self._channels.get(target.where), self._pipes[target.table]
        if recorded is None or recorded.pipe != pipe:
            known = f"the ledger knows a channel in pipe {recorded.pipe}" if recorded else "the ledger knows no channel"
            raise ClaimAgainError(f"Rows of {target.where} go through pipe {pipe} by now, and {known}.")
        client = self._client(target.context, pipe)
        name = channel_name(self._ledger_id, target.context.config.name, target.where)

        def begin() -> tuple[OpenChannel, int]:
            channel = client.open(name)
            try:
                return channel, self._position(target, in_session)
            except BaseException:
                channel.close(flush=False)
                raise

        return ChannelWriter(target, Opening(begin, recorded, self._generation))

    def close(self, *, flush: bool) -> None:
        """As `ContinuousTaskSide.close`."""
        while self._clients:
            self._clients.popitem()[1].close(flush=flush)

    def _client(self, context: SinkContext, pipe: str) -> ChannelClient:
        if pipe not in self._clients:
            self._clients[pipe] = clients_of(context)(pipe)
        return self._clients[pipe]

    def _position(self, target: PartitionRange, in_session: InSession) -> int:
        """NEXT_OFFSET of a partition that is still this epoch's."""
        sink = target.context.config.name
        ledger, found = LedgerTable(target.context.namespace, sink), list[Standing]()

        def look(connection: SnowflakeConnection) -> None:
            found.append(ledger.standing(connection))

        in_session(look)
        standing = found[-1]
        if standing.epoch != self._epoch:
            raise FencedError(
                f"Epoch {self._epoch} of sink {sink} has ended: the ledger is at epoch {standing.epoch}.",
                where=f"sink {sink}, {target.where}",
                next_step="Nothing: another run holds the sink. `firn sink status` shows it.",
            )
        if standing.generation != self._generation or target.where not in standing.positions:
            raise ClaimAgainError(f"The ledger's row of {target.where} has changed since it was claimed.")
        return standing.positions[target.where]
