"""Opening a sink's channels, and what their tokens say of its positions: a `Fold` of the ledger.

To open a channel takes it from whoever has it, waits for rows that are on their way, and gives the token that counts.
What the ledger remembers of a channel shows whether that token can be trusted: a channel that was dropped and made
again, or whose token went back, has lost how far its rows are, and nobody may guess.
Not for calling the service (`firn.channels.client`), nor for storing what was folded (`firn.ledger.table`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, Protocol, TypeAlias

from firn.channels.client import ChannelClient
from firn.channels.names import channel_name
from firn.channels.recorded import ChannelSeen, RecordedChannel
from firn.channels.tokens import Token, next_offset
from firn.errors import TerminalError
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.owner import Owner
from firn.ledger.positions import LostPositionError, Position
from firn.sinks.channel_options import client_options
from firn.sinks.context import SinkContext
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import FullName, Namespace, stored

OPENED_AT_ONCE = 16

PipeOf: TypeAlias = Callable[[TopicPartition], str | None]
"""The pipe that a partition's rows go through from now on, as Snowflake keeps its name; None where it has none yet."""


class UnaccountedRowsError(TerminalError):
    """A channel is to be left while rows that Snowflake rejected in it are not accounted for."""


class _Opened(Protocol):
    @property
    def seen(self) -> ChannelSeen: ...


class Client(Protocol):
    """As much of a `ChannelClient` as a fold uses."""

    def connect(self) -> None:
        """As `ChannelClient.connect`."""
        ...

    def open(self, name: str, /) -> _Opened:
        """As `ChannelClient.open`."""
        ...

    def close(self, *, flush: bool) -> None:
        """As `ChannelClient.close`."""
        ...


ClientOf: TypeAlias = Callable[[str], Client]
"""Makes the client of a pipe."""


@dataclass(frozen=True)
class FoldedChannel:
    """Where a partition goes on, and the channel that the ledger records; None where it has none.

    unaccounted: row errors of the channel that nobody accounted for. With them the position stays: what was refused
    lies between it and the token.
    """

    next_offset: int
    channel: RecordedChannel | None
    unaccounted: int = 0


class _Channel(NamedTuple):
    where: TopicPartition
    pipe: str


class ChannelFolder:
    """Folds the channels of one sink. It is a `firn.ledger.folding.Fold`.

    pipe_of: where rows go from now on; None for who only takes in what channels know: another method, a reset, a clean.
    client_of: makes clients; for tests.
    """

    def __init__(
        self, context: SinkContext, ledger_id: str, pipe_of: PipeOf | None = None, client_of: ClientOf | None = None
    ) -> None:
        self._sink, self._ledger_id, self._pipe_of = context.config.name, ledger_id, pipe_of
        self._client_of = client_of or clients_of(context)

    def __call__(
        self,
        owner: Owner,
        positions: Mapping[TopicPartition, Position],
        partitions: Mapping[TopicPartition, KafkaPartition],
        *,
        replaced: Collection[TopicPartition] = (),
    ) -> dict[TopicPartition, FoldedChannel]:
        """As `Fold`: recorded channels are opened first, then those of pipes that are new to their partitions.

        Raises LostPositionError and UnaccountedRowsError, each for all partitions at once, and the errors of
        `firn.channels.faults`.
        """
        recorded = {where: at.channel for where, at in positions.items() if at.channel}
        seen = self._open(_Channel(where, channel.pipe) for where, channel in recorded.items())
        pipes = {where: self._pipe_of(where) for where in partitions} if self._pipe_of else {}
        wanted = {_Channel(where, pipe) for where, pipe in pipes.items() if pipe}
        if owner.tokens_ahead:
            self._check_known(recorded, seen, replaced)
            self._check_accounted(recorded, seen, {*replaced, *(channel.where for channel in wanted & seen.keys())})
        new = self._open(sorted(wanted - seen.keys()), must_exist=True)
        folded = dict[TopicPartition, FoldedChannel]()
        for (where, pipe), found in [*seen.items(), *new.items()]:
            if found and where not in replaced:
                position = folded[where].next_offset if where in folded else positions[where].next_offset
                folded[where] = _folded(position, found, pipe, recorded.get(where), owner.generation)
        return folded

    def _open(self, channels: Iterable[_Channel], *, must_exist: bool = False) -> dict[_Channel, ChannelSeen | None]:
        """What the service says of each channel, once it is open; None where its pipe is gone, unless it must exist."""
        wanted = list(channels)
        clients = {pipe: self._client_of(pipe) for pipe in {channel.pipe for channel in wanted}}

        def open_one(channel: _Channel) -> ChannelSeen | None:
            try:
                return clients[channel.pipe].open(channel_name(self._ledger_id, self._sink, channel.where)).seen
            except MissingObjectError:
                if must_exist:
                    raise
                return None

        try:
            for client in clients.values():
                with suppress(MissingObjectError):
                    client.connect()
            with ThreadPoolExecutor(OPENED_AT_ONCE, "firn-open") as threads:
                return dict(zip(wanted, threads.map(open_one, wanted), strict=True))
        finally:
            for client in clients.values():
                client.close(flush=False)

    def _check_accounted(
        self,
        recorded: Mapping[TopicPartition, RecordedChannel],
        seen: Mapping[_Channel, ChannelSeen | None],
        others: Collection[TopicPartition],
    ) -> None:
        """Refuse to leave a channel whose rejected rows nobody accounted for; `others` are not left."""
        faults = [
            f"  {where}: {rejected} in pipe {pipe}, at or before token {found.error_bound}: {found.last_error}"
            for (where, pipe), found in sorted(seen.items())
            if where not in others and found and (rejected := found.unaccounted(recorded[where])) > 0
        ]
        if faults:
            raise UnaccountedRowsError(
                "Snowflake rejected rows of these partitions, and nothing says yet which records they were:\n"
                + "\n".join(faults),
                where=f"sink {self._sink}",
                next_step="Run the sink with the method and pipe of before and errors.tolerance=all: it finds these "
                "records and makes dead letters of them. Then change the method or the pipe.",
            )

    def _check_known(
        self,
        recorded: Mapping[TopicPartition, RecordedChannel],
        seen: Mapping[_Channel, ChannelSeen | None],
        replaced: Collection[TopicPartition],
    ) -> None:
        """Refuse to go on where a channel lost how far its rows are."""
        faults = [
            f"  {where}: {fault}"
            for where, channel in sorted(recorded.items())
            if where not in replaced and (fault := lost(channel, seen[_Channel(where, channel.pipe)]))
        ]
        if faults:
            raise LostPositionError(
                "Snowflake has lost how far these partitions are, and the ledger alone does not say it:\n"
                + "\n".join(faults),
                where=f"sink {self._sink}",
                next_step="Find out who dropped or replaced channels, pipes or tables. To go on behind what the table "
                "holds, that is MAX(RECORD_METADATA:offset) + 1 of each partition: `firn sink offsets <config> --reset "
                "table` shows the plan and asks before it acts.",
            )


