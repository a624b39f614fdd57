"""What a supervisor knows of its job at one moment: for an artifact, a status, the control table.

Plain values without secrets; bounded, however long the job has run. Not for how they are found out (`statistics`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from firn.ledger.control_record import Diagnosis, State
from firn.ledger.owner import Totals
from firn.operations.observation import PartitionLag
from firn.operations.status import LagLimits, Status


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
    """One job now. All times are UTC.

    kind: the job's noun. `since`: when the state began; `reason` and `next_step` as in an error.
    attached: another run holds the job, this one watches it. tasks: partitions that are read, one Spark task each.
    totals: of all runs, from the ledger. records_per_second and bytes_per_second: over the
    last minute. ship_seconds and commit_seconds: of the last batch; None before the first. last_commit: when an offset
    moved last, by the ledger; None: never. lag: records in all partitions; lag_seconds: the longest.
    errors: the driver's ends that were not in order, `last_error` the newest; restarts: starts because of them.
    schema_ids: the newest that were seen. history: oldest first, thinned where it grew too long.
    lag_limits: records and seconds from which on it counts as lagging; 0: none.
    """

    name: str
    state: State
    since: datetime
    at: datetime
    kind: str = "sink"
    reason: str = ""
    next_step: str = ""
    attached: bool = False
    epoch: int = 0
    tasks: int = 0
    totals: Totals = field(default_factory=Totals)
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
    lag_limits: tuple[float, float] = (0, 0)

    @property
    def batch_seconds(self) -> float | None:
        """How long the last batch took, from the records to the commit."""
        return None if self.ship_seconds is None else self.ship_seconds + (self.commit_seconds or 0.0)

    @property
    def stats(self) -> dict[str, Any]:
        """What FIRN_SINKS keeps of it, as plain values."""
        return {
            "epoch": self.epoch,
            "tasks": self.tasks,
            "lag": self.lag,
            "lag_seconds": self.lag_seconds,
            "lag_limit_records": self.lag_limits[0],
            "lag_limit_seconds": self.lag_limits[1],
            **asdict(self.totals),
            "records_per_second": round(self.records_per_second, 1),
            "bytes_per_second": round(self.bytes_per_second, 1),
            "batch_seconds": self.batch_seconds,
            "last_commit": self.last_commit and self.last_commit.isoformat(timespec="seconds"),
            "restarts": self.restarts,
            "errors": self.errors,
            "last_error": self.last_error,
            "schema_ids": list(self.schema_ids),
        }

    def status(self) -> Status:
        """The snapshot as a status, so that whoever shows either shows the same figures."""
        active = self.state in (State.RUNNING, State.STALLED)
        return Status(
            self.name,
            Diagnosis(self.state, self.since, self.reason, self.next_step),
            self.at,
            active=active,
            partitions=self.partitions,
            lag=self.lag,
            lag_seconds=self.lag_seconds,
            last_commit=self.last_commit,
            totals=self.totals,
            epoch=self.epoch,
            kind=self.kind,
            stats=self.stats,
            stats_age=0.0,
            limits=LagLimits.configured(*self.lag_limits),
        )
