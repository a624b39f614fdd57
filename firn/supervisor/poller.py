"""When to look at Kafka, the ledger and FIRN_SINKS: often while records flow, without Snowflake while none do.

Not for what is looked at (`observe`), nor for what follows from it (`supervisor`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn.errors import FirnError
from firn.ledger.control_record import DesiredState
from firn.supervisor.background import Errand, Running
from firn.supervisor.ports import Observing

if TYPE_CHECKING:
    from firn.operations.observation import Observation

_FLOW_LOOKS = 2


class Lookout:
    """Looks of one supervisor, one at a time. look, idle: seconds between two that ask Snowflake, flowing and idle."""

    def __init__(self, observer: Observing, errands: Running, *, look: float, idle: float) -> None:
        self._observer, self._errands = observer, errands
        self._look, self._idle = look, idle
        self._pending: tuple[Errand[Observation], bool] | None = None
        self._looked = self._looked_fully = float("-inf")
        self._stirred = 0
        self._now_please = True
        self.desired = DesiredState.RUNNING
        self.silent_seconds: float | None = None

    def stir(self) -> None:
        """Something was committed: the next looks ask Snowflake too."""
        self._stirred = _FLOW_LOOKS

    def look_now(self) -> None:
        """The next look is now, and asks Snowflake. One that is under way does not count: it may be too old."""
        self._now_please, self._pending = True, None

    def step(self, now: float, *, flows: bool) -> tuple[Observation | FirnError, bool] | None:
        """What a look brought that has come back, and whether it asked the ledger; begins the next if it is time."""
        if self._pending is None and (self._now_please or now - self._looked >= self._look):
            full = self._now_please or flows or self._stirred > 0 or now - self._looked_fully >= self._idle
            self._begin(now, ledger=full)
        if self._pending is None or not self._pending[0].done:
            return None
        (errand, ledger), self._pending = self._pending, None
        answer = errand.result
        if answer is None:
            return None
        if ledger and not isinstance(answer, FirnError):
            self.desired = answer.desired
            self.silent_seconds = answer.owner.silent_seconds if answer.owner else None
        return answer, ledger

    def _begin(self, now: float, *, ledger: bool) -> None:
        self._now_please = False
        self._looked = now
        if ledger:
            self._looked_fully = now
            self._stirred = max(0, self._stirred - 1)
        self._pending = (self._errands(lambda: self._observer.look(ledger=ledger)), ledger)
