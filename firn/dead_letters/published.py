"""Which dead letters are published already: the driver asks Kafka right after each claim, before it plans.

A transaction that is still open then belongs to an epoch that is over: it is aborted, not waited for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from firn.dead_letters.offset_list import UnreadableError, read_list
from firn.errors import TerminalError
from firn.kafka.client import KafkaClient
from firn.kafka.partitions import TopicPartition
from firn.kafka.settled_offsets import overwrite_offsets, settled_offsets
from firn.kafka.transactional_producer import CommittedOffset
from firn.ledger.kafka_names import dead_letter_group, transactional_id


@dataclass(frozen=True)
class PartitionLetters:
    """The published dead letters of one partition: offsets of their records, from the ledger's NEXT_OFFSET on.

    group_offset: the offset that the group holds, -1 for none. metadata: as the group holds it; None where the caller
    does not know it, because it went on within its epoch.
    """

    group_offset: int = -1
    published: frozenset[int] = frozenset()
    metadata: str | None = None

    def agrees_with(self, now: CommittedOffset) -> bool:
        """Whether the group still holds what this is about."""
        return self.group_offset == now.offset and self.metadata in (None, now.metadata)


def published_letters(
    client: KafkaClient, ledger_id: str, sink: str, positions: Mapping[TopicPartition, tuple[str, int]]
) -> dict[TopicPartition, PartitionLetters]:
    """What is published, for each of `positions` (topic id and NEXT_OFFSET of each partition of the ledger).

    Call it right after a claim: it ends the open transactions of older runs. Raises TerminalError where nobody can
    tell what is published, otherwise as Kafka's requests do.
    """
    group = dead_letter_group(ledger_id, sink)
    ids = {
        where: transactional_id(ledger_id, sink, topic_id, where.partition)
        for where, (topic_id, _) in positions.items()
    }
    held = settled_offsets(client, group, ids)
    return {where: _published(group, where, *at, held[where]) for where, at in positions.items()}


def forget_published(client: KafkaClient, ledger_id: str, sink: str, positions: Mapping[TopicPartition, int]) -> None:
    """Forget what is published of these partitions: the ledger was reset to `positions`, so records are read again.

    For a sink that does not run. Changes nothing where there were no dead letters. Raises as Kafka's requests do.
    """
    overwrite_offsets(client, dead_letter_group(ledger_id, sink), positions)


def _published(
    group: str, where: TopicPartition, topic_id: str, next_offset: int, held: CommittedOffset | None
) -> PartitionLetters:
    if held is None:
        return PartitionLetters(metadata="")
    try:
        of, offsets = read_list(held.metadata)
    except UnreadableError as error:
        if held.offset > next_offset:
            raise _unreadable(group, where, next_offset, held, error) from None
        return PartitionLetters(held.offset, metadata=held.metadata)
    published = frozenset(offsets[offsets >= next_offset].tolist()) if of == topic_id else frozenset()
    return PartitionLetters(held.offset, published, held.metadata)


def _unreadable(
    group: str, where: TopicPartition, next_offset: int, held: CommittedOffset, error: UnreadableError
) -> TerminalError:
    return TerminalError(
        f"Nobody knows which records of {where} from offset {next_offset} to {held.offset - 1} are dead letters "
        f"already: {error}.",
        where=f"metadata of consumer group {group}, partition {where}",
        next_step=f"Find out who changed the group's offsets. `firn sink offsets <config> --reset {next_offset}` "
        "forgets them: bad records among these become dead letters once more.",
    )
