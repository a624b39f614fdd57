"""A job's status: its diagnosis and its figures as plain values, for a probe, a page, a table.

Not for looking (`observation`), nor for the lines that a person reads (`status_lines`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from firn.connector.config import SinkConfig
from firn.errors import FirnError
from firn.ledger.control_record import DesiredState, Diagnosis, State
from firn.ledger.owner import Totals
from firn.operations.costs import CostEstimate, estimate, least
from firn.operations.health import STARTING_SECONDS, Pace, diagnose_job, pace_of_sink
from firn.operations.observation import Observation, PartitionLag
from firn.sinks.signs import Rates

FRESH_SECONDS = 120.0
"""Rates that a supervisor measured longer ago say nothing of now: it reports only what changes."""
GOOD_LAG = 1000
"""Fewer records than these may wait, where nobody configured another limit: what the course on this pipeline says."""


@dataclass(frozen=True)
class LagLimits:
    """From where on lag needs attention: so many records, or one that waits for so many seconds (None: for ever)."""

    records: int = GOOD_LAG
    seconds: float | None = None

    @classmethod
    def configured(cls, records: float | None, seconds: float | None) -> LagLimits:
        """The limits at which the supervisor emits `lagging`; None and 0: not configured."""
        return cls(int(records or GOOD_LAG), seconds or None)

    def too_many(self, lag: int) -> bool:
        """Whether so many records may not wait."""
        return lag >= self.records

    def too_old(self, lag_seconds: float | None) -> bool:
        """Whether a record may not wait for so long."""
        return self.seconds is not None and lag_seconds is not None and lag_seconds >= self.seconds


@dataclass(frozen=True)
class Status:
    """A job as a person or a probe wants it. Times are UTC. kind: `sink` or `export`; name: its own.

    complete: whether Snowflake and Kafka both answered, so that lag and tasks are known. active: whether a driver works
    on it. lag, lag_seconds: records that wait in all partitions, and how old the oldest is. tasks: partitions that are
    worked on, one Spark task each; tasks_max: as configured. totals: of all runs. stats: what the supervisor reported
    last, stats_age seconds ago (None: never). absent: topics that neither Kafka nor the ledger knows. config: its own.
    """

    name: str
    diagnosis: Diagnosis
    at: datetime
    complete: bool = True
    active: bool = False
    partitions: Sequence[PartitionLag] = ()
    lag: int | None = None
    lag_seconds: float | None = None
    last_commit: datetime | None = None
    tasks_max: int | None = None
    totals: Totals = field(default_factory=Totals)
    epoch: int | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    stats_age: float | None = None
    supervisor: str = ""
    desired: DesiredState | None = None
    desired_by: str = ""
    absent: Sequence[str] = ()
    kind: str = "sink"
    limits: LagLimits = field(default_factory=LagLimits)
    config: SinkConfig | None = None
    rates: Rates | None = None

    @classmethod
    def of(cls, config: SinkConfig, seen: Observation | None, fault: FirnError | None = None) -> Status:
        """A sink's status, as `of_job`."""
        return cls.of_job(pace_of_sink(config), config.name, seen, fault, tasks_max=config.tasks_max, config=config)

    @classmethod
    def of_job(
        cls,
        pace: Pace,
        name: str,
        seen: Observation | None,
        fault: FirnError | None = None,
        *,
        tasks_max: int | None = None,
        config: SinkConfig | None = None,
    ) -> Status:
        """The status that a look gives, or what is left of one that met a fault. seen: None without Snowflake."""
        diagnosis, kind = diagnose_job(pace, seen, fault), pace.kind
        if seen is None:
            at = datetime.now(UTC)
            return cls(name, diagnosis, at, complete=False, tasks_max=tasks_max, kind=kind, config=config)
        record, owner, complete = seen.record, seen.owner, fault is None
        stats = record.stats if record else {}
        lives = bool(owner and owner.run_id and owner.silent_seconds < STARTING_SECONDS)
        return cls(
            name,
            diagnosis,
            seen.at,
            kind=kind,
            complete=complete,
            active=diagnosis.state is State.RUNNING or (diagnosis.state is State.STALLED and lives),
            partitions=seen.partitions,
            lag=seen.lag if complete else None,
            lag_seconds=seen.lag_seconds,
            last_commit=seen.last_commit,
            tasks_max=tasks_max,
            totals=owner.totals if owner else Totals(),
            epoch=owner.epoch if owner else None,
            stats=stats,
            stats_age=record.silent_seconds if record else None,
            supervisor=record.supervisor if record else "",
            desired=seen.desired,
            desired_by=record.desired_by if record else "",
            absent=seen.absent,
            limits=LagLimits.configured(stats.get("lag_limit_records"), stats.get("lag_limit_seconds")),
            config=config,
            rates=seen.rates,
        )

    @property
    def needs_attention(self) -> bool:
        """Whether a person has to look: at the state, or at a partition whose ledger is past Kafka's end."""
        return self.diagnosis.needs_attention or any(each.ahead for each in self.partitions)

    @property
    def tasks(self) -> int | None:
        """Partitions that are worked on; None where Kafka did not answer."""
        if not self.complete:
            return None
        return sum(each.end_offset is not None for each in self.partitions) if self.active else 0

    @property
    def worst(self) -> PartitionLag | None:
        """The partition with the most records waiting."""
        return max((each for each in self.partitions if each.lag), key=lambda each: each.lag or 0, default=None)

    @property
    def error_percent(self) -> float:
        """Records that were left out as bad, of all."""
        all_records = self.totals.records + self.totals.bad_records
        return 100 * self.totals.bad_records / all_records if all_records else 0.0

    def rate(self, name: str) -> float | None:
        """A rate, by the driver's newest sign, else by its supervisor.

        0 where nothing was committed lately, None where nobody measured.
        """
        if self.rates is not None and self.active:
            return {"records_per_second": self.rates.records, "bytes_per_second": self.rates.bytes}[name]
        if self.stats_age is not None and self.stats_age <= FRESH_SECONDS and name in self.stats:
            return float(self.stats[name])
        last = self.last_commit
        return 0.0 if last and (self.at - last).total_seconds() > FRESH_SECONDS else None

    @property
    def cost(self) -> CostEstimate | None:
        """What a day costs at the rates as they are, or at least where nobody measured them; None without a look."""
        if self.config is None or not self.complete:
            return None
        records, size = self.rate("records_per_second"), self.rate("bytes_per_second")
        if self.active and (records is None or size is None):
            return least(self.config)
        return estimate(self.config, (records or 0.0) if self.active else 0.0, size or 0.0)

    def row(self) -> dict[str, Any]:
        """Everything as plain values; times in UTC, seconds, records, bytes."""
        stats = self.stats
        return {
            self.kind: self.name,
            "state": self.diagnosis.state.word,
            "well": not self.needs_attention,
            "since": iso(self.diagnosis.since),
            "why": self.diagnosis.reason,
            "next_step": self.diagnosis.next_step,
            "wanted": self.desired.value if self.desired else None,
            "wanted_by": self.desired_by,
            "tasks": self.tasks,
            "tasks_max": self.tasks_max,
            **asdict(self.totals),
            "error_percent": round(self.error_percent, 3),
            "records_per_second": self.rate("records_per_second"),
            "bytes_per_second": self.rate("bytes_per_second"),
            "batch_seconds": stats.get("batch_seconds"),
            "credits_per_day": round(self.cost.credits, 4) if self.cost else None,
            "lag": self.lag,
            "lag_worst": (self.worst.lag if self.worst else 0) if self.lag is not None else None,
            "lag_seconds": self.lag_seconds,
            "last_commit": iso(self.last_commit),
            "restarts": stats.get("restarts", 0),
            "errors": stats.get("errors", 0),
            "last_error": stats.get("last_error", ""),
            "schema_ids": stats.get("schema_ids", []),
            "epoch": self.epoch,
            "measured_seconds_ago": self.stats_age,
            "supervisor": self.supervisor,
            "absent_topics": list(self.absent),
            "partitions": [asdict(each) for each in self.partitions],
        }


def iso(time: datetime | None) -> str | None:
    """A time as ISO 8601, in UTC, to the second."""
    return None if time is None else time.isoformat(timespec="seconds").replace("+00:00", "Z")
