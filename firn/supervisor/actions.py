"""Gives events to a job's state machine, and carries the actions of its transitions out.

Holds what they need: the driver, what is known of the job, the reporter. Not for noticing what happens (`supervisor`).
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from firn.errors import FirnError, TransientError, unexpected
from firn.ledger.control_record import Diagnosis, State
from firn.operations.observation import Observation
from firn.supervisor.desired_state import skip_sentence
from firn.supervisor.detectors import StallDetector
from firn.supervisor.driver import DriverHandle, DriverResult
from firn.supervisor.job import Policy, Result, SupervisedJob
from firn.supervisor.machine import WATCHING, Action, Event, Machine, Phase
from firn.supervisor.poller import Background, Poller
from firn.supervisor.ports import Clock, Publisher
from firn.supervisor.reporter import Reporter
from firn.supervisor.restart_policy import FENCED_SECONDS, WELL_SECONDS, RestartPolicy, exit_event
from firn.supervisor.snapshot import Snapshot
from firn.supervisor.statistics import RollingStatistics

_LOGGED = {
    (Phase.DECIDING, Event.HELD_ELSEWHERE): (logging.INFO, "Another run holds %s and lives: this one watches it."),
    (Phase.WATCHING, Event.HOLDER_GONE): (
        logging.WARNING,
        "The run that held %s gives no sign of life any more: this one takes over.",
    ),
}
"""Level and sentence of what a start by schedule finds. Of a fenced driver the same events say nothing to log."""
log = logging.getLogger(__name__)


class ActionExecutor:
    """One job under supervision. now: seconds of the clock at this step. result: how it ended, None until then.

    start_at: when a waiting job starts. doubt_until: how long a fenced one waits for a look. seen: the newest look.
    failure: the error that ends the job if nothing helps, and whether it is terminal.
    """

    def __init__(
        self,
        job: SupervisedJob,
        policy: Policy,
        publisher: Publisher,
        clock: Clock,
        background: Callable[[], Background],
    ) -> None:
        self.job, self.policy, self.clock = job, policy, clock
        self.now = clock.monotonic()
        self.machine = Machine(Phase.DECIDING if policy.keep_alive else Phase.WAITING)
        self.driver = DriverHandle(job.launch, job.read_result)
        # Apart: that Kafka does not answer a look must not delay that the state is written down.
        self.poller = Poller(job.observer, background(), look=policy.look, idle=policy.idle, ledger=policy.ledger)
        self.reporter = Reporter(job, publisher, background(), clock)
        self.reporter.silent = policy.keep_alive  # until the machine says otherwise
        self.stalls, self.figures = StallDetector(policy.patience, self.now, job.kind), RollingStatistics()
        self._restarts = RestartPolicy(first=policy.backoff_first, longest=policy.backoff_longest, cap=policy.restarts)
        self.start_at, self.doubt_until = self.now, 0.0
        self.seen: Observation | None = None
        self.failure: tuple[FirnError, bool] | None = None
        self.result: Result | None = None
        self._restarting = (0, "")
        self._report: Mapping[str, Any] = {}
        self._restarted, self._errors, self._last_error = 0, 0, ""

    @property
    def actions(self) -> Mapping[Action, Callable[[], None]]:
        """What each action of the machine does."""
        return {
            Action.LAUNCH: self._launch,
            Action.ASK_DRIVER: self._ask_driver,
            Action.TERMINATE_DRIVER: self._terminate_driver,
            Action.KILL_DRIVER: self._kill_driver,
            Action.SCHEDULE_START: self._schedule_start,
            Action.GRANT_FIRST_BATCH: self._grant_first_batch,
            Action.FORGIVE_FAILURES: self._restarts.progressed,
            Action.RESET_PATIENCE: self._reset_patience,
            Action.LOOK_AT_ONCE: self._look_at_once,
            Action.BEGIN_REPORTING: self._begin_reporting,
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

    def handle(self, event: Event, diagnosis: Diagnosis | None = None) -> None:
        """Give an event to the machine, show what has changed, do what it says."""
        phase, actions = self.machine.phase, self.machine.handle(event)
        if actions is None:
            return
        if self.machine.stalled and event is not Event.STALLED:
            diagnosis = None  # what stalls the job says more than another restart
        self._become(self.machine.state, diagnosis)
        if (phase, event) in _LOGGED:
            level, sentence = _LOGGED[phase, event]
            log.log(level, sentence, self.job)
        for action in actions:
            self.actions[action]()

    def _become(self, state: State | None, diagnosis: Diagnosis | None = None) -> None:
        """Take over a state; another one is shown at once."""
        if state is None or (state is self.reporter.diagnosis.state and diagnosis is None):
            return
        if self.reporter.become(replace(diagnosis or self._standing(state), state=state)):
            self.reporter.show(self.snapshot)

    def _standing(self, state: State) -> Diagnosis:
        """What there is to say of a phase by itself."""
        if self.machine.phase in WATCHING and state is State.RUNNING:
            return Diagnosis(state, None, "Another run holds it and lives; this one watches it.")
        if state is State.PAUSED:
            by = self.seen.record.desired_by if self.seen and self.seen.record else ""
            resume = f"{self.job.command('resume')} starts it again."
            return Diagnosis(state, None, f"Paused{f' by {by}' if by else ''}.", resume)
        return Diagnosis(state)

    # The driver

    def hear_driver(self) -> None:
        """Take in what the driver said."""
        self.driver.listen(self.now)
        for event, sentence, data in self.driver.events():
            if event == "started":
                self.driver.claimed = True
                self.handle(Event.CLAIMED)
            elif event == "committed":
                self.figures.committed(self.clock.utc(), data)
                self.poller.expect_change()
                self.handle(Event.COMMITTED)
                self.progressed(self.figures.batch_seconds)
            self.reporter.pass_on(event, sentence, data)

    def progressed(self, batch: float | None = None) -> None:
        """A committed offset moved. Whether that ends a stall, the detector says: nobody may be able to look still."""
        self.stalls.moved(self.now, batch)
        self._restarts.progressed()

    def driver_ended(self, result: DriverResult) -> None:
        """A driver has ended, by itself or on request."""
        self._report = result.report or self._report
        event = exit_event(self.machine.phase, result)
        if event in (Event.CRASHED, Event.FAILED) and result.error:
            self._errors, self._last_error = self._errors + 1, result.error.what
        if result.error:
            self.failure = result.error, result.final
        if event is Event.CRASHED:
            self._restart(result)
        else:
            self.handle(event)

    def _restart(self, result: DriverResult) -> None:
        """Start another driver after a pause, unless they end again and again."""
        idle_for = self.now - self.driver.launched if self.figures.waiting <= 0 else 0.0
        if self.driver.claimed and idle_for >= WELL_SECONDS:
            self._restarts.progressed()
        pause = self._restarts.failed()
        if pause is None:
            error = result.error or TransientError("The driver ends by itself again and again.")
            self.failure = error, False
            self.handle(Event.EXHAUSTED)
            return
        self.start_at, self._restarted = self.now + pause, self._restarted + 1
        what = result.error.what if result.error else "The driver ended by itself."
        sentence = f"{what} It restarts in {pause:.0f} s (start {self.driver.starts + 1})."
        self._restarting = result.code, sentence
        next_step = result.error.next_step if result.error else ""
        self.handle(Event.CRASHED, Diagnosis(State.STARTING, None, sentence, next_step))

    def _launch(self) -> None:
        self.stalls.launched(self.now)
        try:
            self.driver.start(self.now)
        except (FirnError, OSError) as error:
            self.failure = (error, True) if isinstance(error, FirnError) else (unexpected(error), False)
            self.handle(Event.LAUNCH_FAILED)

    def _ask_driver(self) -> None:
        self.driver.ask(self.now)

    def _terminate_driver(self) -> None:
        if (result := self.driver.stop(self.policy.stop)) is not None:
            self.hear_driver()
            self._report = result.report or self._report

    def _kill_driver(self) -> None:
        result = self.driver.stop(0)
        if result is not None and self.failure is not None:
            self.driver_ended(replace(result, code=-signal.SIGKILL, error=self.failure[0]))

    def _schedule_start(self) -> None:
        self.start_at = self.now

    def _grant_first_batch(self) -> None:
        self.stalls.claimed(self.now)

    def _reset_patience(self) -> None:
        self.stalls.rested(self.now)

    def _look_at_once(self) -> None:
        self.doubt_until = self.now + FENCED_SECONDS
        self.poller.look_at_once()

    def _begin_reporting(self) -> None:
        self.reporter.silent = False

    def _leave_reporting(self) -> None:
        self.reporter.silent = True

    # What is emitted

    def _emit_paused(self) -> None:
        self.reporter.emit("paused", f"{self.job.title} is paused.")

    def _emit_resumed(self) -> None:
        self.reporter.emit("resumed", f"{self.job.title} resumes.")

    def _emit_stalled(self) -> None:
        found = self.reporter.diagnosis
        about = {"why": found.reason, "next_step": found.next_step, "lag": self.figures.lag}
        self.reporter.emit("stalled", found.reason, about)

    def _emit_recovered(self) -> None:
        self.reporter.emit("recovered", f"{self.job.title} moves again.", {"lag": self.figures.lag})

    def _emit_restarting(self) -> None:
        code, sentence = self._restarting
        self.reporter.emit("restarting", sentence, {"exit_code": code, "failures": self._restarts.failures})

    def _emit_stopped(self) -> None:
        self.reporter.emit("stopped", self.reporter.diagnosis.reason)

    # How it ends

    def _end(self) -> None:
        self._end_in_order("ended", f"The {self.job.kind} was stopped.")

    def _end_stopped(self) -> None:
        self._end_in_order("stopped", f"The {self.job.kind} is stopped until {self.job.command('resume')}.")

    def _end_in_order(self, kind: Literal["ended", "stopped"], sentence: str) -> None:
        self.reporter.emit_due(self.now, last=True)
        self._become(State.STOPPED, Diagnosis(State.STOPPED, None, sentence))
        self.result = Result(kind, sentence, self._report)

    def _end_skipped(self) -> None:
        self.result = Result("skipped", skip_sentence(self.job, self.seen.record if self.seen else None))

    def _end_failed(self) -> None:
        """With the error that was met; where it is terminal, a person has to act before the next start."""
        error, self.reporter.terminal = self.failure or (TransientError("The driver ended."), False)
        self.reporter.emit_due(self.now, last=True)
        # The next step may speak of the place: "Set it to true".
        where = f" ({error.where})" if error.where and error.where != str(self.job) else ""
        self._become(State.FAILED, Diagnosis(State.FAILED, None, f"{error.what}{where}", error.next_step))
        about = {"why": error.what, "where": error.where, "next_step": error.next_step}
        self.reporter.emit("failed", f"{error.what}{where}", {**about, "terminal": self.reporter.terminal})
        self.result = Result("failed", error.what, self._report, error)

    @property
    def snapshot(self) -> Snapshot:
        """How the job is now."""
        figures, diagnosis = self.figures, self.reporter.diagnosis
        return Snapshot(
            name=self.job.name,
            kind=self.job.kind,
            state=diagnosis.state,
            since=diagnosis.since or self.clock.utc(),
            at=self.clock.utc(),
            reason=diagnosis.reason,
            next_step=diagnosis.next_step,
            attached=self.machine.phase in WATCHING,
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
            lag_limits=(self.policy.lag_records, self.policy.lag_seconds),
        )
