"""What is committed, what this run may write, and where each partition goes on: pure state, apart from its SQL.

`table` keeps the same facts in Snowflake; docs/decisions/0001-commit-protocol.md says why. Not for what a batch does
between these positions, nor for who owns the sink (`owner`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from firn.channels.recorded import RecordedChannel
from firn.errors import ClaimAgainError, FirnError, TerminalError
from firn.kafka.partitions import KafkaPartition, TopicPartition

State = Literal["ok", "recreated", "ahead", "expired"]


class LostPositionError(TerminalError):
    """Nobody can go on where the sink stands: Kafka does not hold what comes next, or a channel lost what came before.

    Going on would lose or double records silently.
    """


@dataclass(frozen=True)
class Position:
    """A partition's row in the ledger. `updated_at` (UTC) is for information; None where no row was read.

    channel: the partition's channel as it was recorded last; None where it never had one.
    """

    next_offset: int
    topic_id: str
    updated_at: datetime | None = field(default=None, compare=False)
    channel: RecordedChannel | None = None


@dataclass(frozen=True)
class Standing:
    """What a task compares itself with once its channels are open: who may write, and where each partition goes on.

    epoch: 0 where the sink has no owner row. generation: of the offset tokens. positions: NEXT_OFFSET by partition.
    """

    epoch: int
    generation: int
    positions: Mapping[TopicPartition, int]


class Move(NamedTuple):
    """One partition's step from `start` (the ledger's NEXT_OFFSET) to `end` (the new one)."""

    where: TopicPartition
    start: int
    end: int


@dataclass
class Ledger:
    """The claimed positions of one run, by partition.

    - *committed*: NEXT_OFFSET in Snowflake. Everything below it is in the table or accounted for. It is never lowered.
    - *in_flight*: the moves of the batches that are read and not committed yet, the oldest first.

    The next batch begins where those in flight end (`positions`). Offsets that are missing inside a range are no fault:
    compaction and transaction markers leave such gaps, and the move passes them. A range that begins elsewhere would
    leave records out or double them.

    `epoch` is this run's right to write; a higher one in Snowflake ends it.

    Ownership: the driver makes one Ledger for each claim and throws it away with the claim. Only the driver's main
    thread calls `add_in_flight` and `advance`. `sink`, `epoch`, `ledger_id` and `generation` never change, so any
    thread may read them. ledger_id: of the table, part of all that the sink names in Kafka and of its channels' names.
    generation: of its offset tokens. channels: the partitions' channels, as the claim recorded them.
    """

    sink: str
    epoch: int
    committed: dict[TopicPartition, int]
    ledger_id: str = ""
    generation: int = 1
    channels: dict[TopicPartition, RecordedChannel] = field(default_factory=dict)
    in_flight: tuple[tuple[Move, ...], ...] = field(default=(), init=False)

    def positions(self) -> dict[TopicPartition, int]:
        """Where each partition's next range begins: behind what is in flight."""
        return self.committed | {move.where: move.end for moves in self.in_flight for move in moves}

    def add_in_flight(self, ranges: Iterable[Move], stops: Mapping[TopicPartition, int]) -> tuple[Move, ...]:
        """Take up the moves of a batch that read `ranges`, cut at `stops`: the first offsets not to be passed.

        A stop is a bad record or an offset from which the partition is planned again. Raises ClaimAgainError for a
        partition that is not claimed yet, and LostPositionError for a range that does not begin at its position.
        """
        read, positions = sorted(ranges), self.positions()
        if unknown := [str(each.where) for each in read if each.where not in positions]:
            raise ClaimAgainError(f"New partitions appeared: {', '.join(unknown)}.")
        for each in read:
            if each.start != positions[each.where]:
                raise LostPositionError(
                    f"The range read of {each.where} begins at {each.start}, and its position is "
                    f"{positions[each.where]}.",
                    where=f"sink {self.sink}, epoch {self.epoch}",
                    next_step="Start the sink again: it continues from the ledger.",
                )
        targets = ((each, min(each.end, stops.get(each.where, each.end))) for each in read)
        moves = tuple(each._replace(end=target) for each, target in targets if target > each.start)
        self.in_flight = (*self.in_flight, moves)
        return moves

    def advance(self, moves: tuple[Move, ...]) -> None:
        """Take over the oldest moves in flight, which are durable.

        Raises FirnError for other moves: positions would drift from Snowflake's.
        """
        if self.in_flight[:1] != (moves,):
            raise FirnError(f"These moves are not in flight: {moves}; in flight are {self.in_flight}.")
        self.committed.update((move.where, move.end) for move in moves)
        self.in_flight = self.in_flight[1:]


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
        where: Position(seen.readable if latest else seen.earliest, seen.topic_id)
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
