"""When a sink is stalled, and when its driver is hung: figures and clocks in, words out.

Stalled: records wait and no committed offset moves, or nobody answers who could say. Not for what is done about it
(`supervisor`).
"""

from __future__ import annotations

from dataclasses import dataclass

from firn.errors import FirnError
from firn.plural import counted

STUCK = 3


@dataclass(frozen=True)
class Patience:
    """How long what is normal, in seconds.

    stall: no offset moves though records wait, beyond what the last batch took, or no answer to looks. start: more
    than that for Spark's own start and its first batch.
    flush: fewer than `flush_records` records may wait for company so long (buffer.flush.time, buffer.count.records).
    hang: no sign of life in the ledger from a driver that lives. heartbeat: between two signs of an idle sink; 0: none.
    """

    stall: float = 45.0
    start: float = 60.0
    flush: float = 0.0
    flush_records: int = 0
    hang: float = 600.0
    heartbeat: float = 30.0


@dataclass(frozen=True)
class Words:
    """What is wrong, and the next step."""

    reason: str
    next_step: str


class Judge:
    """Remembers since when something is as it should not be. `now`: seconds of the supervisor's clock."""

    def __init__(self, patience: Patience, now: float) -> None:
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
        """A driver claimed the sink: Spark is up, and its first batch begins. Only the first such claim counts."""
        self._claimed_at = self._claimed_at or now

    def rested(self, now: float) -> None:
        """Nothing was to move (a pause): what waits counts from now."""
        self.moved(now)
        self._answered = now

    def stalled(self, now: float, lag: int, *, starting: bool, still: bool = False) -> Words | None:
        """Why the sink counts as stalled; None while it does not.

        still: it does already, and another start or claim of its driver ends that no more than waiting does.
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
        return Words(
            f"No committed offset has moved for {now - begun:.0f} s, with {waits}.",
            "Look at the sink's log (`firn sink logs`): the driver says there what it is waiting for. If it says "
            "nothing, `firn sink pause` and `resume` start it anew: no record is lost by that.",
        )

    def hung(self, now: float, launched: float, sign: float | None, lag: int) -> str | None:
        """Why a living driver, started at `launched` and last heard of by the ledger at `sign`, hangs; None: it works.

        A driver that gives signs of life and commits nothing may be in a long batch: it has STUCK times as long.
        """
        if self._fault or now - self._answered >= self._patience.stall:
            return None  # nobody can say
        silent, limit = now - max(launched, sign or launched), self._patience.hang
        expected = sign is None or self._patience.heartbeat > 0 or lag > 0
        if expected and silent >= limit:
            return f"The driver gave no sign of life in the ledger for {silent:.0f} s."
        idle = now - max(launched, self._moved, self._waits_since or now)
        if lag > 0 and idle >= STUCK * limit:
            return f"The driver has committed nothing for {idle:.0f} s, with {counted(lag, 'record')} waiting."
        return None

    def _limit(self, lag: int, *, starting: bool) -> float:
        limit = self._patience.stall + self._batch
        if 0 < lag < self._patience.flush_records:
            limit += self._patience.flush
        return limit + (self._patience.start if starting else 0.0)

    def _unseen(self, silent: float) -> Words:
        fault = self._fault
        what = fault.what if fault else "Kafka or Snowflake does not answer."
        where = f" ({fault.where})" if fault and fault.where else ""
        return Words(
            f"How far the sink is cannot be seen for {silent:.0f} s: {what}{where}",
            (fault and fault.next_step) or "Look whether Kafka and Snowflake are up and reachable from here.",
        )
