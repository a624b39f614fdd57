"""What is committed, what this run may write, and where each partition goes on: pure state, apart from its SQL.

`ledger_table` keeps the same facts in Snowflake; docs/decisions/0001-commit-protocol.md says why. Not for what a batch
does between these positions (`batch`), nor for who owns the sink (`ledger_owner`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from firn.errors import FirnError, TerminalError, TransientError

State = Literal["ok", "recreated", "ahead", "expired"]


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
    """A partition's row in the ledger. `updated_at` (UTC) is for information; None where no row was read."""

    next_offset: int
    topic_id: str
    updated_at: datetime | None = field(default=None, compare=False)


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
    """The claimed positions of one run, by partition.

    - *committed*: NEXT_OFFSET in Snowflake. Everything below it is in the table or accounted for, so a task skips what
      lies below it, whatever Spark hands out. It is never lowered.
    - *staged*: the moves of the batch that is being committed; empty between two batches.
    - *planned*: the end of Spark's last range. The next range begins here.

    Offsets that are missing inside a range are no fault: compaction and transaction markers leave such gaps, and the
    move passes them. A range that begins above the committed position would leave records out: that is a loss.

    `epoch` is this run's right to write; a higher one in Snowflake ends it.

    Ownership: the driver makes one Ledger for each claim and throws it away with the claim. Only the thread that runs
    foreachBatch calls `plan` and `advance`. `sink` and `epoch` never change, so any thread may read them. Tasks get a
    copy of `committed` and never write back.
    """

    sink: str
    epoch: int
    committed: dict[TopicPartition, int]
    staged: tuple[Move, ...] = field(default=(), init=False)
    planned: dict[TopicPartition, int] = field(init=False)

    def __post_init__(self) -> None:
        self.planned = dict(self.committed)

    def plan(self, ends: Mapping[TopicPartition, int], stops: Mapping[TopicPartition, int]) -> tuple[Move, ...]:
        """Stage the moves of a batch whose ranges end at `ends`, cut at `stops`: the first offsets not to be passed.

        A stop is a bad record or an offset from which the partition is planned anew. Raises ClaimAgainError for a
        partition that is not claimed yet and LostPositionError for a range that begins above the committed position.
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
        self.staged = tuple(moves)
        return self.staged

    def advance(self, ends: Mapping[TopicPartition, int], moves: tuple[Move, ...]) -> None:
        """Take over the staged moves, which Snowflake has committed, and where Spark's next ranges will begin.

        Raises FirnError for other moves than those that were staged: positions would drift from Snowflake's.
        """
        if moves != self.staged:
            raise FirnError(f"These moves were never planned: {moves}; staged are {self.staged}.")
        self.committed.update((move.where, move.end) for move in moves)
        self.planned.update(ends)
        self.staged = ()


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
            next_step="Find out what happened to the topic. To accept it, say where these partitions go on: `firn sink "
            "offsets <config> --reset earliest` (or latest, an offset, a time) shows the plan and asks before it acts. "
            "Records below the committed position that are read again come a second time.",
        )


def state_of(row: Position, seen: KafkaPartition) -> State:
    """Whether Kafka can continue at a position, and if not, why."""
    if row.topic_id != seen.topic_id:
        return "recreated"
    if seen.latest < row.next_offset:
        return "ahead"
    return "expired" if seen.earliest > row.next_offset else "ok"


def _fault(row: Position, seen: KafkaPartition) -> str | None:
    faults: dict[State, str] = {
        "recreated": f"the topic was deleted and made again (id {seen.topic_id}, the ledger knows {row.topic_id})",
        "ahead": f"its end is {seen.latest}, below the committed position {row.next_offset}",
        "expired": f"offsets {row.next_offset} to {seen.earliest - 1} expired before they were read",
    }
    return faults.get(state_of(row, seen))
