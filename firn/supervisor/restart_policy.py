"""What follows a driver's end: nothing, a pause, another start, or the end of the supervision.

A driver ends as somebody wished, by itself, because it hung, or because the sink was taken away from it.
"""

from __future__ import annotations

import signal
from dataclasses import replace

from firn.errors import TransientError
from firn.ledger.control_record import DesiredState, State
from firn.supervisor.result import End, Outcome
from firn.supervisor.stall_detector import Words
from firn.supervisor.supervised import Charge

FENCED_SECONDS = 30.0
"""How long a driver that was fenced is in doubt: by a run that lives, or by a reset."""
WELL_SECONDS = 3600.0
"""A driver that held an idle sink for so long was well, as after a commit: what failed before it counts no more."""


class Endings:
    """The ends of one sink's drivers. Every method's Outcome is None where the supervision goes on."""

    def __init__(self, charge: Charge) -> None:
        self._charge = charge
        self._fenced: tuple[End, float] | None = None

    def as_wished(self, now: float, end: End, *, last: bool, aborted: bool) -> Outcome | None:
        """It was asked to end, and did. last: the supervision is to end too; aborted: at once."""
        if last:
            if end.error and not aborted:
                return self._charge.failed(end.error, terminal=end.final)
            return Outcome("ended", "The sink was stopped.", self._charge.report)
        if self._charge.paused:
            self._charge.rest(now)
        elif self._charge.lookout.desired is DesiredState.RUNNING:
            self._charge.start_at = now
        return None

    def by_itself(self, now: float, end: End) -> Outcome | None:
        """Nobody asked for it."""
        if end.fenced:
            self._fenced = (end, now + FENCED_SECONDS)
            self._charge.lookout.look_now()
            return None
        if end.error:
            self._charge.errors, self._charge.last_error = self._charge.errors + 1, end.error.what
        if end.final and end.error:
            return self._charge.failed(end.error, terminal=True)
        return self._again(now, end)

    def _again(self, now: float, end: End) -> Outcome | None:
        """Start another driver after a pause, unless they end again and again."""
        charge = self._charge
        if charge.claimed and charge.meter.waiting <= 0 and now - charge.driving.launched >= WELL_SECONDS:
            charge.backoff.progressed()
        pause = charge.backoff.failed()
        if pause is None:
            error = end.error or TransientError("The driver ends by itself again and again.")
            return charge.failed(error, terminal=False)
        charge.start_at, charge.restarts = now + pause, charge.restarts + 1
        what = end.error.what if end.error else "The driver ended by itself."
        sentence = f"{what} It is started again in {pause:.0f} s (start {charge.driving.starts + 1})."
        if charge.voice.state is not State.STALLED:
            charge.become(State.STARTING, Words(sentence, end.error.next_step if end.error else ""))
        charge.voice.event("restarting", sentence, {"exit_code": end.code, "failures": charge.backoff.failures})
        return None

    def of_a_hung_one(self, now: float) -> Outcome | None:
        """Kill a driver that lives and does nothing; it is started again like one that died."""
        charge = self._charge
        silent = charge.lookout.silent_seconds
        sign = now - silent if silent is not None and charge.claimed else None
        reason = charge.judge.hung(now, charge.driving.launched, sign, charge.meter.waiting)
        end = charge.driving.stop(0) if reason else None
        if reason is None or end is None:
            return None
        error = TransientError(
            f"{reason} It was killed.",
            where=f"sink {charge.sink}",
            next_step="Look at its log and Spark's: `firn sink logs`.",
        )
        return self.by_itself(now, replace(end, code=-signal.SIGKILL, error=error))

    # The sink was taken away

    @property
    def in_doubt(self) -> bool:
        """Whether the sink was taken away, and a look is to tell by whom."""
        return self._fenced is not None

    def overdue(self, now: float) -> bool:
        """Whether no look could tell."""
        return self._fenced is not None and now >= self._fenced[1]

    def lost(self, *, alive: bool) -> Outcome | None:
        """It was: by a run that lives, whose state it is to tell, or by a reset."""
        self._charge.voice.silent = alive
        error = self._fenced[0].error if self._fenced else None
        return self._charge.failed(error, terminal=True) if error else None
