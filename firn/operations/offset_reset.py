"""Setting where a sink goes on: what is asked for, the plan that follows from it, and the act.

The ledger is set first, under its lock and with a new epoch, so that no run can write in between; then the published
dead letters of these partitions are forgotten. Not for looking (`offsets`). Times are looked up by ListOffsets of the
Kafka protocol.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeAlias

from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig
from firn.dead_letters.published import forget_published
from firn.errors import FirnError, PrivilegeError, TerminalError
from firn.kafka import cluster
from firn.kafka.client import KafkaClient
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.folding import Fold, FoldedPosition
from firn.ledger.owner import Owner
from firn.ledger.positions import Position, state_of
from firn.ledger.table import LedgerTable
from firn.operations.offsets import PartitionOffsets

COLUMNS = ("topic", "partition", "table", "state", "from", "to", "again", "skipped", "expired")

HeldByTables: TypeAlias = Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]]
"""The offset behind the newest row of each of these partitions, for those that have rows (`TablePositions`)."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORMS = (
    "earliest, latest, table (behind its newest row), an offset (120), a step from where the sink stands (+1, -10), a "
    "time (2026-11-21T10:00:00Z, without a zone UTC) or @<Unix milliseconds>"
)
_NO_OFFSET = {
    "step": "a step needs a position to count from",
    "table": "neither the ledger nor the table says how far it is",
}


@dataclass(frozen=True)
class Target:
    """What --reset asks for. number: the offset, the step, or Unix milliseconds."""

    kind: Literal["earliest", "latest", "table", "offset", "step", "time"]
    number: int = 0

    @property
    def spoken(self) -> str:
        """A time as it was understood; empty for the other kinds."""
        if self.kind != "time":
            return ""
        moment = _EPOCH + timedelta(milliseconds=self.number)
        return f"{moment.isoformat(timespec='milliseconds').replace('+00:00', '')} UTC"


@dataclass(frozen=True)
class Step:
    """One partition of a plan: where it goes on from now on (`to`), and what that means for its records.

    held: up to where the table has it, for who goes on there; None for every other target.
    """

    offsets: PartitionOffsets
    seen: KafkaPartition
    to: int
    held: int | None = None

    @property
    def where(self) -> TopicPartition:
        """The partition."""
        return self.offsets.where

    @property
    def _begun(self) -> Position | None:
        """The ledger's position, where it is one in this very topic."""
        row = self.offsets.committed
        return row if row and state_of(row, self.seen) != "recreated" else None

    @property
    def again(self) -> int:
        """Offsets that were committed and will be read a second time."""
        return max(0, min(self._begun.next_offset, self.seen.latest) - self.to) if self._begun else 0

    @property
    def skipped(self) -> int:
        """Offsets that Kafka holds, that were never committed, and that will not be read."""
        if self.held is not None:
            return 0
        begins = self._begun.next_offset if self._begun else (self.offsets.start or 0)
        return max(0, self.to - max(begins, self.seen.earliest))

    @property
    def beyond(self) -> int:
        """Offsets that the ledger does not count, and that count as loaded from now on: the table has later ones."""
        begins = self._begun.next_offset if self._begun else (self.offsets.start or 0)
        return max(0, self.to - begins) if self.held is not None else 0

    @property
    def expired(self) -> int:
        """Offsets that Kafka dropped before they were read."""
        return max(0, self.seen.earliest - self._begun.next_offset) if self._begun else 0

    def row(self) -> dict[str, Any]:
        """Plain values by the names of `COLUMNS`."""
        found = self.offsets
        begins = found.committed and found.committed.next_offset
        values = (*self.where, found.table, found.state, begins, self.to, self.again, self.skipped, self.expired)
        return dict(zip(COLUMNS, values, strict=True))


def parse_target(text: str) -> Target:
    """What --reset asks for. Raises ValueError, with all forms there are."""
    text = text.strip()
    for word in ("earliest", "latest", "table"):
        if text == word:
            return Target(word)
    if re.fullmatch(r"\d{1,19}", text, re.ASCII):
        return Target("offset", int(text))
    if re.fullmatch(r"[+-]\d{1,19}", text, re.ASCII):
        return Target("step", int(text))
    if re.fullmatch(r"@\d{1,14}", text, re.ASCII):
        return Target("time", int(text[1:]))
    try:
        moment = datetime.fromisoformat(text)
        milliseconds = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is none of: {_FORMS}.") from None
    if milliseconds < 0:
        raise ValueError(f"{text!r} is before 1970, where Kafka's times begin.")
    return Target("time", milliseconds)


def plan(
    chosen: Sequence[PartitionOffsets], target: Target, admin: cluster.KafkaAdmin, held: HeldByTables
) -> list[Step]:
    """Where each of these partitions would go on; those that are gone are left out. held: asked for target table.

    Raises TerminalError where no partition is left, and for targets that Kafka does not hold, all at once: nothing is
    moved to the next best offset without a word.
    """
    there = {each.where: (each, each.seen) for each in chosen if each.seen is not None}
    if not there:
        raise TerminalError(
            "There is no partition to reset.",
            where="Kafka",
            next_step="`firn sink offsets <config>` lists the partitions; create the topic first.",
        )
    times = cluster.offsets(admin, there, target.number) if target.kind == "time" else {}
    rows = held(list(there)) if target.kind == "table" else None
    steps, faults = [], []
    for where, (offsets, seen) in there.items():
        to = _offset(target, offsets, seen, times.get(where, -1), (rows or {}).get(where))
        if to is None:
            faults.append(f"  {where}: {_NO_OFFSET[target.kind]}, and its state is {offsets.state}")
        elif not seen.earliest <= to <= seen.latest:
            faults.append(f"  {where}: {to} is outside of {seen.earliest} to {seen.latest}")
        else:
            steps.append(Step(offsets, seen, to, None if rows is None else rows.get(where, 0)))
    if faults:
        raise TerminalError(
            "Kafka does not hold these targets:\n" + "\n".join(faults),
            where="--reset",
            next_step="Name an offset of the range (its end: only what comes from now on), earliest, latest or a time; "
            "--topic and --partition choose.",
        )
    return steps


