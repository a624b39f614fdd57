"""Channels that a retired sink left: those that the ledger remembers and the service still has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from snowflake.connector import SnowflakeConnection

from firn.channels.client import ChannelClient
from firn.channels.names import channel_name
from firn.channels.recorded import ChannelSeen
from firn.kafka.partitions import TopicPartition
from firn.operations.residue.finding import Finding, RetiredSink
from firn.sinks.channel_folding import pipe_name
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import written


@dataclass(frozen=True)
class ChannelResidue:
    """The channels of a sink (a `MethodResidue`), by pipe and partition."""

    sink: RetiredSink
    channels: Mapping[str, Mapping[TopicPartition, ChannelSeen]]

    @property
    def newest_epoch(self) -> int:
        """A channel belongs to no epoch: it is of the sink's newest one."""
        return self.sink.owner.epoch if self.sink.owner and any(self.channels.values()) else 0

    def findings(self) -> list[Finding]:
        """Each channel, with the token that says how far its rows are."""
        return [
            Finding(
                "channel", name_of(self.sink, where), 1, None, f"pipe {_shown(self.sink, pipe)}, token {seen.token}"
            )
            for pipe, channels in sorted(self.channels.items())
            for where, seen in sorted(channels.items())
        ]

    def shared(self) -> list[Finding]:
        """Nothing: pipes belong to their tables."""
        return []

    def remove(self, _connection: SnowflakeConnection, _epoch: int) -> None:
        """Drop every channel that the ledger remembers. A task of a dead run that still had one appends no more."""
        for pipe, names in _remembered(self.sink).items():
            # A pipe that went, as with its table, took its channels along.
            with suppress(MissingObjectError), _client(self.sink, pipe) as client:
                for name in names:
                    client.drop(name)


def find_channel_residue(sink: RetiredSink) -> ChannelResidue:
    """Ask the service about the channels that the ledger remembers; it knows none of a pipe that is gone.

    Raises the errors of `firn.channels.faults`.
    """
    found: dict[str, dict[TopicPartition, ChannelSeen]] = {}
    for pipe, names in _remembered(sink).items():
        try:
            with _client(sink, pipe) as client:
                statuses = client.statuses(names)
        except MissingObjectError:
            continue
        found[pipe] = {where: statuses[name] for name, where in names.items() if name in statuses}
    return ChannelResidue(sink, found)


def name_of(sink: RetiredSink, where: TopicPartition) -> str:
    """The name of a partition's channel."""
    return channel_name(sink.ledger_id or "", sink.name, where)


def _remembered(sink: RetiredSink) -> dict[str, dict[str, TopicPartition]]:
    """By pipe: the names of the channels, and their partitions."""
    found: dict[str, dict[str, TopicPartition]] = {}
    for where, position in sink.positions.items():
        if position.channel:
            found.setdefault(position.channel.pipe, {})[name_of(sink, where)] = where
    return found


@contextmanager
def _client(sink: RetiredSink, pipe: str) -> Iterator[ChannelClient]:
    client = ChannelClient(sink.login, sink.settings, pipe_name(sink.namespace, pipe))
    try:
        yield client
    finally:
        client.close(flush=False)


def _shown(sink: RetiredSink, pipe: str) -> str:
    return written(pipe_name(sink.namespace, pipe))
