"""Method SNOWPIPE_STREAMING in the tasks of one epoch: a client for each pipe, a channel for each partition.

A task opens its channels, and only then asks the ledger, once, who may write: whoever opened one meanwhile has it, and
whoever claimed meanwhile is in the ledger, so a task that comes late appends nothing. Channels are opened by several
threads at a time: each takes as long as the service is far. Not for what one channel is told (`writer`), nor for what
rows are (`rows`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from firn.channels.client import ChannelClient, OpenChannel
from firn.channels.names import channel_name
from firn.channels.recorded import RecordedChannel
from firn.errors import ClaimAgainError, FencedError
from firn.kafka.partitions import TopicPartition
from firn.ledger.positions import Standing
from firn.ledger.table import LedgerTable
from firn.sinks.channel_folding import OPENED_AT_ONCE, clients_of
from firn.sinks.context import SinkContext
from spark_jobs.sink.methods.base import ContinuousWriter, InSession, PartitionRange
from spark_jobs.sink.methods.streaming.writer import ChannelWriter, Opening, UnmadeTableWriter
from spark_jobs.sink.values.table_loaders import ColumnsLoader


class _Channel(NamedTuple):
    """One that a writer is to have. recorded: what the ledger knows of it."""

    client: ChannelClient
    name: str
    recorded: RecordedChannel

    def open(self) -> OpenChannel:
        return self.client.open(self.name)


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
        """As `ContinuousTaskSide.writer`."""
        return self.writers([target], in_session)[0]

    def writers(self, targets: Sequence[PartitionRange], in_session: InSession) -> list[ContinuousWriter]:
        """As `ContinuousTaskSide.writers`. A table that is not made yet has no pipe, and no rows either."""
        channels = [self._channel(target) for target in targets]
        opened = _opened([channel for channel in channels if channel])
        try:
            positions = self._positions(targets, in_session)
            made, waiting = list[ContinuousWriter](), iter(opened)
            for target, channel, position in zip(targets, channels, positions, strict=True):
                if channel is None:
                    made.append(UnmadeTableWriter(position))
                else:
                    opening = self._opening(target, channel, in_session)
                    made.append(ChannelWriter(target, opening, next(waiting), position))
        except BaseException:
            _close(opened)
            raise
        return made

    def close(self, *, flush: bool) -> None:
        """As `ContinuousTaskSide.close`."""
        while self._clients:
            self._clients.popitem()[1].close(flush=flush)

    def _channel(self, target: PartitionRange) -> _Channel | None:
        """The channel of a partition; None where there is no table yet. Raises ClaimAgainError for one of before."""
        if isinstance(target.loader, ColumnsLoader) and not target.loader.exists:
            return None
        recorded, pipe = self._channels.get(target.where), self._pipes[target.table]
        if recorded is None or recorded.pipe != pipe:
            known = f"the ledger knows a channel in pipe {recorded.pipe}" if recorded else "the ledger knows no channel"
            raise ClaimAgainError(f"Rows of {target.where} go through pipe {pipe} by now, and {known}.")
        name = channel_name(self._ledger_id, target.context.config.name, target.where)
        return _Channel(self._client(target.context, pipe), name, recorded)

    def _opening(self, target: PartitionRange, channel: _Channel, in_session: InSession) -> Opening:
        def again() -> tuple[OpenChannel, int]:
            opened = channel.open()
            try:
                return opened, self._positions([target], in_session)[0]
            except BaseException:
                opened.close(flush=False)
                raise

        return Opening(again, channel.recorded, self._generation)

    def _client(self, context: SinkContext, pipe: str) -> ChannelClient:
        if pipe not in self._clients:
            self._clients[pipe] = clients_of(context)(pipe)
        return self._clients[pipe]

    def _positions(self, targets: Sequence[PartitionRange], in_session: InSession) -> list[int]:
        """NEXT_OFFSET of partitions that are still this epoch's."""
        context = targets[0].context
        sink, found = context.config.name, list[Standing]()
        ledger = LedgerTable(context.namespace, sink)
        in_session(lambda connection: found.append(ledger.standing(connection)))
        standing, wheres = found[-1], [target.where for target in targets]
        if standing.epoch != self._epoch:
            raise FencedError(
                f"Epoch {self._epoch} of sink {sink} has ended: the ledger is at epoch {standing.epoch}.",
                where=f"sink {sink}, {', '.join(map(str, wheres[:3]))}",
                next_step="Nothing: another run holds the sink. `firn sink status` shows it.",
            )
        for where in wheres:
            if standing.generation != self._generation or where not in standing.positions:
                raise ClaimAgainError(f"The ledger's row of {where} has changed since it was claimed.")
        return [standing.positions[where] for where in wheres]


def _opened(channels: Sequence[_Channel]) -> list[OpenChannel]:
    """All of them, or none: raises what the first one raised that cannot be opened."""
    for client in {id(channel.client): channel.client for channel in channels}.values():
        client.connect()  # by this thread, for a client is made in an environment that is the whole process's
    with ThreadPoolExecutor(OPENED_AT_ONCE, "firn-open") as threads:
        opening = [threads.submit(channel.open) for channel in channels]
    if fault := next((error for each in opening if (error := each.exception())), None):
        _close([each.result() for each in opening if not each.exception()])
        raise fault
    return [each.result() for each in opening]


def _close(channels: Sequence[OpenChannel]) -> None:
    for channel in channels:
        channel.close(flush=False)