def consequences(steps: Sequence[Step]) -> list[str]:
    """What a plan means for the table, in plain sentences."""
    again, skipped = sum(step.again for step in steps), sum(step.skipped for step in steps)
    expired = sum(step.expired for step in steps)
    recreated = sorted({step.where.topic for step in steps if step.offsets.state == "recreated"})
    texts = []
    if beyond := sum(step.beyond for step in steps):
        texts.append(
            f"Offsets that the ledger does not count and the table does: up to {beyond}. What became no row among them "
            "is not looked at again."
        )
    if again:
        texts.append(
            f"Records read again: up to {again}. Their rows stay, so those that were loaded will be in the table TWICE."
        )
    if skipped:
        texts.append(f"Records left out: up to {skipped}. They will NOT be in the table.")
    if expired:
        texts.append(f"Offsets that expired before they were read: {expired}. No reset brings them back.")
    if recreated:
        texts.append(f"Deleted and made again: {', '.join(recreated)}. The rows of the old topic stay in the table.")
    return texts or ["No record is read again and none is left out."]


def reset(
    config: SinkConfig,
    table: LedgerTable,
    connection: SnowflakeConnection,
    client: KafkaClient,
    steps: Sequence[Step],
    within: float,
    *,
    fold: Fold | None = None,
    held: HeldByTables | None = None,
) -> int:
    """Act as planned; returns the new epoch. Only these partitions change, and those whose tokens are ahead.

    within: see `await_stillness`. fold, held: open the sink's channels, and ask its tables, where a streaming run did
    not end in order. Raises SinkRunsError where the sink runs, TerminalError where ledger or tables moved since the
    plan was made; no position is changed then. An error of the last part says that the first is done.
    """
    table.ensure(connection)
    positions = {step.where: Position(step.to, step.seen.topic_id) for step in steps}
    planned = {step.where: step.offsets.committed for step in steps}
    epoch = table.reset(
        connection,
        positions,
        running_within=within,
        expected=planned,
        fold=_confirming(config.name, fold, held, steps) if fold and held else fold,
    )
    # Who goes on behind what the table holds reads nothing again, so what is published stays known.
    again = {step.where: step.to for step in steps if step.held is None}
    _forget(config, client, table.ledger_id(connection), again)
    return epoch


def _confirming(sink: str, fold: Fold, held: HeldByTables, steps: Sequence[Step]) -> Fold:
    """The fold, and then a second look at the tables: rows may have been on their way when the plan was made."""
    planned = {step.where: step.held for step in steps if step.held is not None}

    def folded(
        owner: Owner,
        positions: Mapping[TopicPartition, Position],
        partitions: Mapping[TopicPartition, KafkaPartition],
        *,
        replaced: Collection[TopicPartition] = (),
    ) -> Mapping[TopicPartition, FoldedPosition]:
        found = fold(owner, positions, partitions, replaced=replaced)
        now = held(planned) if planned else {}
        if moved := [str(where) for where, at in planned.items() if now.get(where, 0) != at]:
            raise TerminalError(
                f"Rows of {', '.join(moved)} came into the table since the plan was made. No position was set.",
                where=f"sink {sink}",
                next_step="Run the command again: it shows the new state.",
            )
        return found

    return folded


def _forget(
    config: SinkConfig, client: KafkaClient, ledger_id: str | None, positions: Mapping[TopicPartition, int]
) -> None:
    """Otherwise a bad record that is read again would count as a dead letter that is published already."""
    if ledger_id is None or not positions:
        return
    try:
        forget_published(client, ledger_id, config.name, positions)
    except FirnError as error:
        if isinstance(error, PrivilegeError) and config.errors.dead_letter_topic is None:
            return  # a sink that never wrote letters needs no right to their group
        raise type(error)(
            f"The ledger is reset, but the published dead letters are not forgotten: {error.what} Bad records that are "
            "read again would not become dead letters a second time.",
            where=error.where,
            next_step=f"{error.next_step} Then run the same reset again, before the sink starts.",
        ) from error


def _offset(
    target: Target, offsets: PartitionOffsets, seen: KafkaPartition, by_time: int, held: int | None
) -> int | None:
    """The offset that a target means in one partition, unchecked; None where there is none to count from."""
    row = offsets.committed
    begun = row if row and state_of(row, seen) != "recreated" else None
    match target.kind:
        case "earliest":
            return seen.earliest
        case "latest":
            return seen.readable
        case "time":
            return by_time if by_time >= 0 else seen.readable  # no record of that time or later: what comes is
        case "offset":
            return target.number
        case "step":
            return begun.next_offset + target.number if begun else None
        case "table":
            if row and not begun:
                return None  # its rows are of the old topic
            return max(begun.next_offset, held or 0) if begun else held
