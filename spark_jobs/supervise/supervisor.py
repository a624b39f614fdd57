"""Supervises one sink: starts its driver, watches progress, starts it again, obeys FIRN_SINKS, stops it.

Truth is the ledger against Kafka's end offsets, never a process being alive. One thread steps once a second; what may
hang is an errand in another (`errands`). Everything outside is a Protocol (`seams`), the clock too. Imports neither
Spark nor Prefect.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Protocol

from firn.errors import FirnError, TransientError, unexpected
from spark_jobs.supervise.alarms import Alarms
from spark_jobs.supervise.charge import Charge
from spark_jobs.supervise.control import State, Wanted
from spark_jobs.supervise.errands import Errands, Running
from spark_jobs.supervise.gather import Gathering
from spark_jobs.supervise.judge import Words
from spark_jobs.supervise.outcome import End, Outcome
from spark_jobs.supervise.policy import Policy
from spark_jobs.supervise.seams import Launching, Noting, Observing, Telling
from spark_jobs.supervise.snapshot import Snapshot
from spark_jobs.supervise.wishes import Wishes

STEP_SECONDS = 1.0
FENCED_SECONDS = 30.0
"""How long a driver that was fenced is in doubt: by a run that lives, or by a reset."""
WELL_SECONDS = 3600.0
"""A driver that held an idle sink for so long was well, as after a commit: what failed before it counts no more."""


class Waking(Protocol):
    """What `threading.Event` can."""

    def set(self) -> None:
        """Wake who waits."""
        ...

    def wait(self, timeout: float) -> bool:
        """Sleep for so long, or until woken."""
        ...

    def clear(self) -> None:
        """Be asleep again."""
        ...


class Supervisor:
    """One sink's supervision, from `run` to its Outcome. `ask` and `abort` may be called from any thread."""

    def __init__(
        self,
        sink: str,
        policy: Policy,
        *,
        launch: Launching,
        read_end: Callable[[int, Sequence[str]], End],
        observer: Observing,
        notes: Noting,
        telling: Telling,
        errands: Running | None = None,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], datetime] = lambda: datetime.now(UTC),
        wake: Waking | None = None,
    ) -> None:
        self._policy, self._clock, self._today = policy, clock, today
        self._wake: Waking = wake or threading.Event()
        self._charge = charge = Charge(
            sink,
            policy,
            clock(),
            launch=launch,
            read_end=read_end,
            observer=observer,
            notes=notes,
            telling=telling,
            # Apart: that Kafka does not answer a look must not delay that it is written down.
            looking=errands or Errands(),
            writing=errands or Errands(),
            today=today,
        )
        self._driving, self._voice, self._judge, self._meter = charge.driving, charge.voice, charge.judge, charge.meter
        self._wishes = Wishes(charge)
        self._gathering = Gathering()
        self._alarms = Alarms(policy.lag_records, policy.lag_seconds)
        self._asked, self._abort = False, False
        self._wishing = not policy.keep_alive  # a start by hand says first that the sink is to run
        self._fenced: tuple[End, float] | None = None

    @property
    def snapshot(self) -> Snapshot:
        """How the sink stands now."""
        return self._charge.snapshot()

    def ask(self) -> None:
        """Ask for an orderly end: the batch that runs is committed, `run` returns with the driver's report."""
        self._asked = True
        self._wake.set()

    def abort(self) -> None:
        """End now: TERM to the driver, KILL of its group after `policy.stop` seconds."""
        self._abort = True
        self._wake.set()

    def run(self) -> Outcome:
        """Supervise until somebody asks for the end, or the sink fails for good. No driver outlives it."""
        if not self._policy.keep_alive:
            self._voice.want(Wanted.RUNNING, self._policy.by)  # a start by hand clears what was
        try:
            while (outcome := self._step(self._clock())) is None:
                self._wake.wait(STEP_SECONDS)
                self._wake.clear()
        finally:
            self._driving.stop(self._policy.stop)
        self._last_words(outcome)
        return outcome

    # One step

    def _step(self, now: float) -> Outcome | None:
        for told in self._driving.heard():
            self._heard(now, *told)
        outcome = self._drive(now) or self._look(now)
        if outcome is not None:
            return outcome
        if self._charge.start_at is not None and now >= self._charge.start_at and not self._driving.running:
            outcome = self._start(now)
        outcome = outcome or self._check(now)
        for event, sentence, data in self._gathering.due(now):
            self._voice.event(event, sentence, data)
        self._voice.note(now, self._charge.snapshot)
        return outcome

    def _start(self, now: float) -> Outcome | None:
        try:
            self._charge.start(now)
        except FirnError as error:
            return self._charge.failed(error, terminal=True)
        except OSError as error:
            return self._charge.failed(unexpected(error), terminal=False)
        return None

    def _heard(self, now: float, event: str, sentence: str, data: Mapping[str, Any]) -> None:
        """The driver told of something."""
        if event == "started":
            self._charge.has_claimed(now)
        elif event == "committed":
            self._meter.committed(self._today(), data)
            self._charge.lookout.stir()
            self._charge.moved(now, self._meter.batch_seconds)
        if not self._gathering.takes(event, data):
            self._voice.event(event, sentence, data)

    # The driver

    def _drive(self, now: float) -> Outcome | None:
        end = self._driving.stop(self._policy.stop) if self._abort else None
        if self._asked:
            self._driving.ask(now)
        wished = self._driving.ending or self._abort
        end = end or self._driving.poll(now)
        if end is None:
            if (self._asked or self._abort) and not self._driving.running:
                return Outcome("ended", "The sink was stopped.", self._charge.report)
            return None
        for told in self._driving.heard():
            self._heard(now, *told)
        self._charge.report = end.report or self._charge.report
        return self._ended_as_wished(now, end) if wished else self._ended(now, end)

    def _ended_as_wished(self, now: float, end: End) -> Outcome | None:
        """It was asked to end, and did."""
        if self._asked or self._abort:
            if end.error and not self._abort:
                return self._charge.failed(end.error, terminal=end.final)
            return Outcome("ended", "The sink was stopped.", self._charge.report)
        if self._charge.paused:
            self._charge.rest(now)
        elif self._charge.lookout.wanted is Wanted.RUNNING:
            self._charge.start_at = now
        return None

    def _ended(self, now: float, end: End) -> Outcome | None:
        """It ended by itself."""
        if end.fenced:
            self._fenced = (end, now + FENCED_SECONDS)
            self._charge.lookout.look_now()
            return None
        if end.error:
            self._charge.errors, self._charge.last_error = self._charge.errors + 1, end.error.what
        if end.final and end.error:
            return self._charge.failed(end.error, terminal=True)
        if self._charge.claimed and self._meter.lag <= 0 and now - self._driving.launched >= WELL_SECONDS:
            self._charge.backoff.progressed()
        pause = self._charge.backoff.failed()
        if pause is None:
            error = end.error or TransientError("The driver ends by itself again and again.")
            return self._charge.failed(error, terminal=False)
        self._charge.start_at, self._charge.restarts = now + pause, self._charge.restarts + 1
        what = end.error.what if end.error else "The driver ended by itself."
        sentence = f"{what} It is started again in {pause:.0f} s (start {self._driving.starts + 1})."
        if self._voice.state is not State.STALLED:
            self._charge.become(State.STARTING, Words(sentence, end.error.next_step if end.error else ""))
        self._voice.event("restarting", sentence, {"exit_code": end.code, "failures": self._charge.backoff.failures})
        return None

    # Looks

    def _look(self, now: float) -> Outcome | None:
        """Look if it is time; take in what came back. Outcome: where there is nothing to supervise (any more)."""
        if self._wishing and self._voice.wished():
            self._wishing = False
            self._charge.lookout.look_now()  # a look that began before that may bring what was wanted before
        waits = self._meter.lag > 0 and not self._charge.paused  # nothing but a wish changes a sink that is paused
        flows = waits or self._voice.state in (State.STARTING, State.STALLED) or self._wishes.undecided
        answer = self._charge.lookout.step(now, flows=flows or self._fenced is not None)
        if self._fenced and now >= self._fenced[1]:
            return self._lost(self._fenced[0], alive=False)
        if answer is None:
            return None
        seen, ledger = answer
        fault = seen if isinstance(seen, FirnError) else seen.unseen
        if fault:
            self._judge.unanswered(fault)
        if isinstance(seen, FirnError):
            return None
        if not fault:
            if self._meter.looked(now, seen, ledger=ledger):
                self._charge.moved(now)
                self._voice.flows()
            self._judge.answered(now, self._meter.lag)
        if ledger and self._fenced:
            alive = seen.owner is not None and seen.owner.runs(self._policy.alive_within)
            return self._lost(self._fenced[0], alive=alive)
        obeys = ledger and not self._wishing and not (self._asked or self._abort)
        outcome = self._wishes.obey(now, seen) if obeys else None
        if outcome is None:  # what ended is shown by its last words; a start that found nothing to do shows nothing
            self._voice.show(self.snapshot)
        return outcome

    def _lost(self, end: End, *, alive: bool) -> Outcome | None:
        """The sink was taken away: by a run that lives, whose state it is to tell, or by a reset."""
        self._voice.silent = alive
        return self._charge.failed(end.error, terminal=True) if end.error else None

    # What is wrong

    def _check(self, now: float) -> Outcome | None:
        """Tell of a stall and of its end, tell of alarms, kill a driver that hangs."""
        if self._charge.paused or self._driving.ending or (self._wishes.undecided and not self._judge.blind):
            return None
        words = self._judge.stalled(
            now,
            self._meter.lag,
            starting=not (self._charge.claimed or self._charge.attached),
            still=self._voice.state is State.STALLED,
        )
        if words and self._voice.state is not State.STALLED:
            self._charge.stalled(words)
        elif not words and self._voice.state is State.STALLED:
            self._charge.recovered()
        for event, sentence, data in self._alarms.ring(self._meter):
            self._voice.event(event, sentence, data)
        return self._end_hung(now) if self._driving.running else None

    def _end_hung(self, now: float) -> Outcome | None:
        """Kill a driver that lives and does nothing; it is started again like one that died."""
        silent = self._charge.lookout.silent_seconds
        sign = now - silent if silent is not None and self._charge.claimed else None
        why = self._judge.hung(now, self._driving.launched, sign, self._meter.lag)
        end = self._driving.stop(0) if why else None
        if why is None or end is None:
            return None
        error = TransientError(
            f"{why} It was killed.",
            where=f"sink {self._charge.sink}",
            next_step="Look at its log and Spark's: `firn sink logs`.",
        )
        return self._ended(now, replace(end, code=-signal.SIGKILL, error=error))

    # Telling

    def _last_words(self, outcome: Outcome) -> None:
        now = self._clock()
        for event, sentence, data in self._gathering.due(now, last=True):
            self._voice.event(event, sentence, data)
        if outcome.kind in ("ended", "stopped"):
            self._charge.become(State.STOPPED, Words(outcome.sentence, ""))
            self._charge.tell("stopped", outcome.sentence)
        if outcome.kind == "skipped":
            return
        self._voice.show(self.snapshot)
        self._voice.last(now, self._charge.snapshot)
