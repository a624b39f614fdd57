"""What a supervisor reports is true: nothing over another run's report, no false recovery, no request overtaken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from firn.errors import TransientError
from firn.ledger.control_record import ControlRecord, DesiredState, State
from firn.ledger.owner import Owner, Totals
from firn.operations.observation import Depth, Observation
from firn.supervisor.poller import BackgroundCall
from firn.supervisor.statistics import RollingStatistics
from tests.support.supervision import BEGUN, SILENT, World, error


class SlowWorld(World):
    """One whose Kafka and Snowflake answer a second after they were asked."""

    def __init__(self, **policy: Any) -> None:
        super().__init__(**policy)
        self.calls: list[BackgroundCall[Any]] = []
        self.each_second = self.make_calls

    def background(self, call: Callable[[], Any]) -> BackgroundCall[Any]:  # type: ignore[override]
        self.calls.append(BackgroundCall(call))
        return self.calls[-1]

    def make_calls(self) -> None:
        while self.calls:
            self.calls.pop(0).run()


@pytest.mark.parametrize(
    "record",
    [
        ControlRecord("s", state=State.FAILED, since=BEGUN, stats={"terminal": True}),
        ControlRecord("s", DesiredState.STOPPED, state=State.STOPPED),
    ],
)
def test_a_schedule_that_starts_nothing_changes_and_shows_nothing(record: ControlRecord) -> None:
    world = SlowWorld(keep_alive=True)
    world.record, world.owner = record, Owner(1, "", 500.0)
    assert world.run().kind == "skipped"
    world.make_calls()
    assert (world.notes, world.shown, world.emitted()) == ([], 0, [])


def test_a_schedule_that_starts_a_sink_writes_its_state_down() -> None:
    world = SlowWorld(keep_alive=True)
    world.owner = Owner(1, "", 500.0)
    world.script = {60: world.supervisor.ask}
    world.run()
    world.make_calls()
    assert world.states()[:2] == ["starting", "running"]


def test_commits_that_nobody_can_look_at_are_no_recovery_each_time() -> None:
    world = World()
    world.script = {30: world.commit, 60: lambda: setattr(world, "fault", SILENT), 600: world.supervisor.ask}
    world.script |= dict.fromkeys(range(120, 600, 20), world.commit)
    world.run()
    assert world.emitted("stalled", "recovered") == ["stalled"]


def test_a_commit_that_only_the_ledger_shows_ends_the_start() -> None:
    world = World()
    world.begin = lambda driver: None
    world.end_offset = 10
    world.script = {30: lambda: setattr(world, "next_offset", 10), 60: world.supervisor.ask}
    world.run()
    assert world.states() == ["starting", "running", "stopped"]
    assert next(at for at, state, _ in world.notes if state is State.RUNNING) <= 30 + world.policy.look + 1


def test_another_start_of_the_driver_is_no_recovery() -> None:
    world = World()
    world.script = {
        30: world.commit,
        100: lambda: setattr(world, "end_offset", 15),
        200: lambda: world.driver.end(-9),
        400: lambda: world.commit(0),
        430: world.supervisor.ask,
    }
    world.run()
    assert world.emitted("stalled", "restarting", "recovered") == ["stalled", "restarting", "recovered"]
    assert world.when("recovered") >= 400


def test_a_takeover_from_a_run_that_hung_is_no_recovery() -> None:
    world = World(keep_alive=True)
    world.owner = Owner(4, "other", 3.0)
    world.script = {
        100: lambda: setattr(world, "end_offset", 15),
        300: lambda: setattr(world, "owner", Owner(4, "other", 95.0)),
        304: lambda: world.driver.tells("started", epoch=5),
        305: lambda: setattr(world, "owner", None),
        400: lambda: world.commit(0),
        430: world.supervisor.ask,
    }
    world.begin = lambda driver: None
    world.run()
    assert len(world.drivers) == 1
    assert world.emitted("stalled", "recovered", "committed") == ["stalled", "committed"]
    assert world.states() == ["starting", "running", "stopped"]


def test_a_schedule_logs_that_it_watches_and_warns_that_it_takes_over(caplog: pytest.LogCaptureFixture) -> None:
    world = World(keep_alive=True)
    world.owner = Owner(4, "other", 3.0)
    world.script = {
        200: lambda: setattr(world, "owner", Owner(4, "other", 95.0)),
        240: lambda: setattr(world, "owner", None),
        300: world.supervisor.ask,
    }
    with caplog.at_level("INFO"):
        world.run()
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("INFO", "Another run holds sink s and lives: this one watches it."),
        ("WARNING", "The run that held sink s gives no sign of life any more: this one takes over."),
    ]


@pytest.mark.parametrize("holder", ["", "newer"])
def test_a_fenced_driver_says_by_its_error_alone_that_it_lost_the_sink(
    caplog: pytest.LogCaptureFixture, holder: str
) -> None:
    world = World()

    def fence() -> None:
        world.owner = Owner(9, holder, 1.0)
        world.driver.end(5, error=error(5))

    world.script = {50: fence}
    with caplog.at_level("INFO"):
        assert world.run().kind == "failed"
    assert caplog.messages == []


def test_a_paused_sink_asks_snowflake_as_seldom_as_an_idle_one_though_records_wait() -> None:
    world = World()
    world.script = {
        30: lambda: setattr(world, "record", ControlRecord("s", DesiredState.PAUSED)),
        100: lambda: setattr(world, "end_offset", 50),
        200: world.looks.clear,
        1400: world.supervisor.ask,
    }
    world.run()
    asked = Counter(world.looks)
    assert asked[Depth.REQUESTS] <= 1200 / world.policy.idle + 1
    assert asked[Depth.LEDGER] <= 1200 / world.policy.ledger + 1


def test_an_idle_driver_that_lived_long_is_no_failure_in_a_row() -> None:
    world = World(restarts=1)
    day = 4000
    world.script = {second: lambda: world.driver.end(4) for second in range(day, 4 * day, day)}
    world.script[4 * day] = world.supervisor.ask
    assert world.run().kind == "ended"
    assert len(world.drivers) == 4


def test_a_start_by_hand_is_not_undone_by_an_older_stop_that_could_not_be_cleared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    world.record = ControlRecord("s", DesiredState.STOPPED)
    clear, refusals = world.request, [TransientError("Snowflake does not answer.")] * 2

    def want(desired: DesiredState, by: str) -> None:
        if refusals:
            raise refusals.pop()
        clear(desired, by)

    monkeypatch.setattr(world, "request", want)
    world.script = {60: world.supervisor.ask}
    assert world.run().kind == "ended"
    assert world.record.desired is DesiredState.RUNNING


def test_a_start_by_schedule_leaves_a_driver_alone_that_somebody_starts() -> None:
    world = World(keep_alive=True)
    world.silent = 1000.0
    world.record = ControlRecord("s", state=State.STARTING, silent_seconds=20.0, stats={"host": "h", "pid": 7})
    assert world.run().kind == "skipped"
    assert world.drivers == []
    late = World(keep_alive=True)
    late.silent = 1000.0
    late.record = replace(world.record, silent_seconds=200.0)
    late.script = {50: late.supervisor.ask}
    assert late.run().kind == "ended"
    assert len(late.drivers) == 1


@pytest.mark.parametrize("keep_alive", [True, False])
def test_what_people_want_is_done_while_kafka_does_not_answer(keep_alive: bool) -> None:
    world = World(keep_alive=keep_alive)
    world.silent = 1000.0
    world.kafka_fault = SILENT
    world.script = {
        100: lambda: world.request(DesiredState.PAUSED, "ann"),
        200: lambda: world.request(DesiredState.STOPPED, "ann"),
    }
    assert world.run().kind == "stopped"
    assert world.emitted("stalled", "recovered", "paused", "stopped") == ["stalled", "paused", "stopped"]
    assert 45 <= world.when("stalled") <= 60
    assert world.when("paused") <= 100 + world.policy.idle + 1
    assert world.now <= 200 + world.policy.idle + 1


def test_a_schedule_tells_no_stall_of_a_sink_that_was_stopped_while_kafka_does_not_answer() -> None:
    world = World(keep_alive=True)
    world.record, world.kafka_fault = ControlRecord("s", DesiredState.STOPPED, "ann"), SILENT
    assert world.run().kind == "skipped"
    assert (world.emitted(), world.drivers) == ([], [])


@pytest.mark.parametrize("desired", [DesiredState.PAUSED, DesiredState.STOPPED])
def test_a_run_that_watches_tells_nothing_of_what_the_run_it_watches_does(desired: DesiredState) -> None:
    world = World(keep_alive=True)
    world.owner = Owner(4, "other", 3.0)
    said: list[str] = []

    def look() -> None:
        said.append(world.snapshot.state.value if world.snapshot else "")

    world.script = {
        100: lambda: world.request(desired, "ann"),
        190: look,  # its driver brings its batch to an end
        200: lambda: setattr(world, "owner", Owner(4, "", 3.0)),
        290: look,
        300: lambda: world.request(DesiredState.RUNNING, "ann"),
        310: lambda: setattr(world, "owner", Owner(5, "other", 3.0)),
        400: world.supervisor.ask,
    }
    world.run()
    look()
    assert said[0] == "running"
    assert said[-1] == "stopped" if desired is DesiredState.STOPPED else said[1] == "paused"
    assert (world.emitted(), world.drivers, world.notes) == ([], [], [])


def test_a_pause_is_no_restart() -> None:
    world = World()
    world.script = {
        50: lambda: world.request(DesiredState.PAUSED, "ann"),
        150: lambda: world.request(DesiredState.RUNNING, "ann"),
        300: world.supervisor.ask,
    }
    world.run()
    assert len(world.drivers) == 2
    assert world.snapshot is not None
    assert (world.snapshot.restarts, world.snapshot.errors) == (0, 0)


def test_rates_are_those_of_the_last_minute_and_no_reason_to_write_anything_down() -> None:
    world = World()
    rates: list[float] = []

    def measure() -> None:
        assert world.snapshot is not None
        rates.append(world.snapshot.records_per_second)

    world.script = {202: lambda: world.commit(600), 215: measure, 300: measure, 400: world.supervisor.ask}
    world.run()
    assert rates == [pytest.approx(10.0, rel=0.2), 0.0]
    assert [at for at, _, _ in world.notes if 100 < at < 400] == []


def test_what_a_driver_committed_ahead_of_the_ledger_counts_once() -> None:
    """A stream is durable long before the ledger moves."""
    figures = RollingStatistics()

    def looked(now: float, records: int, depth: Depth = Depth.LEDGER) -> None:
        owner = Owner(1, "run", 0.0, totals=Totals(records, 10 * records))
        figures.looked(now, Observation(BEGUN, (), owner, DesiredState.RUNNING, None, depth=depth))

    looked(0, 1000)
    for second in range(1, 61):
        figures.committed(BEGUN, {"rows": 5, "bytes": 50})
        looked(second, 1000, Depth.KAFKA)
    assert (figures.totals.records, figures.records_per_second) == (1300, 5.0)
    looked(61, 1290)  # the ledger moved a moment ago
    assert (figures.totals.records, figures.totals.bytes) == (1300, 13_000)
    looked(62, 1300)
    assert figures.totals.records == 1300


def test_a_pause_names_who_asked_for_it() -> None:
    world = World()
    world.script = {50: lambda: world.request(DesiredState.PAUSED, "ann"), 150: world.supervisor.ask}
    world.run()
    assert next(reason for _, state, reason in world.notes if state is State.PAUSED) == "Paused by ann."


def test_a_commit_before_this_supervisor_began_is_the_last_one_still() -> None:
    world = World()
    world.committed_at = BEGUN - timedelta(hours=1)
    world.script = {60: world.supervisor.ask}
    world.run()
    assert world.snapshot is not None
    assert world.snapshot.last_commit == world.committed_at
