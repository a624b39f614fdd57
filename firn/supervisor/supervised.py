"""A sink in a supervisor's charge: its driver, what is known of it, its state, and how each changes with the others.

Not for when anything is done (`supervisor`), nor for what people want (`wishes`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from firn.errors import FirnError
from firn.ledger.control_record import State
from firn.supervisor.background import Running
from firn.supervisor.backoff import Backoff
from firn.supervisor.driver import Driving
from firn.supervisor.policy import Policy
from firn.supervisor.poller import Lookout
from firn.supervisor.ports import Launching, Noting, Observing, Telling
from firn.supervisor.publisher import Voice
from firn.supervisor.result import End, Outcome
from firn.supervisor.snapshot import Snapshot
from firn.supervisor.stall_detector import Judge, Words
from firn.supervisor.statistics import Meter


class Charge:
    """One sink. start_at: when a driver is to be started, None: not. claimed: whether the driver told of its claim.

    attached: another run holds the sink and this one watches. paused, paused_by: FIRN_SINKS wants it so, and who does.
    errors, last_error: the driver's ends that were not in order; restarts: starts because of them. report: of the last
    driver that made one.
    """

    def __init__(
        self,
        sink: str,
        policy: Policy,
        now: float,
        *,
        launch: Launching,
        read_end: Callable[[int, Sequence[str]], End],
        observer: Observing,
        notes: Noting,
        telling: Telling,
        looking: Running,
        writing: Running,
        today: Callable[[], datetime],
    ) -> None:
        self.sink, self.policy, self.today = sink, policy, today
        self.driving = Driving(launch, read_end)
        self.lookout = Lookout(observer, looking, look=policy.look, idle=policy.idle)
        self.voice = Voice(sink, notes, telling, writing, today())
        self.voice.silent = policy.keep_alive  # until it is known that there is anything to do (`wishes`)
        self.judge, self.meter = Judge(policy.patience, now), Meter()
        self.backoff = Backoff(first=policy.backoff_first, longest=policy.backoff_longest, cap=policy.restarts)
        self.attached = self.paused = self.claimed = False
        self.paused_by = ""
        self.start_at: float | None = None if policy.keep_alive else now
        self.errors, self.restarts, self.last_error = 0, 0, ""
        self.report: Mapping[str, Any] = {}

    def become(self, state: State, words: Words | None = None) -> None:
        """Take over a state and why it is so; another one is shown at once."""
        if self.voice.become(self.today(), state, words):
            self.voice.show(self.snapshot())

    def start(self, now: float) -> None:
        """Start a driver. Raises what the launcher raises."""
        self.start_at, self.claimed = None, False
        self.judge.launched(now)
        if self.voice.state is not State.STALLED:
            self.become(State.STARTING, self.voice.words if self.voice.state is State.STARTING else None)
        self.driving.start(now)

    def has_claimed(self, now: float) -> None:
        """The driver holds the sink and reads."""
        self.claimed = True
        self.judge.claimed(now)
        if self.voice.state is State.STARTING:
            self.become(State.RUNNING)

    def moved(self, now: float, batch: float | None = None) -> None:
        """A committed offset moved, after so many seconds of `batch`.

        Whether that ends a stall, the judge says: nobody may be able to look still.
        """
        self.judge.moved(now, batch)
        self.backoff.progressed()
        if self.voice.state is State.STARTING:
            self.become(State.RUNNING)

    def stalled(self, words: Words) -> None:
        """Records wait and nothing moves, or nobody can see."""
        self.become(State.STALLED, words)
        about = {"why": words.reason, "next_step": words.next_step, "lag": self.meter.lag}
        self.voice.event("stalled", words.reason, about)

    def recovered(self) -> None:
        """What was stalled is so no more."""
        self.become(State.RUNNING if self.claimed or self.attached else State.STARTING)
        self.voice.event("recovered", f"Sink {self.sink} moves again.", {"lag": self.meter.lag})

    def tell(self, event: str, sentence: str) -> None:
        """Tell of what was done as somebody wanted it: of a run that is watched, its own supervisor does."""
        if not self.attached:
            self.voice.event(event, sentence)

    def rest(self, now: float) -> None:
        """The driver is gone and the sink is paused."""
        self.judge.rested(now)
        by = f" by {self.paused_by}" if self.paused_by else ""
        self.become(State.PAUSED, Words(f"It was paused{by}.", "`firn sink resume` starts it again."))
        self.tell("paused", f"Sink {self.sink} is paused.")

    def failed(self, error: FirnError, *, terminal: bool) -> Outcome:
        """It ends with an error; terminal: a person has to act before it is started again."""
        self.voice.terminal = terminal
        # The next step may speak of it: "Set it to true".
        where = f" ({error.where})" if error.where and error.where != f"sink {self.sink}" else ""
        self.become(State.FAILED, Words(f"{error.what}{where}", error.next_step))
        about = {"why": error.what, "where": error.where, "next_step": error.next_step, "terminal": terminal}
        self.voice.event("failed", f"{error.what}{where}", about)
        return Outcome("failed", error.what, self.report, error)

    def snapshot(self) -> Snapshot:
        """How the sink stands now."""
        meter, totals = self.meter, self.meter.totals
        return Snapshot(
            sink=self.sink,
            state=self.voice.state,
            since=self.voice.since,
            at=self.today(),
            reason=self.voice.words.reason,
            next_step=self.voice.words.next_step,
            attached=self.attached,
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
            restarts=self.restarts,
            errors=self.errors,
            last_error=self.last_error,
            schema_ids=meter.schema_ids,
            history=meter.history,
            lag_limits=(self.policy.lag_records, self.policy.lag_seconds),
        )
