"""What a supervisor does about what people want of its sink (FIRN_SINKS), and a start by schedule.

Not for where the wishes are kept (`control`).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from firn.ledger.control_record import DesiredState, State
from firn.operations.health import STARTING_SECONDS
from firn.supervisor.result import Outcome
from firn.supervisor.stall_detector import Words
from firn.supervisor.supervised import Charge

if TYPE_CHECKING:
    from firn.operations.observation import Observation

log = logging.getLogger(__name__)


class Wishes:
    """Obeys, for one sink. undecided: whether a start by schedule has not found out yet if there is anything to do."""

    def __init__(self, charge: Charge) -> None:
        self._charge = charge
        self._released: float | None = None
        self.undecided = charge.policy.keep_alive

    def obey(self, now: float, seen: Observation) -> Outcome | None:
        """Do what is wanted. Outcome: where there is nothing to supervise (any more)."""
        charge = self._charge
        if self.undecided and (skipped := self._decide(now, seen)):
            return skipped
        if charge.attached and seen.desired is not DesiredState.RUNNING and self._held(seen):
            return None  # it is for the run that holds the sink to obey, and neither is so before that has
        if seen.desired is DesiredState.STOPPED:
            charge.start_at = None
            if not charge.driving.running:
                return Outcome("stopped", "The sink is stopped until `firn sink resume`.", charge.report)
            charge.driving.ask(now)
        elif seen.desired is DesiredState.PAUSED:
            self._pause(now, by=seen.record.desired_by if seen.record else "")
        elif charge.paused:
            self._resume(now)
        elif charge.attached:
            self._take_over(now, seen)
        elif not charge.driving.running and charge.start_at is None:
            charge.start_at = now  # it was stopped, and is wanted again before its supervisor had ended
        return None

    def _held(self, seen: Observation) -> bool:
        """Whether a run holds the sink and lives."""
        return seen.owner is not None and seen.owner.runs(self._charge.policy.alive_within)

    def _decide(self, now: float, seen: Observation) -> Outcome | None:
        """Whether a start by schedule has anything to do."""
        charge = self._charge
        self.undecided = False
        record = seen.record
        if seen.desired is DesiredState.STOPPED:
            by = f" by {record.desired_by}" if record and record.desired_by else ""
            return Outcome("skipped", f"Nothing was started: the sink was stopped{by}. `firn sink resume` starts it.")
        if record and record.failed and record.stats.get("terminal"):
            return Outcome(
                "skipped",
                f"Nothing was started: the sink failed and needs a person. {record.reason} {record.next_step} "
                "Then `firn sink resume`, or a start by hand.",
            )
        if record and record.state is State.STARTING and (record.silent_seconds or 0.0) < STARTING_SECONDS:
            # Its driver has not claimed yet, and would fence this one's, or be fenced by it.
            return Outcome(
                "skipped", f"Nothing was started: {record.supervisor or 'another run'} is starting the sink."
            )
        if self._held(seen):
            charge.attached = charge.voice.silent = True
            charge.become(State.RUNNING, Words("Another run holds the sink and lives; this one watches it.", ""))
            log.info("Another run holds sink %s and lives: this one watches it.", charge.sink)
        else:
            charge.voice.silent = False
            charge.start_at = now
        return None

    def _pause(self, now: float, *, by: str) -> None:
        charge = self._charge
        if charge.paused:
            return
        charge.paused_by = by
        charge.paused, charge.start_at = True, None
        if charge.driving.running:
            charge.driving.ask(now)
        else:
            charge.rest(now)

    def _resume(self, now: float) -> None:
        charge = self._charge
        charge.paused = False
        charge.backoff.progressed()
        charge.judge.rested(now)
        charge.tell("resumed", f"Sink {charge.sink} goes on.")
        if charge.attached:
            charge.become(State.RUNNING)
        elif not charge.driving.running:
            charge.become(State.STARTING)
            charge.start_at = now

    def _take_over(self, now: float, seen: Observation) -> None:
        """Start a driver once the run that is watched is silent, or ended and nobody claimed since."""
        charge, owner = self._charge, seen.owner
        if self._held(seen):
            self._released = None
            return
        if self._released is None:
            self._released = now
        if owner is None or owner.run_id or now - self._released >= charge.policy.alive_within:
            log.warning("The run that held sink %s gives no sign of life any more: this one takes over.", charge.sink)
            charge.attached = charge.voice.silent = False
            charge.judge.rested(now)
            charge.become(State.STARTING)
            charge.start_at = now