def _folded(
    position: int, found: ChannelSeen, pipe: str, recorded: RecordedChannel | None, generation: int
) -> FoldedChannel:
    behind = next_offset(found.token, generation)
    baseline = _baseline(found, behind, position, recorded if recorded and recorded.pipe == pipe else None)
    channel = RecordedChannel(pipe, found.created_ms, found.token, baseline)
    unaccounted = max(0, found.unaccounted(channel))
    return FoldedChannel(position if unaccounted else max(position, behind or 0), channel, unaccounted)


def _baseline(found: ChannelSeen, behind: int | None, position: int, recorded: RecordedChannel | None) -> int:
    """How many of a channel's row errors are accounted for: as recorded of it, or all that lie in front of `position`.

    Those of another generation are nobody's any more, and nobody leaves a pipe before all of its own are accounted for.
    """
    if behind is None:
        return found.row_errors
    if recorded and recorded.created_ms == found.created_ms:
        return recorded.row_errors
    return found.row_errors if behind <= position else 0


def lost(recorded: RecordedChannel, seen: ChannelSeen | None) -> str | None:
    """Why a channel's token cannot be trusted where rows may be durable beyond the ledger; None where it can."""
    if seen is None:
        return f"pipe {recorded.pipe} is gone, and its channel with it"
    if not recorded.is_same(recorded.pipe, seen.created_ms):
        made, known = _moment(seen.created_ms), _moment(recorded.created_ms)
        return (
            f"its channel in pipe {recorded.pipe} was dropped: the one there is of {made}, the recorded one of {known}"
        )
    before, now = Token.parse(recorded.token), Token.parse(seen.token)
    if before and (now is None or now < before):
        return f"the token of its channel in pipe {recorded.pipe} is {seen.token}, and {before} was recorded"
    return None


def clients_of(context: SinkContext) -> Callable[[str], ChannelClient]:
    """Makes clients of pipes in the sink's schema, as its configuration says."""
    options = client_options(context.config.streaming)
    return lambda pipe: ChannelClient(context.login, context.settings, pipe_name(context.namespace, pipe), options)


def pipe_name(namespace: Namespace, pipe: str) -> FullName:
    """The full name of a pipe in a schema; `pipe` as Snowflake keeps it."""
    return stored(namespace.database), stored(namespace.schema), pipe


def _moment(millis: int) -> str:
    return f"{datetime.fromtimestamp(millis / 1000, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + " UTC"
