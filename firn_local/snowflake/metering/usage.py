"""Seconds and credits by warehouse and hour, as WAREHOUSE_METERING_HISTORY has them. Not for who used them (`history`).

Sources in Snowflake's documentation: the WAREHOUSE_METERING_HISTORY view; "Understanding compute cost" (cloud services
are billed for what exceeds 10 % of a day's compute).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

from firn_local.snowflake.metering.ingestion import CREDITS_PER_GB, GB

HOUR = 3600.0
CLOUD_SERVICES_ALLOWANCE = 0.1
"""Of a day's compute credits: so many of cloud services are not billed."""
CLOUD_SERVICES_CREDITS = 4.4 / HOUR * 0.05
"""An assumption, about 0.00006 a statement: 50 ms of cloud services at the 4.4 credits an hour that Snowflake listed.
It bills what a statement really takes, and says so only afterwards."""


@dataclass(frozen=True)
class Usage:
    """What was used. seconds: billed ones of warehouses; resumes: how often one was started; ingested: by streaming."""

    seconds: float = 0.0
    compute_credits: float = 0.0
    cloud_services_credits: float = 0.0
    resumes: int = 0
    statements: int = 0
    ingested_bytes: int = 0
    ingested_rows: int = 0

    def __add__(self, other: Usage) -> Usage:
        return self._with(other, 1)

    def __sub__(self, other: Usage) -> Usage:
        return self._with(other, -1)

    def _with(self, other: Usage, sign: int) -> Usage:
        return Usage(*(getattr(self, each.name) + sign * getattr(other, each.name) for each in fields(self)))

    @property
    def ingestion_credits(self) -> float:
        """Of Snowpipe Streaming, for its data."""
        return self.ingested_bytes / GB * CREDITS_PER_GB

    @property
    def billed_credits(self) -> float:
        """Compute, ingestion, and cloud services above their allowance, if this were the whole account's day."""
        compute = self.compute_credits + self.ingestion_credits
        return compute + max(0.0, self.cloud_services_credits - CLOUD_SERVICES_ALLOWANCE * self.compute_credits)


Place = tuple[str, float]
"""The name of a warehouse or of a pipe, and the second at which an hour began."""


class UsageByHour:
    """The usage of each warehouse in each hour, and which of them changed since they were written down."""

    def __init__(self) -> None:
        self._hours: dict[Place, Usage] = {}
        self._changed: set[Place] = set()

    def load(self, warehouse: str, hour: float, usage: Usage) -> None:
        """Take what was written down before."""
        self._hours[warehouse, hour] = usage

    def bill(self, warehouse: str, start: float, end: float, credits_an_hour: float) -> None:
        """A warehouse was billed from `start` until `end`."""
        while start < end:
            hour = start // HOUR * HOUR
            until = min(end, hour + HOUR)
            self.add(warehouse, start, Usage(until - start, (until - start) / HOUR * credits_an_hour))
            start = until

    def add(self, warehouse: str, at: float, usage: Usage) -> None:
        """Something was used at one moment."""
        place = warehouse, at // HOUR * HOUR
        self._hours[place] = self._hours.get(place, Usage()) + usage
        self._changed.add(place)

    def total(self, warehouse: str | None = None) -> Usage:
        """All of one warehouse, or of all."""
        return sum((usage for (name, _), usage in self._hours.items() if warehouse in (None, name)), Usage())

    def changed(self) -> Iterator[tuple[Place, Usage]]:
        """What changed since the last call."""
        places, self._changed = self._changed, set()
        yield from ((place, self._hours[place]) for place in sorted(places))
