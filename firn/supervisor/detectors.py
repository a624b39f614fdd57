"""What is wrong with a job, from its figures: it is stalled, its driver hangs, it lags, its ledger is past Kafka's end.

Stalled: records wait and no committed offset moves, or nobody answers who could say. Not for what is done about it
(`supervisor`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from firn.errors import FirnError
from firn.ledger.control_record import Diagnosis, State
from firn.plural import counted
from firn.supervisor.job import Patience
from firn.supervisor.statistics import RollingStatistics

STUCK = 3
"""A driver that lives and commits nothing hangs after so many times as one that gives no sign of life."""
_CALM = 0.5
"""Of a limit: below that an alarm may begin again."""


class StallDetector:
    """Remembers since when a job is as it should not be. `now`: seconds of the supervisor's clock.

    kind: the job's noun, for sentences.
    """

    def __init__(self, patience: Patience, now: float, kind: str) -> None:
        self._kind = kind
        self._patience = patience
        self._answered = now
        self._fault: FirnError | None = None
        self._waits_since: float | None = None
        self._moved = now
        self._trying_since: float | None = None
        self._claimed_at: float | None = None
        self._batch = 0.0

    @property
    def blind(self) -> bool:
        """Whether the last look met an error."""
        return self._fault is not None

    def answered(self, now: float, lag: int) -> None:
        """A look came back with this lag."""
        self._answered, self._fault = now, None
        if lag <= 0:
            self._waits_since = None
        elif self._waits_since is None:
            self._waits_since = now

    def unanswered(self, fault: FirnError) -> None:
        """A look met an error."""
        self._fault = fault

    def moved(self, now: float, batch: float | None = None) -> None:
        """A committed offset moved. batch: how long that batch took; the next one may take as long."""
        self._moved, self._trying_since, self._claimed_at = now, None, None
        self._batch = self._batch if batch is None else batch

    def launched(self, now: float) -> None:
        """A driver was started; several starts without progress count from the first."""
        self._trying_since = self._trying_since or now

    def claimed(self, now: float) -> None:
        """A driver claimed the job: Spark is up, and its first batch begins. Only the first such claim counts."""
        self._claimed_at = self._claimed_at or now

    def rested(self, now: float) -> None:
        """Nothing was to move (a pause): what waits counts from now."""
        self.moved(now)
        self._answered = now

    def stalled(self, now: float, lag: int, *, starting: bool, still: bool = False) -> Diagnosis | None:
        """Why the job counts as stalled; None while it does not.

        still: it is stalled already, and another start or claim of its driver does not end that.
        """
        silent = now - self._answered
        if silent >= self._patience.stall:
            return self._unseen(silent)
        if self._waits_since is None:
            return None
        begun = max(self._waits_since, self._moved)
        if not still:
            begun = max(begun, self._trying_since or 0.0)
            if self._claimed_at is not None:  # the first batch of a driver is the slowest
                begun = max(begun, self._claimed_at + self._patience.start)
        if now - begun < self._limit(lag, starting=starting and not still):
            return None
        waits = f"{counted(lag, 'record')} waiting" if lag else "records waiting"
        return Diagnosis(
            State.STALLED,
            None,
            f"No committed offset has moved for {now - begun:.0f} s, with {waits}.",
            f"Look at its log (`firn {self._kind} logs`): the driver says there what it waits for. If it says nothing, "
            f"`firn {self._kind} pause` and `resume` restart it; no record is lost.",
        )

    def hung(self, now: float, launched: float, sign: float | None, lag: int) -> str | None:
        """Why a living driver, started at `launched` and last heard of at `sign`, hangs; None: it works.

        Heard of is one whose sign of life or log came, or whose positions moved. A driver that gives signs of life and
        commits nothing may be in a long batch: it has STUCK times as long.
        """
        if self._fault or now - self._answered >= self._patience.stall:
            return None  # nobody can say
        silent, limit = now - max(launched, sign or launched, self._moved), self._patience.hang
        expected = sign is None or self._patience.heartbeat > 0 or lag > 0
        if expected and silent >= limit:
            return f"The driver gave no sign of life for {silent:.0f} s, and wrote nothing."
        idle = now - max(launched, self._moved, self._waits_since or now)
        if lag > 0 and idle >= STUCK * limit:
            return f"The driver has committed nothing for {idle:.0f} s, with {counted(lag, 'record')} waiting."
        return None

    def _limit(self, lag: int, *, starting: bool) -> float:
        limit = self._patience.stall + self._batch
        if 0 < lag < self._patience.flush_records:
            limit += self._patience.flush
        return limit + (self._patience.start if starting else 0.0)

    def _unseen(self, silent: float) -> Diagnosis:
        fault = self._fault
        what = fault.what if fault else "Kafka or Snowflake does not answer."
        where = f" ({fault.where})" if fault and fault.where else ""
        return Diagnosis(
            State.STALLED,
            None,
            f"How far the {self._kind} is cannot be seen for {silent:.0f} s: {what}{where}",
            (fault and fault.next_step) or "Look whether Kafka and Snowflake are up and reachable from here.",
        )


class LagDetector:
    """Events that begin when a figure passes a limit: `lagging`, and `ahead` (the ledger is past Kafka's end).

    Each is emitted once, and again only after the figure has been well below. lag_records, lag_seconds: 0 for none.
    """

    def __init__(self, lag_records: int, lag_seconds: float) -> None:
        self._records, self._seconds = lag_records, lag_seconds
        self._lagging = self._ahead = False

    def events(self, figures: RollingStatistics) -> Iterator[tuple[str, str, dict[str, Any]]]:
        """(event, sentence, data) of each that begins now."""
        lag, seconds = figures.lag, figures.lag_seconds
        share = max(_share(lag, self._records), _share(seconds or 0.0, self._seconds))
        if share >= 1 and not self._lagging:
            oldest = f", the oldest for {seconds:.0f} s" if seconds is not None else ""
            yield "lagging", f"{counted(lag, 'record')} waiting{oldest}.", {"lag": lag, "lag_seconds": seconds}
        self._lagging = share >= (_CALM if self._lagging else 1)
        ahead = [f"{each.topic}-{each.partition}" for each in figures.partitions if each.ahead]
        if ahead and not self._ahead:
            names = ", ".join(ahead)
            yield "ahead", f"The ledger is past Kafka's end: {names}.", {"partitions": ahead}
        self._ahead = bool(ahead)


def _share(figure: float, limit: float) -> float:
    return figure / limit if limit > 0 else 0.0
