"""A driver says in Kafka that it lives; the ledger hears of it only where Kafka does not, and alone can end a run."""

from __future__ import annotations

import logging
import time
from types import SimpleNamespace
from typing import Any

import pytest

from firn.connector.config import SinkConfig
from firn.errors import AuthenticationError, FencedError, FirnError, PrivilegeError, TransientError
from firn.kafka.partitions import TopicPartition
from firn.sinks.signs import Rates
from firn.snowflake.faults import LockConflictError
from spark_jobs.sink import life_signs
from spark_jobs.sink.life_signs import LifeSigns

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
REFUSED = PrivilegeError("Kafka does not allow this.", next_step="Grant the Kafka login READ on group firn-sign-x.")


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


class World:
    """The group of signs, and a ledger that counts what is asked of it."""

    def __init__(self) -> None:
        self.signs: list[tuple[TopicPartition, int, bool, bool]] = []
        self.takes: bool | None = True
        """Whether Kafka takes a sign; None: it does not answer."""
        self.newest = 0
        self.unreadable: FirnError | None = None
        self.asked: list[str] = []
        self.answers: list[FirnError | None] = []
        self.rates: list[Rates | None] = []

    # The writer

    group = "firn-sign-id-orders"

    @property
    def fault(self) -> FirnError | None:
        return REFUSED if self.takes is False else None

    def write(
        self,
        where: TopicPartition,
        epoch: int,
        *,
        moves: int,
        idle: bool = False,
        ended: bool = False,
        rates: Rates | None = None,
    ) -> bool:
        self.rates.append(rates)
        if self.takes:
            self.signs.append((where, epoch, idle, ended))
        return bool(self.takes)

    def written(self) -> bool:
        return bool(self.takes)

    def newest_epoch(self) -> int:
        if self.unreadable:
            raise self.unreadable
        return max([self.newest, *(epoch for _, epoch, _, _ in self.signs)])

    def close(self) -> bool:
        return True

    # The ledger

    held = 4

    def beat(self, _session: object, _epoch: int) -> None:
        self._answer("beat")

    def check_epoch(self, _session: object, _epoch: int) -> None:
        self._answer("check")

    def _answer(self, what: str) -> None:
        self.asked.append(what)
        if self.answers and (error := self.answers.pop(0)):
            raise error


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock()
    monkeypatch.setattr(time, "monotonic", moved)
    return moved


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(life_signs, "SignWriter", lambda *_: made)
    monkeypatch.setattr(life_signs, "open_connection", lambda *_, **__: made.asked.append("opened") or object())
    monkeypatch.setattr(life_signs, "close_quietly", lambda _session: made.asked.append("closed"))
    return made


def signs(world: World, *partitions: TopicPartition, seconds: float = 30) -> LifeSigns:
    """Of a run that has claimed epoch 4."""
    context: Any = SimpleNamespace(kafka=None, login=None, config=SinkConfig("orders", heartbeat_seconds=seconds))
    table: Any = world
    made = LifeSigns(context, table)
    made.begin("id", min(partitions, default=None))
    return made


def pass_seconds(clock: Clock, life: LifeSigns, seconds: int) -> list[FirnError]:
    """What ends the run, asked each second as a driver does."""
    found = []
    for _ in range(seconds):
        if error := life.send_if_due(idle=True):
            found.append(error)
        clock.now += 1
    return found


def test_an_idle_hour_is_signs_in_kafka_and_no_statement_in_snowflake(clock: Clock, world: World) -> None:
    assert pass_seconds(clock, signs(world, P1, P0), 3600) == []
    assert world.signs == [(P0, 4, True, False)] * 120
    assert world.asked == []


def test_a_sign_gives_the_rates_since_the_sign_before(clock: Clock, world: World) -> None:
    life = signs(world, P0)
    pass_seconds(clock, life, 30)
    life.loaded(300, 6_000)
    life.loaded(300, 3_000)
    pass_seconds(clock, life, 31)
    assert world.rates[1:] == [Rates(20.0, 300.0), Rates(0.0, 0.0)]


def test_without_heartbeats_there_are_no_signs(clock: Clock, world: World) -> None:
    life = signs(world, P0, seconds=0)
    pass_seconds(clock, life, 3600)
    life.ended()
    assert (world.signs, world.asked) == ([], [])


