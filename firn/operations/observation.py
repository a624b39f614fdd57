"""How a sink stands at one moment, seen from outside: lag by partition, who holds it, its desired state.

Plain values; who looks is `firn.operations.observer`, what follows from them `health` and the supervisor.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from firn.errors import FirnError
from firn.ledger.control_record import ControlRecord, DesiredState
from firn.ledger.owner import Owner
from firn.sinks.signs import Rates


@dataclass(frozen=True)
class PartitionLag:
    """One partition that the sink reads.

    next_offset: the committed position, or where the sink begins. end_offset: after the last record; None where Kafka
    has no such partition, as for lag. lag: records between them that Kafka holds, at most (gaps count); all of a topic
    that was made again. lag_seconds: how old the first of them is; None without lag and where nobody found out.
    blocked: those of the lag that an open transaction keeps back. ahead: the committed position is past Kafka's end.
    state: a word of `offsets.PartitionOffsets`.
    """

    topic: str
    partition: int
    table: str
    next_offset: int | None
    end_offset: int | None
    lag: int | None
    lag_seconds: float | None = None
    ahead: bool = False
    state: str = "ok"
    blocked: int = 0

    @property
    def waiting(self) -> int:
        """Those of the lag that can be read now."""
        return max(0, (self.lag or 0) - self.blocked)


class Depth(IntEnum):
    """What a look asks, each more than the one before."""

    KAFKA = 0  # Kafka alone: offsets, signs of life, reports of tasks
    REQUESTS = 1  # also what is desired, which needs no warehouse while nobody changes it
    LEDGER = 2  # also the ledger and what the supervisor reported


@dataclass(frozen=True)
class Observation:
    """One look. at: when (UTC). absent: topics of the configuration that neither Kafka nor the ledger knows.

    owner: who holds the sink, by the ledger; None before its first claim. It is silent for as long as neither the
    ledger nor Kafka had a sign of it. record: what its supervisor reported last, with the desired state, if anything is
    known. depth: how much of this the look asked for; the rest is older. reported: positions are those
    of the tasks' reports, ahead of the ledger. unseen: why Kafka could not be looked at, so that there are no
    partitions; the desired state is known all the same. rates: as the driver of the owner's epoch said last.
    """

    at: datetime
    partitions: tuple[PartitionLag, ...]
    owner: Owner | None
    desired: DesiredState
    record: ControlRecord | None
    last_commit: datetime | None = None
    absent: tuple[str, ...] = ()
    unseen: FirnError | None = None
    depth: Depth = Depth.LEDGER
    reported: bool = False
    rates: Rates | None = None

    @property
    def lag(self) -> int:
        """Records that wait in all partitions, at most."""
        return sum(each.lag or 0 for each in self.partitions)

    @property
    def waiting(self) -> int:
        """Those of them that can be read now."""
        return sum(each.waiting for each in self.partitions)

    @property
    def lag_seconds(self) -> float | None:
        """How old the oldest record is that waits; None where none waits or nobody found out."""
        return max((each.lag_seconds for each in self.partitions if each.lag_seconds is not None), default=None)
