"""Supervises one sink: starts its driver, watches progress, starts it again, obeys FIRN_SINKS, stops it.

Truth is the ledger against Kafka's end offsets, never a process being alive. One thread steps once a second; what may
hang is an errand in another (`errands`). Everything outside is a Protocol (`seams`), the clock too. Imports neither
Spark nor Prefect.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from firn.errors import FirnError, TransientError
from spark_jobs.supervise.alarms import Alarms
from spark_jobs.supervise.backoff import Backoff
from spark_jobs.supervise.control import State, Wanted
from spark_jobs.supervise.driving import Driving
from spark_jobs.supervise.errands import Errands, Running
from spark_jobs.supervise.gather import Gathering
from spark_jobs.supervise.judge import Judge, Words
from spark_jobs.supervise.lookout import Lookout
from spark_jobs.supervise.meter import Meter
from spark_jobs.supervise.outcome import End, Outcome
from spark_jobs.supervise.policy import Policy
from spark_jobs.supervise.seams import Launching, Noting, Observing, Telling
from spark_jobs.supervise.snapshot import Snapshot
from spark_jobs.supervise.voice import Voice

if TYPE_CHECKING:
    from spark_jobs.supervise.observe import Observation

STEP_SECONDS = 1.0
FENCED_SECONDS = 30.0
"""How long a driver that was fenced is in doubt: by a run that lives, or by a reset."""
log = logging.getLogger(__name__)


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
        self._sink, self._policy, self._clock, self._today = sink, policy, clock, today
        self._wake: Waking = wake or threading.Event()
        errands = errands or Errands()
        now = clock()
        self._driving = Driving(launch, read_end)
        self._lookout = Lookout(observer, errands, look=policy.look, idle=policy.idle)
        self._voice = Voice(sink, notes, telling, errands, today())
        self._judge, self._meter, self._gathering = Judge(policy.patience, now), Meter(), Gathering()
        self._alarms = Alarms(policy.lag_records, policy.lag_seconds)
        self._backoff = Backoff(first=policy.backoff_first, longest=policy.backoff_longest, cap=policy.restarts)
        self._asked, self._abort = False, False
        self._undecided, self._attached, self._paused = policy.keep_alive, False, False
        self._start_at: float | None = None if policy.keep_alive else now
        self._claimed = False  # whether this driver told of its claim
        self._errors, self._last_error = 0, ""
        self._report: Mapping[str, Any] = {}
        self._fenced: tuple[End, float] | None = None
        self._released: float | None = None
        self.snapshot = self._snapshot()

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
        if self._start_at is not None and now >= self._start_at and not self._driving.running:
            self._start(now)
        self._check(now)
        for event, sentence, data in self._gathering.due(now):
            self._voice.event(event, sentence, data)
        self.snapshot = self._snapshot()
        self._voice.note(now, self.snapshot)
        return None

    def _heard(self, now: float, event: str, sentence: str, data: Mapping[str, Any]) -> None:
        """The driver told of something."""
        if event == "started":
            self._claimed = True
            self._judge.claimed(now)
            if self._voice.state is State.STARTING:
                self._become(State.RUNNING)
        elif event == "committed":
            self._meter.committed(self._today(), data)
            self._lookout.stir()
            self._voice.flows()
            self._moved(now)
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
                return Outcome("ended", "The sink was stopped.", self._report)
            return None
        for told in self._driving.heard():
            self._heard(now, *told)
        self._report = end.report or self._report
        return self._ended_as_wished(now, end) if wished else self._ended(now, end)

    def _ended_as_wished(self, now: float, end: End) -> Outcome | None:
        """It was asked to end, and did."""
        if self._asked or self._abort:
            if end.error and not self._abort:
                return Outcome("failed", end.error.what, error=end.error)
            return Outcome("ended", "The sink was stopped.", self._report)
        if self._paused:
            self._rest(now)
        elif self._lookout.wanted is Wanted.RUNNING:
            self._start_at = now
        return None

    def _ended(self, now: float, end: End) -> Outcome | None:
        """It ended by itself."""
        if end.fenced:
            self._fenced = (end, now + FENCED_SECONDS)
            self._lookout.look_now()
            return None
        if end.error:
            self._errors, self._last_error = self._errors + 1, end.error.what
        if end.final and end.error:
            return self._failed(end.error, terminal=True)
        pause = self._backoff.failed()
        if pause is None:
            error = end.error or TransientError("The driver ends by itself again and again.")
            return self._failed(error, terminal=False)
        self._start_at = now + pause
        what = end.error.what if end.error else "The driver ended by itself."
        sentence = f"{what} It is started again in {pause:.0f} s (start {self._driving.starts + 1})."
        if self._voice.state is not State.STALLED:
            self._become(State.STARTING, Words(sentence, end.error.next_step if end.error else ""))
        self._voice.event("restarting", sentence, {"exit_code": end.code, "failures": self._backoff.failures})
        return None

    def _failed(self, error: FirnError, *, terminal: bool) -> Outcome:
        self._voice.terminal = terminal
        self._become(State.FAILED, Words(error.what, error.next_step))
        about = {"why": error.what, "where": error.where, "next_step": error.next_step, "terminal": terminal}
        self._voice.event("failed", error.what, about)
        return Outcome("failed", error.what, self._report, error)

    def _start(self, now: float) -> None:
        self._start_at, self._claimed = None, False
        self._judge.launched(now)
        if self._voice.state is not State.STALLED:
            self._become(State.STARTING, self._voice.words if self._voice.state is State.STARTING else None)
        self._driving.start(now)

    # Looks

    def _look(self, now: float) -> Outcome | None:
        """Look if it is time; take in what came back. Outcome: where there is nothing to supervise (any more)."""
        flows = self._meter.lag > 0 or self._voice.state in (State.STARTING, State.STALLED) or self._undecided
        answer = self._lookout.step(now, flows=flows or self._fenced is not None)
        if self._fenced and now >= self._fenced[1]:
            return self._lost(self._fenced[0], alive=False)
        if answer is None:
            return None
        seen, ledger = answer
        if isinstance(seen, FirnError):
            self._judge.unanswered(seen)
            return None
        if self._meter.looked(now, seen, ledger=ledger):
            self._voice.flows()
            self._moved(now)
        self._judge.answered(now, self._meter.lag)
        if ledger and self._fenced:
            alive = seen.owner is not None and seen.owner.runs(self._policy.alive_within)
            return self._lost(self._fenced[0], alive=alive)
        outcome = self._obey(now, seen) if ledger else None
        self.snapshot = self._snapshot()
        self._voice.show(self.snapshot)
        return outcome

    def _lost(self, end: End, *, alive: bool) -> Outcome | None:
        """The sink was taken away: by a run that lives, whose state it is to tell, or by a reset."""
        self._voice.silent = alive
        return self._failed(end.error, terminal=True) if end.error else None

    def _obey(self, now: float, seen: Observation) -> Outcome | None:
        """Do what FIRN_SINKS wants."""
        if self._asked or self._abort:
            return None
        if self._undecided and (skipped := self._decide(now, seen)):
            return skipped
        if seen.wanted is Wanted.STOPPED:
            self._start_at = None
            if not self._driving.running:
                return Outcome("stopped", "The sink is stopped until `firn sink resume`.", self._report)
            self._driving.ask(now)
        elif seen.wanted is Wanted.PAUSED:
            self._pause(now)
        elif self._paused:
            self._resume(now)
        elif self._attached:
            self._take_over(now, seen)
        return None

    def _decide(self, now: float, seen: Observation) -> Outcome | None:
        """Whether a start by schedule has anything to do."""
        self._undecided = False
        record = seen.record
        if seen.wanted is Wanted.STOPPED:
            by = f" by {record.wanted_by}" if record and record.wanted_by else ""
            return Outcome("skipped", f"Nothing was started: the sink was stopped{by}. `firn sink resume` starts it.")
        if record and record.failed and record.stats.get("terminal"):
            return Outcome(
                "skipped",
                f"Nothing was started: the sink failed and needs a person. {record.why} {record.next_step} "
                "Then `firn sink resume`, or a start by hand.",
            )
        if seen.owner is not None and seen.owner.runs(self._policy.alive_within):
            self._attached = self._voice.silent = True
            self._become(State.RUNNING, Words("Another run holds the sink and lives; this one watches it.", ""))
            log.info("Another run holds sink %s and lives: this one watches it.", self._sink)
        else:
            self._start_at = now
        return None

    def _pause(self, now: float) -> None:
        if self._paused:
            return
        self._paused, self._start_at = True, None
        if self._driving.running:
            self._driving.ask(now)
        else:
            self._rest(now)

    def _rest(self, now: float) -> None:
        """The driver is gone and the sink is paused."""
        self._judge.rested(now)
        self._become(State.PAUSED, Words("It was paused.", "`firn sink resume` starts it again."))
        self._voice.event("paused", f"Sink {self._sink} is paused.")

    def _resume(self, now: float) -> None:
        self._paused = False
        self._backoff.progressed()
        self._judge.rested(now)
        self._voice.event("resumed", f"Sink {self._sink} goes on.")
        if self._attached:
            self._become(State.RUNNING)
        elif not self._driving.running:
            self._become(State.STARTING)
            self._start_at = now

    def _take_over(self, now: float, seen: Observation) -> None:
        """Start a driver once the run that is watched is silent, or ended and nobody claimed since."""
        owner = seen.owner
        if owner is not None and owner.runs(self._policy.alive_within):
            self._released = None
            return
        if self._released is None:
            self._released = now
        if owner is None or owner.run_id or now - self._released >= self._policy.alive_within:
            log.warning("The run that held sink %s gives no sign of life any more: this one takes over.", self._sink)
            self._attached = self._voice.silent = False
            self._judge.rested(now)
            self._become(State.STARTING)
            self._start_at = now

    # What is wrong

    def _check(self, now: float) -> None:
        """Tell of a stall and of its end, kill a driver that hangs, tell of alarms."""
        if self._paused or self._driving.ending or (self._undecided and not self._judge.blind):
            return
        words = self._judge.stalled(now, self._meter.lag, starting=not (self._claimed or self._attached))
        if words and self._voice.state is not State.STALLED:
            self._become(State.STALLED, words)
            about = {"why": words.why, "next_step": words.next_step, "lag": self._meter.lag}
            self._voice.event("stalled", words.why, about)
        elif not words and self._voice.state is State.STALLED:
            self._recovered()
        for event, sentence, data in self._alarms.ring(self._meter):
            self._voice.event(event, sentence, data)
        self._kill_hung(now)

    def _kill_hung(self, now: float) -> None:
        if not self._driving.running:
            return
        sign = now - self._lookout.silent_seconds if self._lookout.silent_seconds is not None else None
        if not self._judge.hung(now, self._driving.launched, sign if self._claimed else None, self._meter.lag):
            return
        log.warning("The driver of sink %s lives and gives no sign of life: it is killed.", self._sink)
        if end := self._driving.stop(0):
            error = TransientError(
                f"The driver gave no sign of life in the ledger for {self._policy.patience.hang:.0f} s and was killed.",
                where=f"sink {self._sink}",
                next_step="Look at its log and Spark's: `firn sink logs`.",
            )
            self._ended(now, replace(end, code=-9, error=error))

    def _moved(self, now: float) -> None:
        """A committed offset moved."""
        self._judge.moved(now)
        self._backoff.progressed()
        if self._voice.state is State.STALLED:
            self._recovered()
        elif self._voice.state is State.STARTING:
            self._become(State.RUNNING)

    def _recovered(self) -> None:
        self._become(State.RUNNING if self._claimed or self._attached else State.STARTING)
        self._voice.event("recovered", f"Sink {self._sink} moves again.", {"lag": self._meter.lag})

    # Telling

    def _become(self, state: State, words: Words | None = None) -> None:
        if self._voice.become(self._today(), state, words):
            self.snapshot = self._snapshot()
            self._voice.show(self.snapshot)

    def _last_words(self, outcome: Outcome) -> None:
        now = self._clock()
        for event, sentence, data in self._gathering.due(now, last=True):
            self._voice.event(event, sentence, data)
        if outcome.kind in ("ended", "stopped"):
            self._become(State.STOPPED, Words(outcome.sentence, ""))
            self._voice.event("stopped", outcome.sentence)
        if outcome.kind == "skipped":
            return
        self.snapshot = self._snapshot()
        self._voice.show(self.snapshot)
        self._voice.last(now, self.snapshot)

    def _snapshot(self) -> Snapshot:
        meter, totals = self._meter, self._meter.totals
        return Snapshot(
            sink=self._sink,
            state=self._voice.state,
            since=self._voice.since,
            at=self._today(),
            why=self._voice.words.why,
            next_step=self._voice.words.next_step,
            attached=self._attached,
            epoch=meter.epoch,
            tasks=len(meter.partitions),
            records=totals.records,
            bytes=totals.bytes,
            batches=totals.batches,
            bad_records=totals.bad_records,
            dead_letters=totals.dead_letters,
            records_per_second=meter.records_per_second,
            bytes_per_second=meter.bytes_per_second,
            ship_seconds=meter.ship_seconds,
            commit_seconds=meter.commit_seconds,
            last_commit=meter.last_commit,
            lag=meter.lag,
            lag_seconds=meter.lag_seconds,
            partitions=meter.partitions,
            restarts=max(0, self._driving.starts - 1),
            errors=self._errors,
            last_error=self._last_error,
            schema_ids=meter.schema_ids,
            history=meter.history,
        )
