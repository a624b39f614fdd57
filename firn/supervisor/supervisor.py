"""Supervises one sink: starts its driver, watches progress, starts it again, obeys FIRN_SINKS, stops it.

Truth is the ledger against Kafka's end offsets, never a process being alive. One thread steps once a second; what may
hang is an errand in another (`errands`). Everything outside is a Protocol (`seams`), the clock too. Imports neither
Spark nor Prefect.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from firn.errors import FirnError, unexpected
from firn.ledger.control_record import DesiredState, State
from firn.supervisor.alarms import Alarms
from firn.supervisor.background import Errands, Running
from firn.supervisor.desired_state import Wishes
from firn.supervisor.event_aggregator import Gathering
from firn.supervisor.policy import Policy
from firn.supervisor.ports import Launching, Noting, Observing, Telling
from firn.supervisor.restart_policy import Endings
from firn.supervisor.result import End, Outcome
from firn.supervisor.snapshot import Snapshot
from firn.supervisor.stall_detector import Words
from firn.supervisor.supervised import Charge

STEP_SECONDS = 1.0


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
        self._endings = Endings(charge)

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
            self._voice.request(DesiredState.RUNNING, self._policy.by)  # a start by hand clears what was
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
        if not wished:
            return self._endings.by_itself(now, end)
        return self._endings.as_wished(now, end, last=self._asked or self._abort, aborted=self._abort)

    # Looks

    def _look(self, now: float) -> Outcome | None:
        """Look if it is time; take in what came back. Outcome: where there is nothing to supervise (any more)."""
        if self._wishing and self._voice.wished():
            self._wishing = False
            self._charge.lookout.look_now()  # a look that began before that may bring what was wanted before
        waits = self._meter.waiting > 0 and not self._charge.paused  # nothing but a wish changes a sink that is paused
        flows = waits or self._voice.state in (State.STARTING, State.STALLED) or self._wishes.undecided
        answer = self._charge.lookout.step(now, flows=flows or self._endings.in_doubt)
        if self._endings.overdue(now):
            return self._endings.lost(alive=False)
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
            self._judge.answered(now, self._meter.waiting)
        if ledger and self._endings.in_doubt:
            return self._endings.lost(alive=bool(seen.owner and seen.owner.runs(self._policy.alive_within)))
        obeys = ledger and not self._wishing and not (self._asked or self._abort)
        outcome = self._wishes.obey(now, seen) if obeys else None
        if outcome is None:  # what ended is shown by its last words; a start that found nothing to do shows nothing
            self._voice.show(self.snapshot)
        return outcome

    # What is wrong

    def _check(self, now: float) -> Outcome | None:
        """Tell of a stall and of its end, tell of alarms, kill a driver that hangs."""
        if self._charge.paused or self._driving.ending or (self._wishes.undecided and not self._judge.blind):
            return None
        words = self._judge.stalled(
            now,
            self._meter.waiting,
            starting=not (self._charge.claimed or self._charge.attached),
            still=self._voice.state is State.STALLED,
        )
        if words and self._voice.state is not State.STALLED:
            self._charge.stalled(words)
        elif not words and self._voice.state is State.STALLED:
            self._charge.recovered()
        for event, sentence, data in self._alarms.ring(self._meter):
            self._voice.event(event, sentence, data)
        return self._endings.of_a_hung_one(now) if self._driving.running else None

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
