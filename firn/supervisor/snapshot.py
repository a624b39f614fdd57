"""What a supervisor knows of its sink at one moment: for an artifact, a status, a row of FIRN_SINKS.

Plain values without secrets; bounded, however long the sink has run. Not for how they are found out (`meter`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from firn.ledger.control import State

if TYPE_CHECKING:
    from firn.operations.observation import PartitionLag


@dataclass(frozen=True)
class Sample:
    """One point of the charts. lag in records; lag_seconds: age of the oldest record that waits, None: not known."""

    at: datetime
    lag: int
    lag_seconds: float | None
    records_per_second: float
    bytes_per_second: float


@dataclass(frozen=True)
class Snapshot:
    """One sink now. All times are UTC.

    `since`: when the state began; `why` and `next_step` as in an error.
    attached: another run holds the sink, this one watches it. tasks: partitions that are read, one Spark task each.
    records to dead_letters: totals of all runs, from the ledger. records_per_second and bytes_per_second: over the
    last minute. ship_seconds and commit_seconds: of the last batch; None before the first. last_commit: when an offset
    moved last, by the ledger; None: never. lag: records in all partitions; lag_seconds: the longest.
    errors: the driver's ends that were not in order, `last_error` the newest; restarts: starts because of them.
    schema_ids: the newest that were seen. history: oldest first, thinned where it grew too long.
    """

    sink: str
    state: State
    since: datetime
    at: datetime
    why: str = ""
    next_step: str = ""
    attached: bool = False
    epoch: int = 0
    tasks: int = 0
    records: int = 0
    bytes: int = 0
    batches: int = 0
    bad_records: int = 0
    dead_letters: int = 0
    records_per_second: float = 0.0
    bytes_per_second: float = 0.0
    ship_seconds: float | None = None
    commit_seconds: float | None = None
    last_commit: datetime | None = None
    lag: int = 0
    lag_seconds: float | None = None
    partitions: tuple[PartitionLag, ...] = ()
    restarts: int = 0
    errors: int = 0
    last_error: str = ""
    schema_ids: tuple[int, ...] = ()
    history: tuple[Sample, ...] = ()

    @property
    def batch_seconds(self) -> float | None:
        """How long the last batch took, from the records to the commit."""
        return None if self.ship_seconds is None else self.ship_seconds + (self.commit_seconds or 0.0)
