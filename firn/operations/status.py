"""A sink's status in figures, beside its verdict: plain values for a probe, a page, a table.

Not for looking (`observe`), nor for the words of a person's table (`figures`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from firn.connector.config import SinkConfig
from firn.errors import FirnError
from firn.ledger.owner import Totals
from firn.operations.health import STARTING_SECONDS, Verdict, Word, judge
from firn.operations.observation import Observation, PartitionLag

FRESH_SECONDS = 120.0
"""Rates that a supervisor measured longer ago say nothing of now: it writes once a minute while records flow."""


@dataclass(frozen=True)
class Status:
    """A sink as a person or a probe wants it. seen: None where Snowflake did not answer.

    tasks_max: as configured. whole: whether Kafka was looked at too, so that there are figures of partitions.
    """

    sink: str
    verdict: Verdict
    at: datetime
    seen: Observation | None = None
    tasks_max: int | None = None
    whole: bool = True

    @classmethod
    def of(cls, config: SinkConfig, seen: Observation | None, fault: FirnError | None = None) -> Status:
        """The status that a look gives, or what is left of one that met a fault."""
        at = seen.at if seen else datetime.now(UTC)
        return cls(config.name, judge(config, seen, fault), at, seen, config.tasks_max, fault is None)

    @property
    def well(self) -> bool:
        """Whether nobody has to look: the state, and no partition whose ledger is past Kafka's end."""
        return self.verdict.well and not any(each.ahead for each in self.partitions)

    @property
    def partitions(self) -> tuple[PartitionLag, ...]:
        """The partitions, where Kafka was looked at."""
        return self.seen.partitions if self.seen else ()

    @property
    def working(self) -> bool:
        """Whether a driver works on it, well or not."""
        return self.verdict.word is Word.RUNNING or (self.verdict.word is Word.STALLED and self._alive)

    @property
    def stats(self) -> Mapping[str, Any]:
        """What the supervisor measured last."""
        return self.seen.record.stats if self.seen and self.seen.record else {}

    @property
    def stats_age(self) -> float | None:
        """Seconds since it did."""
        return self.seen.record.silent_seconds if self.seen and self.seen.record else None

    @property
    def tasks(self) -> int | None:
        """Partitions that are worked on, one Spark task each; None where nobody looked at Kafka."""
        if not self.whole:
            return None
        return sum(each.end_offset is not None for each in self.partitions) if self.working else 0

    @property
    def totals(self) -> Totals:
        """What all runs committed."""
        return self.seen.owner.totals if self.seen and self.seen.owner else Totals()

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
        """A rate that the supervisor measured; 0 where nothing was committed lately, None where nobody measured."""
        if self.stats_age is not None and self.stats_age <= FRESH_SECONDS and name in self.stats:
            return float(self.stats[name])
        last = self.seen.last_commit if self.seen else None
        return 0.0 if last and (self.at - last).total_seconds() > FRESH_SECONDS else None

    @property
    def _alive(self) -> bool:
        owner = self.seen.owner if self.seen else None
        return bool(owner and owner.run_id and owner.silent_seconds < STARTING_SECONDS)

    def row(self) -> dict[str, Any]:
        """Everything as plain values; times in UTC, seconds, records, bytes."""
        seen, record, stats = self.seen, self.seen.record if self.seen else None, self.stats
        lag = seen.lag if seen and self.whole else None
        return {
            "sink": self.sink,
            "state": self.verdict.word.value,
            "well": self.well,
            "since": written(self.verdict.since),
            "why": self.verdict.why,
            "next_step": self.verdict.next_step,
            "wanted": seen.wanted.value if seen else None,
            "wanted_by": record.wanted_by if record else "",
            "tasks": self.tasks,
            "tasks_max": self.tasks_max,
            **asdict(self.totals),
            "error_percent": round(self.error_percent, 3),
            "records_per_second": self.rate("records_per_second"),
            "bytes_per_second": self.rate("bytes_per_second"),
            "batch_seconds": stats.get("batch_seconds"),
            "lag": lag,
            "lag_worst": (self.worst.lag if self.worst else 0) if lag is not None else None,
            "lag_seconds": seen.lag_seconds if seen else None,
            "last_commit": written(seen.last_commit if seen else None),
            "restarts": stats.get("restarts", 0),
            "errors": stats.get("errors", 0),
            "last_error": stats.get("last_error", ""),
            "schema_ids": stats.get("schema_ids", []),
            "epoch": seen.owner.epoch if seen and seen.owner else None,
            "measured_seconds_ago": self.stats_age,
            "supervisor": record.seen_on if record else "",
            "absent_topics": list(seen.absent) if seen else [],
            "partitions": [asdict(each) for each in self.partitions],
        }


def written(time: datetime | None) -> str | None:
    """A time as text, in UTC, to the second."""
    return None if time is None else time.isoformat(timespec="seconds").replace("+00:00", "Z")
