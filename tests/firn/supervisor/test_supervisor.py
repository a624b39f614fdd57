"""What a supervisor does about each thing that can happen to a sink, with a clock that jumps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from firn.errors import BadRecordError, ConfigError, FencedError, TerminalError, TransientError
from firn.ledger.control_record import ControlRecord, DesiredState, State
from firn.ledger.owner import Owner
from firn.operations.observation import Depth
from firn.supervisor.job import Patience
from firn.supervisor.poller import BackgroundCall
from tests.support.supervision import BEGUN, SILENT, World, error


def test_a_sink_runs_until_it_is_asked_to_end_and_gives_its_report() -> None:
    world = World()
    world.script = {30: world.commit, 60: world.supervisor.ask}
    outcome = world.run()
    assert (outcome.kind, outcome.report) == ("ended", {"sink": "s"})
    assert world.driver.asked
    assert world.states() == ["starting", "running", "stopped"]
    assert world.emitted() == ["started", "committed", "stopped"]


@pytest.mark.parametrize("code", [-9, -11, 4, 1, 137])
def test_a_driver_that_was_killed_or_met_something_that_may_pass_is_started_again(code: int) -> None:
    world = World()
    world.script = {30: lambda: world.driver.end(code), 90: world.supervisor.ask}
    assert world.run().kind == "ended"
    assert len(world.drivers) == 2
    assert world.emitted("restarting", "failed") == ["restarting"]
    assert world.snapshot is not None
    assert (world.snapshot.restarts, world.snapshot.errors) == (1, 1)


@pytest.mark.parametrize(("code", "kind"), [(3, TerminalError), (6, BadRecordError)])
def test_what_needs_a_person_fails_at_once_with_its_own_error(code: int, kind: type[Exception]) -> None:
    world = World()
    world.script = {30: lambda: world.driver.end(code, error=error(code))}
    outcome = world.run()
    assert len(world.drivers) == 1
    assert isinstance(outcome.error, kind)
    assert outcome.error.next_step == "Mend it with `firn x s.json`."
    assert world.notes[-1][1:] == (State.FAILED, "It broke. (there)"), "the next step may speak of the place"
    assert world.stats["terminal"] is True
    assert world.emitted("failed") == ["failed"]


def test_restarts_without_progress_have_a_cap_and_growing_pauses() -> None:
    world = World(restarts=5)
    world.begin = lambda driver: driver.end(4, error=error(4))
    outcome = world.run()
    assert isinstance(outcome.error, TransientError)
    assert len(world.drivers) == 6
    starts = [at for at, event, _ in world.events if event == "restarting"]
    assert starts == sorted(starts)
    assert starts[-1] - starts[-2] > starts[1] - starts[0]
    assert world.stats["terminal"] is False  # a keep-alive schedule may try again later


def test_progress_makes_the_cap_count_from_the_beginning() -> None:
    world = World(restarts=2)
    for second in range(50, 1050, 50):
        world.script[second] = lambda: world.driver.end(-9)
        world.script[second + 30] = world.commit
    world.script[1100] = world.supervisor.ask
    assert world.run().kind == "ended"
    assert len(world.drivers) == 21


def test_a_sink_whose_offsets_do_not_move_is_stalled_within_a_minute_and_recovers_with_the_first_that_does() -> None:
    world = World()

    def arrive() -> None:
        world.end_offset += 5

    world.script = {30: world.commit, 100: arrive, 300: lambda: world.commit(0), 330: world.supervisor.ask}
    world.run()
    assert world.emitted("stalled", "recovered") == ["stalled", "recovered"]
    assert 145 <= world.when("stalled") < 160
    assert 300 <= world.when("recovered") <= 301
    assert world.states() == ["starting", "running", "stalled", "running", "stopped"]
    _, _, data = next(each for each in world.events if each[1] == "stalled")
    assert data["lag"] == 5


def test_records_that_wait_for_company_as_configured_are_no_stall() -> None:
    world = World(patience=Patience(flush=120, flush_records=100))

    def arrive() -> None:
        world.end_offset += 5

    world.script = {100: arrive, 220: lambda: world.commit(0), 240: world.supervisor.ask}
    world.run()
    assert "stalled" not in world.emitted()


def test_a_broker_that_does_not_answer_is_a_stall_within_a_minute_and_recovers_with_its_answer() -> None:
    world = World()
    world.script = {
        30: world.commit,
        100: lambda: setattr(world, "fault", SILENT),
        200: lambda: setattr(world, "fault", None),
        230: world.supervisor.ask,
    }
    world.run()
    assert 140 <= world.when("stalled") <= 160
    assert 200 <= world.when("recovered") <= 206
    stalled = next(reason for _, state, reason in world.notes if state is State.STALLED)
    assert "Kafka does not answer." in stalled


def test_a_driver_that_never_comes_to_its_claim_is_a_stall_although_it_is_started_again_and_again() -> None:
    world = World(restarts=1000)
    world.end_offset = 10
    world.begin = lambda driver: driver.end(-9)
    world.script = {300: world.supervisor.ask}
    world.run()
    assert world.when("stalled") <= 110


def test_a_driver_without_a_sign_of_life_is_killed() -> None:
    world = World()
    world.each_second = lambda: setattr(world, "owner", Owner(1, "run", world.now - 30))
    world.script = {650: world.supervisor.ask}
    world.run()
    assert world.drivers[0].stopped == [0]
    assert len(world.drivers) == 2


def test_a_driver_whose_signs_do_not_come_is_left_while_it_writes_to_its_log() -> None:
    world = World()

    def each_second() -> None:
        world.owner = Owner(1, "run", world.now)
        if world.drivers and world.now % 100 == 0:
            world.driver.on_line("still copying")

    world.each_second = each_second
    world.script = {3000: world.supervisor.ask}
    world.run()
    assert len(world.drivers) == 1


def test_a_driver_whose_signs_do_not_come_is_left_while_positions_move() -> None:
    world = World()

    def each_second() -> None:
        world.owner = Owner(1, "run", world.now)
        if world.now % 100 == 0:
            world.end_offset += 1
            world.next_offset = world.end_offset

    world.each_second = each_second
    world.script = {3000: world.supervisor.ask}
    world.run()
    assert len(world.drivers) == 1


def test_a_request_that_kafka_announces_is_followed_by_the_next_look() -> None:
    """The observer asks more than it was told to: what it saw counts, not what was asked of it."""
    world = World(idle=10_000.0, ledger=10_000.0)

    def request() -> None:
        world.request(DesiredState.PAUSED, "ann")
        world.deeper = Depth.REQUESTS

    world.script = {100: request, 200: world.supervisor.ask}
    world.run()
    assert world.when("paused") <= 107


def test_a_driver_that_lives_and_commits_nothing_for_very_long_is_killed() -> None:
    world = World()
    world.script = {100: lambda: setattr(world, "end_offset", 5), 2500: world.supervisor.ask}
    world.run()
    assert world.drivers[0].stopped == [0]
    assert world.when("restarting") >= 100 + 3 * 600
    assert len(world.drivers) == 2


def test_drivers_that_hang_again_and_again_have_a_cap() -> None:
    world = World(restarts=2)
    world.each_second = lambda: setattr(world, "owner", Owner(1, "run", world.now))
    world.begin = lambda driver: None
    outcome = world.run()
    assert outcome.error is not None
    assert "no sign of life" in outcome.error.what
    assert len(world.drivers) == 3


def test_a_driver_that_cannot_be_started_fails_the_sink() -> None:
    world = World()

    def refuse(_driver: object) -> None:
        raise ConfigError("No such master.", next_step="Name one.")

    world.begin = refuse
    assert isinstance(world.run().error, ConfigError)
    assert world.notes[-1][1:] == (State.FAILED, "No such master.")


def test_nobody_is_killed_because_snowflake_cannot_say_whether_they_live() -> None:
    world = World()
    world.script = {30: lambda: setattr(world, "fault", SILENT), 2000: world.supervisor.ask}
    world.run()
    assert len(world.drivers) == 1


def test_pause_ends_the_driver_and_resume_starts_another() -> None:
    world = World()

    def want(desired: DesiredState) -> None:
        world.request(desired, "ann")

    world.script = {
        50: lambda: want(DesiredState.PAUSED),
        60: lambda: setattr(world, "end_offset", 50),
        400: lambda: want(DesiredState.RUNNING),
        560: world.supervisor.ask,
    }
    world.run()
    assert world.drivers[0].asked
    assert len(world.drivers) == 2
    assert world.emitted("paused", "resumed", "stalled") == ["paused", "resumed", "stalled"]
    assert world.states()[:4] == ["starting", "running", "paused", "starting"]
    assert world.when("resumed") <= 400 + world.policy.idle + 1


def test_stop_ends_driver_and_supervision() -> None:
    world = World()
    world.script = {50: lambda: world.request(DesiredState.STOPPED, "ann")}
    outcome = world.run()
    assert outcome.kind == "stopped"
    assert world.drivers[0].asked
    assert world.notes[-1][1] is State.STOPPED


@pytest.mark.parametrize(("claims", "second"), [(False, 30), (True, 599)])
def test_a_stopped_sink_without_heartbeats_ends_its_supervision_within_seconds(claims: bool, second: int) -> None:
    """Before the claim each look reads the request; afterwards the one of the idle interval does."""
    world = World(idle=600.0)
    if not claims:
        world.begin = lambda driver: None
    world.script = {second: lambda: world.request(DesiredState.STOPPED, "ann")}
    assert world.run().kind == "stopped"
    assert world.now <= second + 2 * world.policy.look + 2


def test_what_is_wanted_is_seen_within_the_look_interval_while_records_flow() -> None:
    world = World()
    world.each_second = world.commit
    world.script = {50: lambda: world.request(DesiredState.STOPPED, "ann")}
    world.run()
    assert world.now <= 50 + world.policy.look + 2


def test_a_driver_that_does_not_end_is_ended_at_a_deadline() -> None:
    world = World()

    def stubborn() -> None:
        world.driver.ends_when_asked = False

    world.script = {40: stubborn, 50: world.supervisor.ask}
    outcome = world.run()
    assert world.driver.stopped
    assert outcome.error is not None
    assert "signal 9" in outcome.error.what


def test_an_abort_stops_the_driver_at_once() -> None:
    world = World()
    world.script = {50: world.supervisor.abort}
    assert world.run().kind == "ended"
    assert world.driver.stopped == [world.policy.stop]
    assert world.now <= 51


class TestKeepAlive:
    def test_what_was_stopped_stays_so(self) -> None:
        world = World(keep_alive=True)
        world.record = ControlRecord("s", DesiredState.STOPPED, "ann")
        outcome = world.run()
        assert (outcome.kind, world.drivers, world.notes) == ("skipped", [], [])
        assert "ann" in outcome.sentence
        assert world.shown == 0, "each scheduled start would leave an artifact that says Starting"

    def test_what_failed_for_good_is_not_tried_each_minute(self) -> None:
        world = World(keep_alive=True)
        world.record = ControlRecord(
            "s", state=State.FAILED, since=BEGUN, reason="A column is gone.", stats={"terminal": True}
        )
        outcome = world.run()
        assert outcome.kind == "skipped"
        assert "A column is gone." in outcome.sentence

    @pytest.mark.parametrize("stats", [{"terminal": False}, {}])
    def test_what_failed_and_may_pass_is_started(self, stats: dict[str, bool]) -> None:
        world = World(keep_alive=True)
        world.record = ControlRecord("s", state=State.FAILED, since=BEGUN, stats=stats)
        world.silent = 1000.0
        world.script = {30: world.supervisor.ask}
        world.run()
        assert len(world.drivers) == 1

    def test_a_resume_after_the_failure_counts(self) -> None:
        world = World(keep_alive=True)
        world.record = ControlRecord(
            "s", state=State.FAILED, since=BEGUN, desired_at=BEGUN + timedelta(seconds=1), stats={"terminal": True}
        )
        world.silent = 1000.0
        world.script = {30: world.supervisor.ask}
        world.run()
        assert len(world.drivers) == 1

    def test_a_paused_sink_is_watched_and_started_by_a_resume(self) -> None:
        world = World(keep_alive=True)
        world.record = ControlRecord("s", DesiredState.PAUSED)
        world.silent = 1000.0
        world.script = {100: lambda: world.request(DesiredState.RUNNING, "ann"), 200: world.supervisor.ask}
        world.run()
        assert len(world.drivers) == 1
        assert world.states() == ["paused", "starting", "running", "stopped"]

    def test_a_run_that_lives_is_watched_and_taken_over_when_it_falls_silent(self) -> None:
        world = World(keep_alive=True)
        world.owner = Owner(4, "other", 3.0)
        world.script = {200: lambda: setattr(world, "owner", Owner(4, "other", 95.0)), 300: world.supervisor.ask}
        world.script[240] = lambda: setattr(world, "owner", None)
        world.run()
        assert len(world.drivers) == 1
        assert min(at for at, _, _ in world.notes) >= 200  # while another run holds the sink, that one writes
        assert world.when("started") >= 200

    def test_nothing_is_started_before_anybody_could_look(self) -> None:
        world = World(keep_alive=True)
        world.fault = SILENT
        world.script = {100: world.supervisor.ask}
        world.run()
        assert world.drivers == []
        assert world.emitted("stalled") == ["stalled"]


def test_a_start_by_hand_clears_a_stop() -> None:
    world = World(by="bob")
    world.record = ControlRecord("s", DesiredState.STOPPED, "ann")
    world.script = {30: world.supervisor.ask}
    world.run()
    assert len(world.drivers) == 1
    assert (world.record.desired, world.record.desired_by) == (DesiredState.RUNNING, "bob")


def test_a_look_that_began_before_a_start_by_hand_was_written_down_is_not_obeyed() -> None:
    late: list[BackgroundCall[Any]] = []

    def in_time(call: Callable[[], Any]) -> BackgroundCall[Any]:
        """The first look has read before the request was written, and both come back later."""
        made: BackgroundCall[Any] = BackgroundCall(call)
        if len(late) < 2:
            late.append(made)
        else:
            made.run()
        return made

    world = World(background=in_time)
    world.record = ControlRecord("s", DesiredState.STOPPED, "ann")

    def answer() -> None:
        request, look = late
        look.run()
        request.run()

    asked: list[bool] = []
    world.script = {5: answer, 59: lambda: asked.append(world.drivers[0].asked), 60: world.supervisor.ask}
    assert world.run().kind == "ended"
    assert asked == [False]


def test_a_sink_that_is_wanted_again_before_it_has_stopped_goes_on() -> None:
    world = World()

    def stubborn() -> None:
        world.driver.ends_when_asked = False

    world.script = {
        45: stubborn,
        50: lambda: world.request(DesiredState.STOPPED, "ann"),
        101: lambda: world.driver.end(0, report={"sink": "s"}),
        102: lambda: world.request(DesiredState.RUNNING, "ann"),  # before the next look
        200: world.supervisor.ask,
    }
    assert world.run().kind == "ended"
    assert len(world.drivers) == 2


def test_a_run_that_was_fenced_by_one_that_lives_writes_nothing_over_its_state() -> None:
    world = World()

    def fenced() -> None:
        world.owner = Owner(9, "newer", 1.0)
        world.driver.end(5, error=error(5))

    world.script = {50: fenced}
    outcome = world.run()
    assert isinstance(outcome.error, FencedError)
    assert world.notes[-1][1] is not State.FAILED
    assert world.emitted("failed") == ["failed"]


def test_a_run_that_was_fenced_by_a_reset_has_failed() -> None:
    world = World()

    def fenced() -> None:
        world.owner = Owner(9, "", 1.0)
        world.driver.end(5, error=error(5))

    world.script = {50: fenced}
    assert isinstance(world.run().error, FencedError)
    assert world.notes[-1][1] is State.FAILED


def test_a_ledger_past_kafkas_end_is_told_once() -> None:
    world = World()
    world.script = {100: lambda: setattr(world, "next_offset", 50), 300: world.supervisor.ask}
    world.run()
    assert world.emitted("ahead") == ["ahead"]


def test_lag_above_a_limit_is_told_once_and_again_after_it_was_gone() -> None:
    world = World(lag_records=100)

    def behind(records: int) -> None:
        world.end_offset = world.next_offset + records

    for second, records in ((50, 150), (60, 90), (70, 150), (80, 0), (90, 150)):
        world.script[second] = lambda records=records: behind(records)  # type: ignore[misc]
    world.script[100] = world.supervisor.ask
    world.run()
    assert world.emitted("lagging") == ["lagging", "lagging"]


def test_snowflake_that_takes_no_notes_ends_nothing() -> None:
    world = World()
    world.note_fault = SILENT
    world.script = {100: lambda: setattr(world, "note_fault", None), 300: world.supervisor.ask}
    assert world.run().kind == "ended"
    assert next(state for _, state, _ in world.notes) is State.RUNNING  # said as soon as it could be


def test_an_idle_sink_asks_what_is_wanted_at_intervals_and_the_ledger_hardly_ever() -> None:
    world = World(idle=30.0, ledger=600.0)
    world.script = {100: lambda: (world.looks.clear(), world.notes.clear()), 3700: world.supervisor.ask}  # type: ignore[func-returns-value]
    world.run()
    asked = Counter(world.looks)
    assert 3600 / 30 - 7 <= asked[Depth.REQUESTS] <= 3600 / 30 + 1
    assert asked[Depth.LEDGER] <= 3600 / 600 + 1
    assert asked[Depth.KAFKA] > 500  # Kafka is asked all the while
    assert [state for _, state, _ in world.notes] == [State.STOPPED]


def test_a_batch_may_take_as_long_as_the_one_before() -> None:
    world = World()

    def commit() -> None:
        world.commit()
        world.driver.tells("committed", ship_seconds=60.0, commit_seconds=10.0)

    world.script = {
        10: commit,
        12: lambda: setattr(world, "end_offset", 50),
        100: commit,
        101: lambda: setattr(world, "end_offset", 90),
        300: world.supervisor.ask,
    }
    world.run()
    (stalled,) = [at for at, event, _ in world.events if event == "stalled"]
    assert stalled > 101 + 70 + 45


def test_a_job_of_another_kind_is_spoken_of_by_its_own_name() -> None:
    """So that an export is supervised by the same rooms."""
    world = World(kind="export")
    world.script = {
        50: lambda: world.request(DesiredState.PAUSED, "ann"),
        150: lambda: setattr(world, "fault", SILENT),
        200: lambda: setattr(world, "fault", None),
        250: lambda: world.request(DesiredState.STOPPED, "ann"),
    }
    outcome = world.run()
    said = [outcome.sentence, *(reason for _, _, reason in world.notes), *world.sentences]
    assert outcome.sentence == "The export is stopped until `firn export resume`."
    assert "Export s is paused." in said
    assert [text for text in said if "sink" in text.lower()] == []
    assert all(data["export"] == "s" for _, _, data in world.events)


def test_a_hung_driver_of_an_export_is_named_as_such() -> None:
    world = World(restarts=0, kind="export")
    world.each_second = lambda: setattr(world, "owner", Owner(1, "run", world.now))
    world.begin = lambda driver: None
    outcome = world.run()
    assert outcome.error is not None
    assert (outcome.error.where, "`firn export logs`" in outcome.error.next_step) == ("export s", True)
