"""Supervises one job: starts its driver, watches its progress, restarts it, follows its desired state, stops it.

Truth is the ledger against Kafka's end offsets, never a process being alive. One thread steps once a second: it turns
what it sees into events for the state machine (`machine`), whose actions follow (`actions`). What may hang is a
background call (`poller`). Everything outside is a port (`ports`), the clock too.
"""

from __future__ import annotations

from firn.errors import FirnError, TransientError
from firn.ledger.control_record import DesiredState
from firn.operations.observation import Depth, Observation
from firn.supervisor.actions import ActionExecutor
from firn.supervisor.desired_state import LookReader
from firn.supervisor.detectors import LagDetector
from firn.supervisor.job import Policy, Result, SupervisedJob
from firn.supervisor.machine import CHANGES_SOON, DRIVING, PROGRESSING, Event, Phase
from firn.supervisor.poller import Background, BackgroundThread
from firn.supervisor.ports import Clock, Publisher, SystemClock

STEP_SECONDS = 1.0


class Supervisor:
    """One job's supervision, from `run` to its Result. `ask` and `abort` may be called from any thread."""

    def __init__(
        self,
        job: SupervisedJob,
        policy: Policy,
        publisher: Publisher,
        *,
        clock: Clock | None = None,
        background: Background | None = None,
    ) -> None:
        self._policy = policy
        self._clock = clock or SystemClock()
        self._run = ActionExecutor(job, policy, publisher, self._clock, lambda: background or BackgroundThread())
        self._looks = LookReader(policy.alive_within)
        self._lags = LagDetector(policy.lag_records, policy.lag_seconds)
        self._end_requested = self._abort_requested = False
        self._requesting = not policy.keep_alive  # a start by hand sets the desired state first

    def ask(self) -> None:
        """Ask for an orderly end: the batch that runs is committed, `run` returns with the driver's report."""
        self._end_requested = True
        self._clock.wake()

    def abort(self) -> None:
        """End now: TERM to the driver, KILL of its group after `policy.stop` seconds."""
        self._abort_requested = True
        self._clock.wake()

    def run(self) -> Result:
        """Supervise until somebody asks for the end, or the job fails for good. No driver outlives it."""
        if self._requesting:
            self._run.reporter.request(DesiredState.RUNNING, self._policy.by)
        try:
            while self._run.result is None:
                self._step()
                if self._run.result is None:
                    self._clock.sleep(STEP_SECONDS)
        finally:
            self._run.driver.stop(self._policy.stop)
        if self._run.result.kind != "skipped":
            self._run.reporter.show(self._run.snapshot)
            self._run.reporter.report_last(self._clock.monotonic(), lambda: self._run.snapshot)
        return self._run.result

    # What happens

    def _step(self) -> None:
        self._run.now = self._clock.monotonic()
        self._run.hear_driver()
        for see in (self._see_requests, self._see_driver, self._see_look, self._see_clock, self._see_progress):
            see()
            if self._run.result is not None:
                return
        self._run.reporter.emit_due(self._run.now)
        self._run.reporter.report(self._run.now, lambda: self._run.snapshot)

    def _see_requests(self) -> None:
        if self._abort_requested:
            self._run.handle(Event.ABORT_REQUESTED)
        elif self._end_requested:
            self._run.handle(Event.END_REQUESTED)

    def _see_driver(self) -> None:
        if (result := self._run.driver.poll(self._run.now)) is not None:
            self._run.hear_driver()
            self._run.driver_ended(result)

    def _see_look(self) -> None:
        """Look if it is time; take in what came back."""
        run = self._run
        if self._requesting and run.reporter.requested():
            self._requesting = False
            run.poller.look_at_once()  # a look that began before that may bring an older desired state
        answer = run.poller.poll(run.now, ledger=self._changes_soon)
        if run.machine.phase is Phase.FENCED and run.now >= run.doubt_until:
            run.handle(Event.DOUBT_EXPIRED)
        elif answer is not None:
            self._take_in(answer)

    def _take_in(self, seen: Observation | FirnError) -> None:
        run, fault = self._run, seen if isinstance(seen, FirnError) else seen.unseen
        if fault:
            run.stalls.unanswered(fault)
        if isinstance(seen, FirnError):
            return
        run.seen = seen
        if not fault:
            if run.figures.looked(run.now, seen):
                run.handle(Event.COMMITTED)  # of a driver whose own word did not come
                run.progressed()
            run.stalls.answered(run.now, run.figures.waiting)
        follows = not (self._requesting or self._end_requested or self._abort_requested)
        if seen.depth >= Depth.REQUESTS and (follows or run.machine.phase is Phase.FENCED):
            event = self._looks.event(run.now, run.machine.phase, seen)
            if event is not None:
                run.handle(event)
        if run.result is None:  # how it ended is shown last; a start that found nothing to do shows nothing
            run.reporter.show(run.snapshot)

    def _see_clock(self) -> None:
        if self._run.machine.phase is Phase.WAITING and self._run.now >= self._run.start_at:
            self._run.handle(Event.START_DUE)

    def _see_progress(self) -> None:
        """Notice a stall and its end, lag that passes its limit, a driver that hangs."""
        run, phase = self._run, self._run.machine.phase
        if phase not in PROGRESSING or (phase is Phase.DECIDING and not run.stalls.blind):
            return
        starting = not (run.driver.claimed or phase is Phase.WATCHING)
        diagnosis = run.stalls.stalled(run.now, run.figures.waiting, starting=starting, still=run.machine.stalled)
        run.handle(Event.STALLED if diagnosis else Event.RECOVERED, diagnosis)
        for event, sentence, data in self._lags.events(run.figures):
            run.reporter.emit(event, sentence, data)
        if phase in DRIVING and (reason := self._hung()):
            next_step = f"Look at its log and Spark's: {run.job.command('logs')}."
            error = TransientError(f"{reason} It was killed.", where=str(run.job), next_step=next_step)
            run.failure = error, False
            run.handle(Event.HUNG)

    def _hung(self) -> str | None:
        run, silent = self._run, self._run.poller.silent_seconds
        sign = max(run.now - silent, run.driver.heard) if silent is not None and run.driver.claimed else None
        return run.stalls.hung(run.now, run.driver.launched, sign, run.figures.waiting)

    @property
    def _changes_soon(self) -> bool:
        """Whether the next look is to ask the ledger, however short ago it was asked."""
        phase, stalled = self._run.machine.phase, self._run.machine.stalled
        paused = phase in (Phase.PAUSED, Phase.WATCHING_PAUSED, Phase.PAUSING)
        reported = bool(self._run.seen and self._run.seen.reported)  # positions come from Kafka
        # Nothing but a request changes a job that is paused.
        waits = self._run.figures.waiting > 0 and not paused and not reported
        return waits or stalled or phase in CHANGES_SOON