def test_where_kafka_refuses_the_ledger_gets_heartbeats_and_both_changes_are_said_once(
    clock: Clock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    life, world.takes = signs(world, P0), False
    pass_seconds(clock, life, 120)
    assert world.asked == ["opened", "beat", "beat", "beat"]  # the claim was a sign of life itself
    (said,) = caplog.messages
    assert "firn-sign-id-orders" in said
    assert "READ on group" in said
    world.takes = True
    pass_seconds(clock, life, 120)
    assert world.asked[4:] == ["closed"]
    assert len(world.signs) == 4
    assert [message for message in caplog.messages if "again" in message] == caplog.messages[1:]


def test_a_kafka_that_does_not_answer_is_waited_for_some_seconds_only(clock: Clock, world: World) -> None:
    life, world.takes = signs(world, P0), None
    pass_seconds(clock, life, 30)
    assert world.asked == []  # the claim is fresh
    pass_seconds(clock, life, 7)
    assert world.asked == ["opened", "beat"]


def test_an_answer_that_comes_late_is_an_answer(clock: Clock, world: World) -> None:
    life = signs(world, P0)
    pass_seconds(clock, life, 30)
    world.takes = None
    pass_seconds(clock, life, 3)
    world.takes = True
    pass_seconds(clock, life, 20)
    assert world.asked == []


def test_a_commit_is_a_sign_of_life_in_the_ledger_too(clock: Clock, world: World) -> None:
    life, world.takes = signs(world, P0), False
    for _ in range(12):
        pass_seconds(clock, life, 10)
        life.moved()
    assert "beat" not in world.asked


def test_a_sink_without_a_partition_has_no_place_for_signs(
    clock: Clock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    pass_seconds(clock, signs(world), 61)
    assert world.asked == ["opened", "beat", "beat"]
    assert "the sink has no partition yet" in caplog.text


def test_only_the_ledger_ends_a_run_that_sees_a_newer_one(clock: Clock, world: World) -> None:
    life = signs(world, P0)
    pass_seconds(clock, life, 30)
    world.newest, world.answers = 5, [TransientError("away"), FencedError("newer")]
    before = len(world.signs)
    assert pass_seconds(clock, life, 30) == []  # nobody knows: it is asked again
    (error,) = pass_seconds(clock, life, 1)
    assert isinstance(error, FencedError)
    assert world.asked == ["opened", "check", "closed", "opened", "check", "closed"]
    assert len(world.signs) == before + 1  # the newer run's sign is not written over


def test_a_higher_epoch_that_the_ledger_does_not_know_is_ignored_and_said_once(
    clock: Clock, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    life, world.newest = signs(world, P0), 9
    assert pass_seconds(clock, life, 120) == []
    assert world.asked == ["opened", "check"]
    assert len(world.signs) == 4
    assert caplog.text.count("is ignored") == 1


def test_a_lower_epoch_is_written_over(clock: Clock, world: World) -> None:
    world.newest = 3
    pass_seconds(clock, signs(world, P0), 1)
    assert world.signs == [(P0, 4, True, False)]
    assert world.asked == []


def test_signs_that_cannot_be_read_are_written_all_the_same(clock: Clock, world: World) -> None:
    world.unreadable = TransientError("slow")
    pass_seconds(clock, signs(world, P0), 60)
    assert len(world.signs) == 2
    assert world.asked == []


@pytest.mark.parametrize(
    ("error", "ends"),
    [(LockConflictError("busy"), False), (TransientError("away"), False), (AuthenticationError("no"), True)],
)
def test_a_heartbeat_that_fails_ends_a_run_only_where_nobody_can_mend_it(
    clock: Clock, world: World, *, error: FirnError, ends: bool
) -> None:
    life, world.takes, world.answers = signs(world, P0), False, [error]
    assert pass_seconds(clock, life, 60) == ([error] if ends else [])


def test_the_orderly_end_is_said(clock: Clock, world: World) -> None:
    life = signs(world, P0)
    pass_seconds(clock, life, 1)
    life.ended()
    assert world.signs[-1] == (P0, 4, True, True)


def test_a_new_claim_is_said_at_once(clock: Clock, world: World) -> None:
    life = signs(world, P0)
    pass_seconds(clock, life, 5)
    world.held = 5
    life.begin("id", P1)
    pass_seconds(clock, life, 1)
    assert world.signs[-1] == (P1, 5, True, False)


def test_an_epoch_that_the_run_raised_itself_is_said_at_once(clock: Clock, world: World) -> None:
    life = signs(world, P0)
    pass_seconds(clock, life, 5)
    world.held = 5
    pass_seconds(clock, life, 2)
    assert [epoch for _, epoch, _, _ in world.signs] == [4, 5]


def test_an_epoch_that_the_run_raised_itself_is_no_newer_run(clock: Clock, world: World) -> None:
    """As at the orderly end of a streaming run, while its channels are opened."""
    life, world.takes = signs(world, P0), False

    def raised(_session: object, _epoch: int) -> None:
        world.held = 5
        raise FencedError("not the epoch that was asked for")

    world.beat = raised  # type: ignore[method-assign]
    assert pass_seconds(clock, life, 31) == []
    world.takes = True
    pass_seconds(clock, life, 30)
    assert world.signs[-1] == (P0, 5, True, False)
