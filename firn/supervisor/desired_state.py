"""Which event a look at the ledger and the control table is: what people desire, and who holds the job.

Not for what follows from it (`machine`), nor for where the desired state is kept (`firn.ledger.control`).
"""

from __future__ import annotations

from firn.ledger.control_record import ControlRecord, DesiredState, State
from firn.operations.health import STARTING_SECONDS
from firn.operations.observation import Observation
from firn.supervisor.job import SupervisedJob
from firn.supervisor.machine import WATCHING, Event, Phase

_DESIRED = {
    DesiredState.RUNNING: Event.RUN_DESIRED,
    DesiredState.PAUSED: Event.PAUSE_DESIRED,
    DesiredState.STOPPED: Event.STOP_DESIRED,
}


class LookReader:
    """Reads the looks of one supervision. alive_within: so long after its last sign of life a run counts as alive."""

    def __init__(self, alive_within: float) -> None:
        self._alive_within = alive_within
        self._released: float | None = None

    def event(self, now: float, phase: Phase, seen: Observation) -> Event | None:
        """The event that a look is in a phase; None: it changes nothing."""
        held = seen.owner is not None and seen.owner.runs(self._alive_within)
        if phase is Phase.FENCED:
            return Event.HELD_ELSEWHERE if held else Event.HOLDER_GONE
        if phase is Phase.DECIDING:
            return _first(seen, held=held)
        if phase in WATCHING:
            return self._watching(now, phase, seen, held=held)
        return _DESIRED[seen.desired]

    def _watching(self, now: float, phase: Phase, seen: Observation, *, held: bool) -> Event | None:
        """While the run that holds the job lives, it follows what is desired."""
        if held:
            self._released = None
            return Event.RUN_DESIRED if seen.desired is DesiredState.RUNNING else None
        if seen.desired is not DesiredState.RUNNING or phase is Phase.WATCHING_PAUSED:
            return _DESIRED[seen.desired]
        if self._released is None:
            self._released = now
        # A run that ended in order may be followed by another one of its own supervisor.
        killed = seen.owner is None or bool(seen.owner.run_id)
        return Event.HOLDER_GONE if killed or now - self._released >= self._alive_within else None


def _first(seen: Observation, *, held: bool) -> Event:
    """Whether a start by schedule has anything to do."""
    record = seen.record
    if seen.desired is DesiredState.STOPPED:
        return Event.STOP_DESIRED
    if record and record.failed and record.stats.get("terminal"):
        return Event.FAILURE_STANDS
    if record and record.state is State.STARTING and (record.silent_seconds or 0.0) < STARTING_SECONDS:
        # Its driver has not claimed yet, and would fence this one's, or be fenced by it.
        return Event.STARTED_ELSEWHERE
    return Event.HELD_ELSEWHERE if held else _DESIRED[seen.desired]


def skip_sentence(job: SupervisedJob, record: ControlRecord | None) -> str:
    """Why a start by schedule starts nothing, and what does."""
    if record is None or record.desired is DesiredState.STOPPED:
        by = f" by {record.desired_by}" if record and record.desired_by else ""
        return f"Nothing was started: the {job.kind} was stopped{by}. {job.command('resume')} starts it."
    if record.failed:
        return (
            f"Nothing was started: the {job.kind} failed and needs attention. {record.reason} {record.next_step} "
            f"Then {job.command('resume')}, or a start by hand."
        )
    return f"Nothing was started: {record.supervisor or 'another run'} is starting the {job.kind}."
