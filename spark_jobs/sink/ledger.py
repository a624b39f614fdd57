"""What is committed, what this run may write, and where each partition goes on: pure state, apart from its SQL.

Owned by the driver and touched by one thread only, the one that runs foreachBatch. Tasks get a copy of the positions
and never write back. `ledger_table` keeps the same facts in Snowflake; docs/decisions/0001-commit-protocol.md says why.

Three positions of a partition: *planned* (the end of Spark's last planned range), *staged* (a `Move` that is being
committed) and *committed* (NEXT_OFFSET in the ledger: everything below it is in the table or accounted for).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from firn.errors import TerminalError, TransientError


class TopicPartition(NamedTuple):
    """One partition of one topic; prints as Kafka's tools print it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class ClaimAgainError(TransientError):
    """This run's picture of the ledger or of the partitions is out of date: claim again and go on from there."""


class LostPositionError(TerminalError):
    """Kafka no longer holds what the ledger says comes next: going on would lose or double records silently."""


@dataclass(frozen=True)
class Position:
    """A partition's row in the ledger."""

    next_offset: int
    topic_id: str


@dataclass(frozen=True)
class KafkaPartition:
    """A partition as the brokers see it: offsets [earliest, latest) are there to be read."""

    topic_id: str
    earliest: int
    latest: int


@dataclass(frozen=True)
class Move:
    """One partition's step from `start` (the ledger's NEXT_OFFSET) to `end` (the new one)."""

    where: TopicPartition
    start: int
    end: int


@dataclass
class Ledger:
    """The claimed positions of one run. `epoch` is this run's right to write; a higher one in Snowflake ends it."""

    sink: str
    epoch: int
    committed: dict[TopicPartition, int]
    planned: dict[TopicPartition, int] = field(init=False)

    def __post_init__(self) -> None:
        self.planned = dict(self.committed)

    def plan(self, ends: Mapping[TopicPartition, int], stops: Mapping[TopicPartition, int]) -> tuple[Move, ...]:
        """The moves of a batch whose ranges end at `ends`, cut at the first bad offsets in `stops`.

        Raises ClaimAgainError for a partition that is not claimed yet and LostPositionError for a range that
        begins above the committed position.
        """
        unknown = sorted(set(ends) - set(self.committed))
        if unknown:
            raise ClaimAgainError(f"New partitions appeared: {', '.join(map(str, unknown))}.")
        moves = []
        for where, end in sorted(ends.items()):
            start = self.committed[where]
            if self.planned[where] > start:
                raise LostPositionError(
                    f"The range planned for {where} begins at {self.planned[where]}, above the committed {start}.",
                    where=f"sink {self.sink}, epoch {self.epoch}",
                    next_step="Start the sink again: it goes on from the ledger.",
                )
            target = min(end, stops.get(where, end))
            if target > start:
                moves.append(Move(where, start, target))
        return tuple(moves)

    def advance(self, ends: Mapping[TopicPartition, int], moves: tuple[Move, ...]) -> None:
        """Take over moves that Snowflake has committed, and where Spark's next ranges will begin."""
        for move in moves:
            self.committed[move.where] = move.end
        self.planned.update(ends)


def missing_positions(
    rows: Mapping[TopicPartition, Position],
    partitions: Mapping[TopicPartition, KafkaPartition],
    *,
    first_claim: bool,
    first_offset: Literal["earliest", "latest"],
) -> dict[TopicPartition, Position]:
    """The ledger rows that a claim must insert: auto.offset.reset decides at a sink's first claim only.

    Partitions and topics found later start at the earliest offset, or records between two runs would be lost.
    """
    latest = first_claim and first_offset == "latest"
    return {
        where: Position(seen.latest if latest else seen.earliest, seen.topic_id)
        for where, seen in partitions.items()
        if where not in rows
    }


def check_positions(
    sink: str, rows: Mapping[TopicPartition, Position], partitions: Mapping[TopicPartition, KafkaPartition]
) -> None:
    """Refuse to go on where Kafka cannot continue at the ledger's positions: LostPositionError, for all at once."""
    faults = [
        f"  {where}: {fault}"
        for where, row in sorted(rows.items())
        if (seen := partitions.get(where)) and (fault := _fault(row, seen))
    ]
    if faults:
        raise LostPositionError(
            "Kafka cannot continue where the ledger stands:\n" + "\n".join(faults),
            where=f"sink {sink}",
            next_step="Find out what happened to the topic. To accept it, set NEXT_OFFSET (and TOPIC_ID, where it "
            "differs) of these rows of FIRN_OFFSETS with `firn sql`; a lower offset reads records a second time.",
        )


def _fault(row: Position, seen: KafkaPartition) -> str | None:
    if row.topic_id != seen.topic_id:
        return f"the topic was deleted and made again (id {seen.topic_id}, the ledger knows {row.topic_id})"
    if seen.latest < row.next_offset:
        return f"its end is {seen.latest}, below the committed position {row.next_offset}"
    if seen.earliest > row.next_offset:
        return f"offsets {row.next_offset} to {seen.earliest - 1} expired before they were read"
    return None
