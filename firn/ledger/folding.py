"""Taking into the ledger what channels know and it does not: the contract with whoever opens the channels.

A streaming sink's rows are durable by its channels' offset tokens; the ledger follows later and is a lower bound until
then (`Owner.tokens_ahead`). To fold is to open a channel, which fences its writers, and to raise NEXT_OFFSET to the
offset behind its token. Not for opening channels, which belongs to `firn.channels`, nor for when to fold (`table`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol

from firn.channels.recorded import RecordedChannel
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.owner import Owner
from firn.ledger.positions import Position


class FoldedPosition(Protocol):
    """Where a partition goes on once its channel was opened: never below its position before."""

    @property
    def next_offset(self) -> int:
        """The first offset that neither the ledger nor the channel's token covers."""
        ...

    @property
    def channel(self) -> RecordedChannel | None:
        """What to record of its channel; None for a partition without one."""
        ...


class Fold(Protocol):
    """Opens channels and says where their partitions go on. It waits for channels that are still busy."""

    def __call__(
        self,
        owner: Owner,
        positions: Mapping[TopicPartition, Position],
        partitions: Mapping[TopicPartition, KafkaPartition],
        *,
        replaced: Collection[TopicPartition] = (),
    ) -> Mapping[TopicPartition, FoldedPosition]:
        """Fold these positions: open every recorded channel, and whichever `partitions` need from now on.

        owner: the owner row; its generation is that of the tokens, and with `tokens_ahead` a channel that is absent,
        younger than recorded or behind its recorded token is a lost position (LostPositionError, for all at once).
        positions: of all partitions of the sink, also those that have no row yet. partitions: what Kafka holds of
        those that the sink reads; empty for who only looks. replaced: partitions whose position somebody sets anyway:
        their channels are opened, but nothing of them is lost, and nothing is said of them.
        """
        ...


def fold_positions(
    positions: Mapping[TopicPartition, Position], folded: Mapping[TopicPartition, FoldedPosition]
) -> dict[TopicPartition, Position]:
    """The positions after a fold; a position is never lowered, and a recorded channel never forgotten."""
    return {where: _folded(position, folded.get(where)) for where, position in positions.items()}


def _folded(position: Position, by: FoldedPosition | None) -> Position:
    if by is None:
        return position
    ahead = max(position.next_offset, by.next_offset)
    return replace(position, next_offset=ahead, channel=by.channel or position.channel)
