"""Supervises one job: starts its driver, watches its progress, restarts it, follows its desired state, stops it.

Truth is the ledger against Kafka's end offsets, never a process being alive. One thread steps once a second: it turns
what it sees into events, gives them to the state machine (`machine`) and carries its actions out. What may hang is a
background call (`poller`). Everything outside is a port (`ports`), the clock too.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from firn.errors import FirnError, TransientError, unexpected
from firn.ledger.control_record import DesiredState, Diagnosis, State
from firn.operations.observation import Observation
from firn.supervisor.desired_state import LookReader, skip_sentence
from firn.supervisor.detectors import LagDetector, StallDetector
from firn.supervisor.driver import DriverHandle, DriverResult
from firn.supervisor.job import Policy, Result, SupervisedJob
from firn.supervisor.machine import DRIVING, PROGRESSING, WATCHING, Action, Event, Machine, Phase
from firn.supervisor.poller import Background, BackgroundThread, Poller
from firn.supervisor.ports import Clock, Publisher, SystemClock
from firn.supervisor.reporter import Reporter
from firn.supervisor.restart_policy import FENCED_SECONDS, WELL_SECONDS, RestartPolicy, exit_event
from firn.supervisor.snapshot import Snapshot
from firn.supervisor.statistics import RollingStatistics

STEP_SECONDS = 1.0
_LOGGED = {
    Event.HELD_ELSEWHERE: "Another run holds %s and lives.",
    Event.HOLDER_GONE: "The run that held %s gives no sign of life any more.",
}
log = logging.getLogger(__name__)


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
        self._job, self._policy = job, policy
        self._clock = clock or SystemClock()
        self._now = self._clock.monotonic()
        self._machine = Machine(Phase.DECIDING if policy.keep_alive else Phase.WAITING)
        self._driver = DriverHandle(job.launch, job.read_result)
        # Apart: that Kafka does not answer a look must not delay that the state is written down.
        self._poller = Poller(job.observer, background or BackgroundThread(), look=policy.look, idle=policy.idle)
        self._reporter = Reporter(job, publisher, background or BackgroundThread(), self._clock)
        self._reporter.silent = policy.keep_alive  # until the machine says otherwise
        self._looks = LookReader(policy.alive_within)
        self._stalls = StallDetector(policy.patience, self._now, job.kind)
        self._lags = LagDetector(policy.lag_records, policy.lag_seconds)
        self._figures = RollingStatistics()
        self._restarts = RestartPolicy(first=policy.backoff_first, longest=policy.backoff_longest, cap=policy.restarts)
        self._end_requested = self._abort_requested = False
        self._requesting = not policy.keep_alive  # a start by hand sets the desired state first
        self._start_at, self._doubt_until = self._now, 0.0
        self._seen: Observation | None = None
        self._restarting = (0, "")
        self._report: Mapping[str, Any] = {}
        self._failure: tuple[FirnError, bool] | None = None
        self._result: Result | None = None
        self._restarted, self._errors, self._last_error = 0, 0, ""
        self._actions: Mapping[Action, Callable[[], None]] = {
            Action.LAUNCH: self._launch,
            Action.ASK_DRIVER: self._ask_driver,
            Action.TERMINATE_DRIVER: self._terminate_driver,
            Action.KILL_DRIVER: self._kill_driver,
            Action.SCHEDULE_START: self._schedule_start,
            Action.GRANT_FIRST_BATCH: self._grant_first_batch,
            Action.FORGIVE_FAILURES: self._restarts.progressed,
            Action.RESET_PATIENCE: self._reset_patience,
            Action.LOOK_AT_ONCE: self._look_at_once,
            Action.REPORT: self._begin_reporting,
            Action.LEAVE_REPORTING: self._leave_reporting,
            Action.EMIT_PAUSED: self._emit_paused,
            Action.EMIT_RESUMED: self._emit_resumed,
            Action.EMIT_STALLED: self._emit_stalled,
            Action.EMIT_RECOVERED: self._emit_recovered,
            Action.EMIT_RESTARTING: self._emit_restarting,
            Action.EMIT_STOPPED: self._emit_stopped,
            Action.END: self._end,
            Action.END_STOPPED: self._end_stopped,
            Action.END_SKIPPED: self._end_skipped,
            Action.END_FAILED: self._end_failed,
        }

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
            self._reporter.request(DesiredState.RUNNING, self._policy.by)
        try:
            while self._result is None:
                self._step()
                if self._result is None:
                    self._clock.sleep(STEP_SECONDS)
        finally:
            self._driver.stop(self._policy.stop)
        if self._result.kind != "skipped":
            self._reporter.show(self.snapshot)
            self._reporter.report_last(self._clock.monotonic(), lambda: self.snapshot)
        return self._result

    # What happens

    def _step(self) -> None:
        self._now = self._clock.monotonic()
        self._hear_driver()
        for see in (self._see_requests, self._see_driver, self._see_look, self._see_clock, self._see_progress):
            see()
            if self._result is not None:
                return
        self._reporter.emit_due(self._now)
        self._reporter.report(self._now, lambda: self.snapshot)

    def _hear_driver(self) -> None:
        for event, sentence, data in self._driver.events():
            if event == "started":
                self._driver.claimed = True
                self._handle(Event.CLAIMED)
            elif event == "committed":
                self._figures.committed(self._clock.utc(), data)
                self._poller.expect_change()
                self._handle(Event.COMMITTED)
                self._progressed(self._figures.batch_seconds)
            self._reporter.pass_on(event, sentence, data)

    def _see_requests(self) -> None:
        if self._abort_requested:
            self._handle(Event.ABORT_REQUESTED)
        elif self._end_requested:
            self._handle(Event.END_REQUESTED)

    def _see_driver(self) -> None:
        if (result := self._driver.poll(self._now)) is not None:
            self._hear_driver()
            self._driver_ended(result)

    def _see_look(self) -> None:
        """Look if it is time; take in what came back."""
        if self._requesting and self._reporter.requested():
            self._requesting = False
            self._poller.look_at_once()  # a look that began before that may bring an older desired state
        answer = self._poller.poll(self._now, ledger=self._changes_soon)
        if self._machine.phase is Phase.FENCED and self._now >= self._doubt_until:
            self._handle(Event.DOUBT_EXPIRED)
        elif answer is not None:
            self._take_in(*answer)

    def _take_in(self, seen: Observation | FirnError, ledger: bool) -> None:
        fault = seen if isinstance(seen, FirnError) else seen.unseen
        if fault:
            self._stalls.unanswered(fault)
        if isinstance(seen, FirnError):
            return
        self._seen = seen
        if not fault:
            if self._figures.looked(self._now, seen, ledger=ledger):
                self._progressed()
                self._reporter.expect_figures()
            self._stalls.answered(self._now, self._figures.waiting)
        follows = not (self._requesting or self._end_requested or self._abort_requested)
        if ledger and (follows or self._machine.phase is Phase.FENCED):
            event = self._looks.event(self._now, self._machine.phase, seen)
            if event is not None:
                self._handle(event)
        if self._result is None:  # how it ended is shown last; a start that found nothing to do shows nothing
            self._reporter.show(self.snapshot)

    def _see_clock(self) -> None:
        if self._machine.phase is Phase.WAITING and self._now >= self._start_at:
            self._handle(Event.START_DUE)

    def _see_progress(self) -> None:
        """Tell a stall and its end, lag that passes its limit, a driver that hangs."""
        phase, waiting = self._machine.phase, self._figures.waiting
        if phase not in PROGRESSING or (phase is Phase.DECIDING and not self._stalls.blind):
            return
        starting = not (self._driver.claimed or phase is Phase.WATCHING)
        diagnosis = self._stalls.stalled(self._now, waiting, starting=starting, still=self._machine.stalled)
        self._handle(Event.STALLED if diagnosis else Event.RECOVERED, diagnosis)
        for event, sentence, data in self._lags.events(self._figures):
            self._reporter.emit(event, sentence, data)
        silent = self._poller.silent_seconds
        sign = self._now - silent if silent is not None and self._driver.claimed else None
        reason = self._stalls.hung(self._now, self._driver.launched, sign, waiting) if phase in DRIVING else None
        if reason:
            step = f"Look at its log and Spark's: {self._job.command('logs')}."
            self._failure = TransientError(f"{reason} It was killed.", where=str(self._job), next_step=step), False
            self._handle(Event.HUNG)

    def _progressed(self, batch: float | None = None) -> None:
        """A committed offset moved. Whether that ends a stall, the detector says: nobody may be able to look still."""
        self._stalls.moved(self._now, batch)
        self._restarts.progressed()

    def _driver_ended(self, result: DriverResult) -> None:
        self._report = result.report or self._report
        event = exit_event(self._machine.phase, result)
        if event in (Event.CRASHED, Event.FAILED) and result.error:
            self._errors, self._last_error = self._errors + 1, result.error.what
        if result.error:
            self._failure = result.error, result.final
        if event is Event.CRASHED:
            self._restart(result)
        else:
            self._handle(event)

    def _restart(self, result: DriverResult) -> None:
        """Start another driver after a pause, unless they end again and again."""
        idle_for = self._now - self._driver.launched if self._figures.waiting <= 0 else 0.0
        if self._driver.claimed and idle_for >= WELL_SECONDS:
            self._restarts.progressed()
        pause = self._restarts.failed()
        if pause is None:
            error = result.error or TransientError("The driver ends by itself again and again.")
            self._failure = error, False
            self._handle(Event.EXHAUSTED)
            return
        self._start_at, self._restarted = self._now + pause, self._restarted + 1
        what = result.error.what if result.error else "The driver ended by itself."
        sentence = f"{what} It restarts in {pause:.0f} s (start {self._driver.starts + 1})."
        self._restarting = result.code, sentence
        next_step = result.error.next_step if result.error else ""
        self._handle(Event.CRASHED, Diagnosis(State.STARTING, None, sentence, next_step))

    @property
    def _changes_soon(self) -> bool:
        """Whether the next look is to ask the ledger, however short ago it was asked."""
        phase = self._machine.phase
        paused = phase in (Phase.PAUSED, Phase.WATCHING_PAUSED, Phase.PAUSING)
        waits = self._figures.waiting > 0 and not paused  # nothing but a request changes a job that is paused
        uncertain = phase in (Phase.DECIDING, Phase.WAITING, Phase.STARTING, Phase.FENCED)
        return waits or uncertain or self._machine.stalled

    # What follows

    def _handle(self, event: Event, diagnosis: Diagnosis | None = None) -> None:
        """Give an event to the machine, show what has changed, do what it says."""
        actions = self._machine.handle(event)
        if actions is None:
            return
        if self._machine.stalled and event is not Event.STALLED:
            diagnosis = None  # what stalls the job says more than another restart
        self._become(self._machine.state, diagnosis)
        if event in _LOGGED:
            log.warning(_LOGGED[event], self._job)
        for action in actions:
            self._actions[action]()

    def _become(self, state: State | None, diagnosis: Diagnosis | None = None) -> None:
        """Take over a state; another one is shown at once."""
        if state is None or (state is self._reporter.diagnosis.state and diagnosis is None):
            return
        if self._reporter.become(replace(diagnosis or self._standing(state), state=state)):
            self._reporter.show(self.snapshot)

    def _standing(self, state: State) -> Diagnosis:
        """What there is to say of a phase by itself."""
        if self._machine.phase in WATCHING and state is State.RUNNING:
            return Diagnosis(state, None, "Another run holds it and lives; this one watches it.")
        if state is State.PAUSED:
            by = self._seen.record.desired_by if self._seen and self._seen.record else ""
            resume = f"{self._job.command('resume')} starts it again."
            return Diagnosis(state, None, f"Paused{f' by {by}' if by else ''}.", resume)
        return Diagnosis(state)

    def _launch(self) -> None:
        self._stalls.launched(self._now)
        try:
            self._driver.start(self._now)
        except FirnError as error:
            self._failure = error, True
            self._handle(Event.LAUNCH_FAILED)
        except OSError as error:
            self._failure = unexpected(error), False
            self._handle(Event.LAUNCH_FAILED)

    def _ask_driver(self) -> None:
        self._driver.ask(self._now)

    def _terminate_driver(self) -> None:
        if (result := self._driver.stop(self._policy.stop)) is not None:
            self._hear_driver()
            self._report = result.report or self._report

    def _kill_driver(self) -> None:
        result = self._driver.stop(0)
        if result is not None and self._failure is not None:
            self._driver_ended(replace(result, code=-signal.SIGKILL, error=self._failure[0]))

    def _schedule_start(self) -> None:
        self._start_at = self._now

    def _grant_first_batch(self) -> None:
        self._stalls.claimed(self._now)

    def _reset_patience(self) -> None:
        self._stalls.rested(self._now)

    def _look_at_once(self) -> None:
        self._doubt_until = self._now + FENCED_SECONDS
        self._poller.look_at_once()

    def _begin_reporting(self) -> None:
        self._reporter.silent = False

    def _leave_reporting(self) -> None:
        self._reporter.silent = True

    # What is emitted

    def _emit_paused(self) -> None:
        self._reporter.emit("paused", f"{self._job.title} is paused.")

    def _emit_resumed(self) -> None:
        self._reporter.emit("resumed", f"{self._job.title} resumes.")

    def _emit_stalled(self) -> None:
        found = self._reporter.diagnosis
        about = {"why": found.reason, "next_step": found.next_step, "lag": self._figures.lag}
        self._reporter.emit("stalled", found.reason, about)

    def _emit_recovered(self) -> None:
        self._reporter.emit("recovered", f"{self._job.title} moves again.", {"lag": self._figures.lag})

    def _emit_restarting(self) -> None:
        code, sentence = self._restarting
        self._reporter.emit("restarting", sentence, {"exit_code": code, "failures": self._restarts.failures})

    def _emit_stopped(self) -> None:
        self._reporter.emit("stopped", self._reporter.diagnosis.reason)

    # How it ends

    def _end(self) -> None:
        self._end_in_order("ended", f"The {self._job.kind} was stopped.")

    def _end_stopped(self) -> None:
        self._end_in_order("stopped", f"The {self._job.kind} is stopped until {self._job.command('resume')}.")

    def _end_in_order(self, kind: Literal["ended", "stopped"], sentence: str) -> None:
        self._reporter.emit_due(self._now, last=True)
        self._become(State.STOPPED, Diagnosis(State.STOPPED, None, sentence))
        self._result = Result(kind, sentence, self._report)

    def _end_skipped(self) -> None:
        self._result = Result("skipped", skip_sentence(self._job, self._seen.record if self._seen else None))

    def _end_failed(self) -> None:
        """With the error that was met; where it is terminal, a person has to act before the next start."""
        error, self._reporter.terminal = self._failure or (TransientError("The driver ended."), False)
        self._reporter.emit_due(self._now, last=True)
        # The next step may speak of the place: "Set it to true".
        where = f" ({error.where})" if error.where and error.where != str(self._job) else ""
        self._become(State.FAILED, Diagnosis(State.FAILED, None, f"{error.what}{where}", error.next_step))
        about = {"why": error.what, "where": error.where, "next_step": error.next_step}
        self._reporter.emit("failed", f"{error.what}{where}", {**about, "terminal": self._reporter.terminal})
        self._result = Result("failed", error.what, self._report, error)

    @property
    def snapshot(self) -> Snapshot:
        """How the job is now."""
        figures, diagnosis = self._figures, self._reporter.diagnosis
        return Snapshot(
            name=self._job.name,
            state=diagnosis.state,
            since=diagnosis.since or self._clock.utc(),
            at=self._clock.utc(),
            reason=diagnosis.reason,
            next_step=diagnosis.next_step,
            attached=self._machine.phase in WATCHING,
            epoch=figures.epoch,
            tasks=len(figures.partitions),
            totals=figures.totals,
            records_per_second=figures.records_per_second,
            bytes_per_second=figures.bytes_per_second,
            ship_seconds=figures.ship_seconds,
            commit_seconds=figures.commit_seconds,
            last_commit=figures.last_commit,
            lag=figures.lag,
            lag_seconds=figures.lag_seconds,
            partitions=figures.partitions,
            restarts=self._restarted,
            errors=self._errors,
            last_error=self._last_error,
            schema_ids=figures.schema_ids,
            history=figures.history,
            lag_limits=(self._policy.lag_records, self._policy.lag_seconds),
        )
