"""Whether a run lives: by what changes under the eyes of one observer, and by stamps only before it saw any change."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from firn.kafka.partitions import TopicPartition
from firn.ledger.owner import Owner
from firn.ledger.positions import Position
from firn.ledger.rows import View
from firn.operations.life import LifeWatch, ReportWatch
from firn.sinks.signs import Sign, TaskReport

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def view(*, silent: float = 0.0, epoch: int = 4) -> View:
    return View("id", Owner(epoch, "run", silent), {}, datetime.now(UTC) - timedelta(seconds=silent))


def sign(counter: int, *, epoch: int = 4, ago: float = 0.0) -> Sign:
    return Sign(epoch, counter, datetime.now(UTC) - timedelta(seconds=ago))


def silence(watch: LifeWatch, seen: View, heard: Sign | None) -> float:
    owner = watch.owner(seen, heard)
    assert owner is not None
    return round(owner.silent_seconds)


def test_a_sign_that_changes_is_life_whatever_the_clock_of_its_machine(clock: Clock) -> None:
    watch, ledger = LifeWatch(clock), view(silent=3600)
    for counter in range(5):
        wrong = 7200 if counter % 2 else -7200
        assert silence(watch, ledger, sign(counter, ago=wrong if counter else 5)) == (5 if counter == 0 else 0)
        clock.now += 30
    assert silence(watch, ledger, sign(4, ago=-7200)) == 30


def test_a_sign_that_stays_is_silence_from_when_it_was_written(clock: Clock) -> None:
    watch, ledger, dead = LifeWatch(clock), view(silent=3600), sign(9, ago=40)
    assert silence(watch, ledger, dead) == 40
    clock.now += 60
    assert silence(watch, ledger, dead) == 100


def test_a_stamp_from_the_future_is_no_more_than_fresh(clock: Clock) -> None:
    watch, ledger, ahead = LifeWatch(clock), view(silent=3600), sign(9, ago=-500)
    assert silence(watch, ledger, ahead) == 0
    clock.now += 90
    assert silence(watch, ledger, ahead) == 90


def test_without_signs_the_ledger_tells(clock: Clock) -> None:
    watch, ledger = LifeWatch(clock), view(silent=20)
    assert silence(watch, ledger, None) == 20
    clock.now += 30
    assert silence(watch, ledger, None) == 50
    assert silence(watch, replace(ledger, updated_at=datetime.now(UTC)), None) == 0  # a heartbeat, or a commit


def test_signs_of_another_epoch_say_nothing_of_this_owner(clock: Clock) -> None:
    watch, ledger = LifeWatch(clock), view(silent=600)
    for counter, epoch in enumerate((3, 5, 3)):
        assert silence(watch, ledger, sign(counter, epoch=epoch)) >= 600
        clock.now += 30


def test_a_new_owner_is_watched_from_the_beginning(clock: Clock) -> None:
    watch = LifeWatch(clock)
    silence(watch, view(silent=600), sign(7, ago=600))
    assert silence(watch, view(silent=3, epoch=5), sign(1, epoch=5, ago=2)) == 2


def test_nobody_holds_a_sink_that_was_never_claimed(clock: Clock) -> None:
    assert LifeWatch(clock).owner(View("id", None, {}), sign(1)) is None


def ledger_at(**positions: int) -> View:
    updated = datetime(2026, 11, 21, tzinfo=UTC)
    at = {P0: Position(positions["p0"], "id", updated), P1: Position(positions["p1"], "id", updated)}
    return View("id", Owner(4, "run", 0.0), at, updated)


def test_positions_are_those_of_the_tasks_where_they_are_ahead_of_the_ledger() -> None:
    watch, ledger = ReportWatch(), ledger_at(p0=5, p1=9)
    positions, moved_at = watch.positions(ledger, {P0: TaskReport(4, 1, 7), P1: TaskReport(4, 1, 8)})
    assert {where: each.next_offset for where, each in positions.items()} == {P0: 7, P1: 9}
    assert moved_at == ledger.updated_at  # since when they stand so, nobody saw
    _, moved_at = watch.positions(ledger, {P0: TaskReport(4, 2, 8), P1: TaskReport(4, 1, 8)})
    assert moved_at is not None
    assert datetime.now(UTC) - moved_at < timedelta(seconds=30)


@pytest.mark.parametrize(
    "reports", [{}, {P0: TaskReport(3, 1, 700)}, {P0: TaskReport(5, 1, 700)}], ids=["none", "older", "newer"]
)
def test_reports_of_other_epochs_move_nothing(reports: dict[TopicPartition, TaskReport]) -> None:
    ledger = ledger_at(p0=5, p1=9)
    assert ReportWatch().positions(ledger, reports) == (ledger.positions, None)


def test_reports_of_a_run_that_has_released_the_sink_move_nothing() -> None:
    ledger = ledger_at(p0=5, p1=9)
    ended = replace(ledger, owner=Owner(4, "", 0.0))
    assert ReportWatch().positions(ended, {P0: TaskReport(4, 1, 7)}) == (ended.positions, None)
