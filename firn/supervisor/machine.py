"""The state machine of a supervised job: phase x event -> next phase, actions. All of it stands in one table.

Pure: no clock, no thread, no client. `supervisor` turns what it sees into events, and carries the actions out. An event
without a row in a phase changes nothing there. A stall lies over the phases: it does not change what happens next, only
what is reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, auto
from typing import NamedTuple

from firn.ledger.control_record import State


class Phase(StrEnum):
    """Where the supervision of a job stands."""

    DECIDING = auto()  # no driver: a scheduled start waits for its first look at the ledger
    WATCHING = auto()  # no driver: another run holds the job
    WATCHING_PAUSED = auto()  # no driver: that run ended, for the job is paused
    WAITING = auto()  # no driver: one starts when its time has come
    STARTING = auto()  # the driver has not claimed the job yet
    RUNNING = auto()  # the driver has claimed the job
    PAUSING = auto()  # the driver is asked to end; then the job is paused
    STOPPING = auto()  # the driver is asked to end; then the job is stopped
    RESTARTING = auto()  # the driver is asked to end; then another one starts
    ENDING = auto()  # the driver is asked to end; then the supervision ends
    PAUSED = auto()  # no driver
    STOPPED = auto()  # no driver: the next look says whether the job stays stopped
    FENCED = auto()  # no driver: the last one lost the job, and a look says to whom
    ENDED = auto()  # the supervision is over


class Event(StrEnum):
    """What happens to a supervised job."""

    # a look at the ledger and the control table
    RUN_DESIRED = auto()
    PAUSE_DESIRED = auto()
    STOP_DESIRED = auto()
    FAILURE_STANDS = auto()  # it failed for good, and nobody asked for anything since
    STARTED_ELSEWHERE = auto()  # another supervisor is starting it
    HELD_ELSEWHERE = auto()  # another run holds it and lives
    HOLDER_GONE = auto()  # the run that held it is gone
    DOUBT_EXPIRED = auto()  # no look could say who took it away
    # the driver
    START_DUE = auto()
    LAUNCH_FAILED = auto()
    CLAIMED = auto()
    COMMITTED = auto()
    HUNG = auto()
    CRASHED = auto()  # it ended by itself, and a restart may help
    EXHAUSTED = auto()  # it ended by itself once too often
    FAILED = auto()  # it ended by itself, and a restart does not help
    FENCED_OFF = auto()  # it ended, for another run or a reset took the job away
    EXITED = auto()  # it ended on request
    EXITED_WITH_ERROR = auto()  # it ended on request, and not in order
    # progress, as the stall detector sees it
    STALLED = auto()
    RECOVERED = auto()
    # whoever runs the supervisor
    END_REQUESTED = auto()
    ABORT_REQUESTED = auto()


class Action(StrEnum):
    """What the supervisor does on a transition, in the order of the row."""

    LAUNCH = auto()
    ASK_DRIVER = auto()  # for an orderly end
    TERMINATE_DRIVER = auto()
    KILL_DRIVER = auto()
    SCHEDULE_START = auto()  # now
    GRANT_FIRST_BATCH = auto()  # a driver's first batch is its slowest
    FORGIVE_FAILURES = auto()  # the back-off begins again
    RESET_PATIENCE = auto()  # what waited while nothing was to move counts from now
    LOOK_AT_ONCE = auto()
    BEGIN_REPORTING = auto()  # to the control table, from here on
    LEAVE_REPORTING = auto()  # to the run that holds the job
    EMIT_PAUSED = auto()
    EMIT_RESUMED = auto()
    EMIT_STALLED = auto()
    EMIT_RECOVERED = auto()
    EMIT_RESTARTING = auto()
    EMIT_STOPPED = auto()
    END = auto()
    END_STOPPED = auto()
    END_SKIPPED = auto()
    END_FAILED = auto()


class Transition(NamedTuple):
    """Where an event leads, and what is to be done."""

    phase: Phase
    actions: tuple[Action, ...] = ()


P, E, A = Phase, Event, Action
DRIVING = (P.STARTING, P.RUNNING)
LEAVING = (P.PAUSING, P.STOPPING, P.RESTARTING)
WATCHING = (P.WATCHING, P.WATCHING_PAUSED)
DRIVERLESS = (P.DECIDING, P.WAITING, P.PAUSED, P.STOPPED, P.FENCED)
PROGRESSING = (P.DECIDING, P.WATCHING, P.WAITING, *DRIVING)
"""Phases in which offsets should move, or somebody should be able to say why they do not."""
CHANGES_SOON = (P.DECIDING, P.WAITING, P.STARTING, P.STOPPING, P.STOPPED, P.FENCED)
"""Phases that do not last: the next look ends them, or the driver does."""
_SAME = None
_EXITS = (E.EXITED, E.EXITED_WITH_ERROR)

# phases, events, next phase, actions
TABLE: tuple[tuple[tuple[Phase, ...], tuple[Event, ...], Phase | None, tuple[Action, ...]], ...] = (
    # A scheduled start decides whether there is anything to do.
    ((P.DECIDING,), (E.STOP_DESIRED, E.FAILURE_STANDS, E.STARTED_ELSEWHERE), P.ENDED, (A.END_SKIPPED,)),
    ((P.DECIDING,), (E.HELD_ELSEWHERE,), P.WATCHING, ()),
    ((P.DECIDING,), (E.PAUSE_DESIRED,), P.PAUSED, (A.BEGIN_REPORTING, A.RESET_PATIENCE, A.EMIT_PAUSED)),
    ((P.DECIDING,), (E.RUN_DESIRED,), P.WAITING, (A.BEGIN_REPORTING, A.SCHEDULE_START)),
    # Another run holds the job. Its own supervisor reports; this one emits nothing of what that one does.
    ((P.WATCHING,), (E.PAUSE_DESIRED,), P.WATCHING_PAUSED, (A.RESET_PATIENCE,)),
    ((P.WATCHING,), (E.HOLDER_GONE,), P.WAITING, (A.BEGIN_REPORTING, A.RESET_PATIENCE, A.SCHEDULE_START)),
    ((P.WATCHING_PAUSED,), (E.RUN_DESIRED,), P.WATCHING, (A.RESET_PATIENCE,)),
    (WATCHING, (E.STOP_DESIRED,), P.ENDED, (A.END_STOPPED,)),
    (WATCHING, (E.END_REQUESTED, E.ABORT_REQUESTED), P.ENDED, (A.END,)),
    # No driver.
    ((P.WAITING,), (E.START_DUE,), P.STARTING, (A.LAUNCH,)),
    ((P.WAITING, P.STOPPED), (E.PAUSE_DESIRED,), P.PAUSED, (A.RESET_PATIENCE, A.EMIT_PAUSED)),
    ((P.WAITING, P.STOPPED, P.PAUSED), (E.STOP_DESIRED,), P.ENDED, (A.END_STOPPED, A.EMIT_STOPPED)),
    ((P.STOPPED,), (E.RUN_DESIRED,), P.WAITING, (A.SCHEDULE_START,)),
    (
        (P.PAUSED,),
        (E.RUN_DESIRED,),
        P.WAITING,
        (A.FORGIVE_FAILURES, A.RESET_PATIENCE, A.EMIT_RESUMED, A.SCHEDULE_START),
    ),
    ((P.FENCED,), (E.HELD_ELSEWHERE,), P.ENDED, (A.LEAVE_REPORTING, A.END_FAILED)),
    ((P.FENCED,), (E.HOLDER_GONE, E.DOUBT_EXPIRED), P.ENDED, (A.END_FAILED,)),
    (DRIVERLESS, (E.END_REQUESTED, E.ABORT_REQUESTED), P.ENDED, (A.END, A.EMIT_STOPPED)),
    # A driver works.
    ((P.STARTING,), (E.LAUNCH_FAILED,), P.ENDED, (A.END_FAILED,)),
    ((P.STARTING,), (E.COMMITTED,), P.RUNNING, ()),
    (DRIVING, (E.CLAIMED,), P.RUNNING, (A.GRANT_FIRST_BATCH,)),
    (DRIVING, (E.HUNG,), _SAME, (A.KILL_DRIVER,)),
    (DRIVING, (E.CRASHED,), P.WAITING, (A.EMIT_RESTARTING,)),
    (DRIVING, (E.FAILED, E.EXHAUSTED), P.ENDED, (A.END_FAILED,)),
    (DRIVING, (E.FENCED_OFF,), P.FENCED, (A.LOOK_AT_ONCE,)),
    (DRIVING, (E.PAUSE_DESIRED,), P.PAUSING, (A.ASK_DRIVER,)),
    (DRIVING, (E.STOP_DESIRED,), P.STOPPING, (A.ASK_DRIVER,)),
    # A driver is asked to end; what is desired may change until it has.
    ((P.PAUSING,), (E.RUN_DESIRED,), P.RESTARTING, (A.FORGIVE_FAILURES, A.RESET_PATIENCE, A.EMIT_RESUMED)),
    ((P.STOPPING,), (E.RUN_DESIRED,), P.RESTARTING, ()),
    ((P.STOPPING, P.RESTARTING), (E.PAUSE_DESIRED,), P.PAUSING, ()),
    ((P.PAUSING, P.RESTARTING), (E.STOP_DESIRED,), P.STOPPING, ()),
    ((P.PAUSING,), _EXITS, P.PAUSED, (A.RESET_PATIENCE, A.EMIT_PAUSED)),
    ((P.STOPPING,), _EXITS, P.STOPPED, ()),
    ((P.RESTARTING,), _EXITS, P.WAITING, (A.SCHEDULE_START,)),
    ((*DRIVING, *LEAVING), (E.END_REQUESTED,), P.ENDING, (A.ASK_DRIVER,)),
    ((P.ENDING,), (E.EXITED,), P.ENDED, (A.END, A.EMIT_STOPPED)),
    ((P.ENDING,), (E.EXITED_WITH_ERROR,), P.ENDED, (A.END_FAILED,)),
    (
        (*DRIVING, *LEAVING, P.ENDING),
        (E.ABORT_REQUESTED,),
        P.ENDED,
        (A.TERMINATE_DRIVER, A.END, A.EMIT_STOPPED),
    ),
    # Progress.
    (PROGRESSING, (E.STALLED,), _SAME, (A.EMIT_STALLED,)),
    (PROGRESSING, (E.RECOVERED,), _SAME, (A.EMIT_RECOVERED,)),
)
TRANSITIONS: Mapping[tuple[Phase, Event], Transition] = {
    (phase, event): Transition(following or phase, actions)
    for phases, events, following, actions in TABLE
    for phase in phases
    for event in events
}

REPORTED: Mapping[Phase, State] = {
    P.DECIDING: State.STARTING,
    P.WATCHING: State.RUNNING,
    P.WATCHING_PAUSED: State.PAUSED,
    P.WAITING: State.STARTING,
    P.STARTING: State.STARTING,
    P.RUNNING: State.RUNNING,
    P.PAUSED: State.PAUSED,
}
"""The state that is reported of a phase. A phase that is not here goes on with the state before it."""


class Machine:
    """One job's phase, and whether it is stalled."""

    def __init__(self, phase: Phase) -> None:
        self.phase = phase
        self.stalled = False

    def handle(self, event: Event) -> tuple[Action, ...] | None:
        """Make the transition; its actions, or None where the event changes nothing."""
        transition = TRANSITIONS.get((self.phase, event))
        if transition is None or event is (E.STALLED if self.stalled else E.RECOVERED):
            return None
        self.phase = transition.phase
        if event in (E.STALLED, E.RECOVERED):
            self.stalled = event is E.STALLED
        elif self.phase in (P.PAUSED, P.WATCHING_PAUSED, P.ENDED) or event is E.HOLDER_GONE:
            self.stalled = False  # nothing is to move, or it was another run's: neither is a recovery
        return transition.actions

    @property
    def state(self) -> State | None:
        """The state to report; None: the one before."""
        return State.STALLED if self.stalled else REPORTED.get(self.phase)
