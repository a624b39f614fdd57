"""The supervisor's transition table, row by row, and what must hold of all rows."""

from __future__ import annotations

from itertools import product

import pytest

from firn.ledger.control_record import State
from firn.supervisor.machine import (
    DRIVERLESS,
    DRIVING,
    LEAVING,
    PROGRESSING,
    TABLE,
    TRANSITIONS,
    WATCHING,
    Action,
    Event,
    Machine,
    Phase,
    Transition,
)
from tests.support.supervision import World

WITH_DRIVER = {*DRIVING, *LEAVING, Phase.ENDING}
EXITS = {Event.CRASHED, Event.FAILED, Event.EXHAUSTED, Event.FENCED_OFF, Event.EXITED, Event.EXITED_WITH_ERROR}
ENDS = {Action.END, Action.END_STOPPED, Action.END_SKIPPED, Action.END_FAILED}
ROWS = list(TRANSITIONS.items())


def row_id(value: object) -> str:
    return value.value if isinstance(value, Phase | Event) else ""


def machine(phase: Phase, event: Event) -> Machine:
    """A machine in a phase, stalled where the event ends a stall."""
    made = Machine(phase)
    made.stalled = event is Event.RECOVERED
    return made


@pytest.mark.parametrize(("phase", "event", "transition"), [(*key, transition) for key, transition in ROWS], ids=row_id)
def test_a_row_leads_to_its_phase_and_gives_its_actions(phase: Phase, event: Event, transition: Transition) -> None:
    made = machine(phase, event)
    assert made.handle(event) == transition.actions
    assert made.phase is transition.phase


def test_an_event_without_a_row_changes_nothing() -> None:
    for phase, event in set(product(Phase, Event)) - set(TRANSITIONS):
        made = machine(phase, event)
        assert (made.handle(event), made.phase) == (None, phase)


def test_no_two_rows_are_of_the_same_phase_and_event() -> None:
    assert sum(len(phases) * len(events) for phases, events, _, _ in TABLE) == len(TRANSITIONS)


def test_every_phase_event_and_action_is_used() -> None:
    assert {phase for phase, _ in TRANSITIONS} | {Phase.ENDED} == set(Phase)
    assert {event for _, event in TRANSITIONS} == set(Event)
    assert {action for _, transition in ROWS for action in transition.actions} == set(Action)
    assert {*DRIVERLESS, *WATCHING, *WITH_DRIVER, Phase.ENDED} == set(Phase)


def test_the_supervisor_carries_every_action_out() -> None:
    assert set(World().supervisor._run.actions) == set(Action)


@pytest.mark.parametrize("begin", [Phase.DECIDING, Phase.WAITING])
def test_every_phase_that_matters_is_reached_from_a_start(begin: Phase) -> None:
    reached, before = {begin}, set[Phase]()
    while reached != before:
        before = set(reached)
        reached |= {transition.phase for (phase, _), transition in ROWS if phase in before}
    by_schedule_only = {Phase.DECIDING, Phase.WATCHING, Phase.WATCHING_PAUSED}
    assert reached == (set(Phase) if begin is Phase.DECIDING else set(Phase) - by_schedule_only)


@pytest.mark.parametrize(("phase", "event", "transition"), [(*key, row) for key, row in ROWS], ids=row_id)
def test_a_driver_is_never_left_behind_nor_started_twice(phase: Phase, event: Event, transition: Transition) -> None:
    launches = Action.LAUNCH in transition.actions
    assert launches == (transition.phase in WITH_DRIVER and phase not in WITH_DRIVER)
    if phase in WITH_DRIVER and transition.phase not in WITH_DRIVER:
        gone = event in EXITS or event is Event.LAUNCH_FAILED or Action.TERMINATE_DRIVER in transition.actions
        assert gone
    if phase in DRIVING and transition.phase in {*LEAVING, Phase.ENDING}:
        assert Action.ASK_DRIVER in transition.actions


@pytest.mark.parametrize(("phase", "event", "transition"), [(*key, row) for key, row in ROWS], ids=row_id)
def test_a_supervision_ends_once_and_says_how(phase: Phase, event: Event, transition: Transition) -> None:
    assert phase is not Phase.ENDED
    assert len(ENDS & set(transition.actions)) == (transition.phase is Phase.ENDED)


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.ENDED])
def test_whoever_runs_a_supervisor_can_end_it_in_every_phase(phase: Phase) -> None:
    assert TRANSITIONS[phase, Event.ABORT_REQUESTED].phase is Phase.ENDED
    if phase is not Phase.ENDING:
        asked = TRANSITIONS[phase, Event.END_REQUESTED].phase
        assert asked is (Phase.ENDING if phase in WITH_DRIVER else Phase.ENDED)


@pytest.mark.parametrize("phase", [*DRIVING, *LEAVING, *WATCHING, Phase.DECIDING, Phase.WAITING, Phase.PAUSED])
@pytest.mark.parametrize("event", [Event.RUN_DESIRED, Event.PAUSE_DESIRED, Event.STOP_DESIRED])
def test_a_desired_state_is_followed_in_every_phase_that_it_does_not_fit(phase: Phase, event: Event) -> None:
    fits = {
        Event.RUN_DESIRED: {*DRIVING, Phase.WAITING, Phase.RESTARTING, Phase.WATCHING},
        Event.PAUSE_DESIRED: {Phase.PAUSING, Phase.PAUSED, Phase.WATCHING_PAUSED},
        Event.STOP_DESIRED: {Phase.STOPPING},
    }
    assert ((phase, event) in TRANSITIONS) == (phase not in fits[event])


@pytest.mark.parametrize("phase", PROGRESSING)
def test_a_stall_is_reported_over_every_phase_and_changes_none(phase: Phase) -> None:
    made = Machine(phase)
    before = made.state
    assert made.handle(Event.RECOVERED) is None, "nothing was stalled"
    assert made.handle(Event.STALLED) == (Action.EMIT_STALLED,)
    assert (made.phase, made.state) == (phase, State.STALLED)
    assert made.handle(Event.STALLED) is None, "it is emitted once"
    assert made.handle(Event.RECOVERED) == (Action.EMIT_RECOVERED,)
    assert (made.phase, made.state) == (phase, before)


def test_a_stall_outlives_restarts_and_ends_with_a_pause() -> None:
    made = Machine(Phase.RUNNING)
    states = []
    for event in (Event.STALLED, Event.CRASHED, Event.START_DUE, Event.CLAIMED, Event.PAUSE_DESIRED, Event.EXITED):
        made.handle(event)
        states.append(made.state)
    assert states == [State.STALLED] * 5 + [State.PAUSED]


def test_a_stall_of_a_run_that_is_watched_ends_with_the_takeover() -> None:
    made = Machine(Phase.WATCHING)
    made.handle(Event.STALLED)
    actions = made.handle(Event.HOLDER_GONE)
    assert actions is not None
    assert Action.EMIT_RECOVERED not in actions
    assert (made.state, made.handle(Event.RECOVERED)) == (State.STARTING, None)


def test_a_driver_that_is_asked_to_end_keeps_the_state_before() -> None:
    assert [Machine(phase).state for phase in (*LEAVING, Phase.ENDING)] == [None] * 4
