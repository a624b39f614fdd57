"""Rolling statistics of a job: totals, rates, lag and their history, from looks at the ledger and a driver's events.

Bounded, however long the job runs. Not for what the figures mean (`stall_detector`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from firn.ledger.owner import Totals
from firn.operations.observation import Depth
from firn.supervisor.snapshot import Sample

if TYPE_CHECKING:
    from firn.operations.observation import Observation, PartitionLag

RATE_SECONDS = 60.0
SAMPLES = 720
_SAMPLE_SECONDS = 10.0
_RATE_POINTS = 120
_SCHEMA_IDS = 50


class RollingStatistics:
    """The figures of one job. Times are seconds of the supervisor's clock but where a datetime is named."""

    def __init__(self) -> None:
        self.partitions: tuple[PartitionLag, ...] = ()
        self.epoch = 0
        self._in_ledger = self._ahead = Totals()
        self._known = False
        self.records_per_second = self.bytes_per_second = 0.0
        self.ship_seconds: float | None = None
        self.commit_seconds: float | None = None
        self.last_commit: datetime | None = None
        self.schema_ids: tuple[int, ...] = ()
        self._points: deque[tuple[float, int, int]] = deque(maxlen=_RATE_POINTS)
        self._history: deque[Sample] = deque(maxlen=SAMPLES)
        self._every, self._sampled = _SAMPLE_SECONDS, float("-inf")

    @property
    def lag(self) -> int:
        """Records that wait, in all partitions."""
        return sum(max(0, each.lag or 0) for each in self.partitions)

    @property
    def waiting(self) -> int:
        """Those of them that no open transaction keeps back."""
        return sum(each.waiting for each in self.partitions)

    @property
    def lag_seconds(self) -> float | None:
        """Age of the oldest record that waits; None where none does or it is not known."""
        return max((each.lag_seconds for each in self.partitions if each.lag_seconds is not None), default=None)

    @property
    def batch_seconds(self) -> float:
        """How long the last batch took."""
        return (self.ship_seconds or 0.0) + (self.commit_seconds or 0.0)

    @property
    def history(self) -> tuple[Sample, ...]:
        """The samples, oldest first."""
        return tuple(self._history)

    def looked(self, now: float, seen: Observation) -> bool:
        """Take over a look; whether a committed offset moved since the one before."""
        ledger = seen.depth is Depth.LEDGER
        fresh = ledger or seen.reported
        before = {(each.topic, each.partition): each.next_offset for each in self.partitions}
        self.partitions = tuple(seen.partitions)
        after = {(each.topic, each.partition): each.next_offset for each in self.partitions}
        moved = fresh and any(before[where] not in (None, at) for where, at in after.items() if where in before)
        if moved:
            self.last_commit = seen.at
        if fresh and seen.last_commit is not None:
            self.last_commit = seen.last_commit
        if ledger and seen.owner is not None:
            self._take_totals(seen.owner.epoch, seen.owner.totals)
            self._known = True
        if self._known:
            self._points.append((now, self.totals.records, self.totals.bytes))
        self._rate(now)
        self._sample(now, seen.at)
        return moved

    def committed(self, at: datetime, data: Mapping[str, Any]) -> None:
        """A batch of the driver."""
        self.last_commit = at
        self._ahead += Totals(records=int(data.get("rows", 0)), bytes=int(data.get("bytes", 0)))
        self.ship_seconds, self.commit_seconds = data.get("ship_seconds"), data.get("commit_seconds")
        ids = [*self.schema_ids, *data.get("schema_ids", ())]
        self.schema_ids = tuple(dict.fromkeys(reversed(ids)))[:_SCHEMA_IDS][::-1]

    @property
    def totals(self) -> Totals:
        """What was committed over all runs: by the ledger, and by the driver where it is ahead of that."""
        return self._in_ledger + self._ahead

    def _take_totals(self, epoch: int, totals: Totals) -> None:
        """What the ledger has more than before, the driver said before."""
        said, more = self._ahead, totals.records - self._in_ledger.records
        size = totals.bytes - self._in_ledger.bytes
        self._ahead = Totals(records=max(0, said.records - more), bytes=max(0, said.bytes - size))
        self.epoch, self._in_ledger = epoch, totals

    def _rate(self, now: float) -> None:
        """Over the last minute: from the newest point that is older, or the oldest there is."""
        while len(self._points) > 1 and self._points[1][0] <= now - RATE_SECONDS:
            self._points.popleft()
        if len(self._points) < 2:
            return
        (begun, records, size), (_, latest_records, latest_size) = self._points[0], self._points[-1]
        seconds = max(1.0, now - max(begun, now - RATE_SECONDS))
        self.records_per_second = max(0, latest_records - records) / seconds
        self.bytes_per_second = max(0, latest_size - size) / seconds

    def _sample(self, now: float, at: datetime) -> None:
        if now - self._sampled < self._every:
            return
        self._sampled = now
        if len(self._history) == SAMPLES:  # every other one goes, and from now on they are taken half as often
            self._history = deque(list(self._history)[::2], maxlen=SAMPLES)
            self._every *= 2
        self._history.append(Sample(at, self.lag, self.lag_seconds, self.records_per_second, self.bytes_per_second))
