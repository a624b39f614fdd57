"""How one epoch's batches overlap: commits in order, a fault held until its turn, and nothing left behind at an end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from firn.dead_letters.published import PartitionLetters
from firn.errors import FencedError, FirnError, TransientError
from firn.kafka.partitions import OffsetRange, TopicPartition
from firn.ledger.positions import Ledger, Move
from spark_jobs.sink import stream as streams
from spark_jobs.sink.batch import StopRequestedError
from spark_jobs.sink.dispatch import with_letters_of
from spark_jobs.sink.planner import Planner
from spark_jobs.sink.stream import Stream
from spark_jobs.sink.values.batches import CommittedBatch, DispatchedBatch, PublishedLetters
from spark_jobs.sink.values.reports import Cut, RangeRead, Report, Reports, Stopped, Tolerated
from spark_jobs.spark.engine import EngineFailedError, EpochEngine

P0 = TopicPartition("t", 0)
SECONDS = 10.0


class NewPlanError(TransientError):
    """A reason to end that is no stop."""


class Plan(Planner):
    """Ten offsets a batch, so many batches; `done` behind the last one where a run takes what is available."""

    def __init__(self, batches: int, *, once: bool = True) -> None:
        self._batches, self._once = batches, once

    def next(self, positions: Any) -> list[OffsetRange]:
        at = positions[P0]
        return [OffsetRange("t", 0, at, at + 10)] if at < 10 * self._batches else []

    def done(self, positions: Any) -> bool:
        return self._once and positions[P0] >= 10 * self._batches


class Runner:
    """Dispatches and commits as a test says, and notes what happens in which order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.published: list[frozenset[int]] = []
        self.before_dispatch: dict[int, Callable[[Callable[[], None]], object]] = {}
        self.before_commit: dict[int, Callable[[], object]] = {}
        self.more: dict[int, list[Report]] = {}

    def dispatch(
        self, number: int, ranges: Sequence[OffsetRange], published: PublishedLetters, wait: Callable[[], None]
    ) -> DispatchedBatch:
        self.events.append(f"dispatch {number}")
        self.published.append(published.get(P0, PartitionLetters()).published)
        self.before_dispatch.get(number, lambda _wait: None)(wait)
        reports = Reports([RangeRead("t", 0, ranges[0].start, ranges[0].end, 10), *self.more.get(number, [])])
        self.events.append(f"dispatched {number}")
        return DispatchedBatch(f"1-{number}", reports, with_letters_of(published, reports.of(Tolerated)), 0.0)

    def commit(self, batch: DispatchedBatch, moves: tuple[Move, ...]) -> CommittedBatch:
        number = int(batch.name.split("-")[1])
        self.events.append(f"commit {number}")
        self.before_commit.get(number, lambda: None)()
        self.events.append(f"committed {number}")
        return CommittedBatch(batch.name, 10, 0, 0, 1, moves, tuple(batch.tolerated), 0.0, 0.0)

    def after(self, batch: DispatchedBatch, moves: tuple[Move, ...]) -> None:
        if batch.ends:
            raise NewPlanError("behind a stop")


class Engine:
    """Where nothing runs; knows whether it was told to give up."""

    slots = 1

    def __init__(self) -> None:
        self.cancelled = threading.Event()

    def run(self, *_: object) -> list[str]:
        return []

    def cancel(self) -> None:
        self.cancelled.set()


class Rig:
    """A stream with all that it needs."""

    def __init__(self, batches: int, *, once: bool = True) -> None:
        self.runner, self.engine, self.stop = Runner(), Engine(), threading.Event()
        self.ledger = Ledger("s", 1, {P0: 0})
        self.commits: list[str] = []
        self.stream = Stream(
            Plan(batches, once=once),
            self.runner,  # type: ignore[arg-type]
            self.ledger,
            self.engine,
            {},
            self.stop,
            seconds=0.0,
            on_commit=lambda batch: self.commits.append(batch.name),
        )

    def run(self, reason: Callable[[], FirnError | None] = lambda: None) -> None:
        self.stream.run(reason)

    @contextmanager
    def running(self, reason: Callable[[], FirnError | None] = lambda: None) -> Iterator[Future[None]]:
        with ThreadPoolExecutor() as pool:
            try:
                yield pool.submit(self.run, reason)
            finally:
                self.stop.set()


def reached(events: list[str], event: str) -> None:
    deadline = time.monotonic() + SECONDS
    while event not in events:
        assert time.monotonic() < deadline, events
        time.sleep(0.01)


def test_the_next_batch_is_read_while_one_commits_and_commits_stay_in_order() -> None:
    rig, dispatched = Rig(3), threading.Event()
    rig.runner.before_commit[0] = lambda: dispatched.wait(SECONDS)
    rig.runner.before_dispatch[1] = lambda _wait: dispatched.set()  # only while batch 0 still commits
    rig.run()
    events = rig.runner.events
    assert dispatched.is_set()
    assert events.index("dispatch 1") < events.index("committed 0") < events.index("commit 1")
    assert rig.commits == ["1-0", "1-1", "1-2"]
    assert rig.ledger.committed == {P0: 30}


def test_a_fault_of_the_next_batch_is_held_until_the_one_before_has_ended() -> None:
    rig, failed = Rig(2), threading.Event()
    rig.runner.before_commit[0] = lambda: failed.wait(SECONDS)

    def fail(_wait: Callable[[], None]) -> None:
        failed.set()
        raise FencedError("a fault of batch 1")

    rig.runner.before_dispatch[1] = fail
    with pytest.raises(FencedError, match="batch 1"):
        rig.run()
    assert rig.ledger.committed == {P0: 10}
    assert rig.commits == ["1-0"]


def test_a_failed_commit_drops_the_batch_behind_it() -> None:
    rig, cancelled = Rig(2), Rig(2).engine.cancelled
    rig.engine.cancelled = cancelled
    reading = threading.Event()

    def fail() -> None:
        assert reading.wait(SECONDS)
        raise TransientError("batch 0 does not commit")

    def read(_wait: Callable[[], None]) -> None:
        reading.set()
        assert cancelled.wait(SECONDS)

    rig.runner.before_commit[0], rig.runner.before_dispatch[1] = fail, read
    with pytest.raises(TransientError, match="batch 0"):
        rig.run()
    assert cancelled.is_set()
    assert "commit 1" not in rig.runner.events
    assert rig.ledger.committed == {P0: 0}


def test_who_waits_for_a_batch_that_fails_does_nothing_more() -> None:
    """Table changes of the next batch must not happen behind a batch that failed."""
    rig, waits, changed = Rig(2), threading.Event(), threading.Event()

    def fail() -> None:
        assert waits.wait(SECONDS)
        raise TransientError("batch 0 does not commit")

    def change(wait: Callable[[], None]) -> None:
        waits.set()
        wait()
        changed.set()

    rig.runner.before_commit[0], rig.runner.before_dispatch[1] = fail, change
    with pytest.raises(TransientError, match="batch 0"):
        rig.run()
    assert not changed.is_set()


def test_table_changes_wait_for_the_batch_before() -> None:
    rig = Rig(2)
    order: list[str] = []
    rig.runner.before_commit[0] = lambda: (reached(rig.runner.events, "dispatch 1"), order.append("committed"))

    def change(wait: Callable[[], None]) -> None:
        wait()
        order.append("changed")

    rig.runner.before_dispatch[1] = change
    rig.run()
    assert order == ["committed", "changed"]


@pytest.mark.parametrize("end", [Stopped("t", 0, 4, "r", "d"), Cut("t", 0, 4, "why")], ids=["stop", "cut"])
def test_nothing_is_planned_behind_a_stop_or_a_cut(end: Report) -> None:
    rig = Rig(3)
    rig.runner.more[0] = [end]
    with pytest.raises(NewPlanError):
        rig.run()
    assert "dispatch 1" not in rig.runner.events
    assert rig.ledger.committed == {P0: 4}


def test_dead_letters_of_a_batch_that_commits_are_known_to_the_next_until_they_are_durable() -> None:
    rig = Rig(3)
    rig.runner.more[0] = [Tolerated("t", 0, 1, 1, 7, {"r": 1}, [], [4])]
    rig.runner.before_commit[0] = lambda: reached(rig.runner.events, "dispatch 1")
    rig.run()
    assert rig.runner.published == [frozenset(), frozenset({4}), frozenset()]


def test_a_stop_brings_what_is_under_way_to_its_end() -> None:
    rig = Rig(5, once=False)
    rig.runner.before_commit[0] = lambda: (reached(rig.runner.events, "dispatch 1"), rig.stop.set())
    with pytest.raises(StopRequestedError):
        rig.run()
    assert rig.ledger.committed == {P0: 20}
    assert "dispatch 2" not in rig.runner.events


def test_a_stop_gives_what_is_under_way_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "STOP_SECONDS", 0.01)
    rig = Rig(1)

    def hang(_wait: Callable[[], None]) -> None:
        rig.stop.set()
        assert rig.engine.cancelled.wait(SECONDS)

    rig.runner.before_dispatch[0] = hang
    with pytest.raises(StopRequestedError):
        rig.run()
    assert rig.ledger.committed == {P0: 0}


def test_what_a_person_must_see_is_raised_before_a_stop() -> None:
    rig = Rig(1)

    def fail() -> None:
        rig.stop.set()
        raise FencedError("a newer run")

    rig.runner.before_commit[0] = fail
    with pytest.raises(FencedError):
        rig.run()


def test_a_new_plan_waits_for_the_batch_that_is_under_way() -> None:
    rig = Rig(5, once=False)
    asked = threading.Event()

    def reason() -> FirnError | None:
        if "dispatch 0" in rig.runner.events:
            asked.set()
            return NewPlanError("there are new partitions")
        return None

    rig.runner.before_dispatch[0] = lambda _wait: asked.wait(SECONDS)
    with pytest.raises(NewPlanError, match="new partitions"):
        rig.run(reason)
    assert rig.ledger.committed == {P0: 10}


def test_an_idle_stream_polls_again_and_takes_what_comes() -> None:
    rig = Rig(0, once=False)
    plan: Any = rig.stream._planner
    with rig.running() as done:
        deadline = time.monotonic() + SECONDS
        while not rig.stream.polled:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert rig.runner.events == []
        plan._batches = 1
        reached(rig.runner.events, "committed 0")
        rig.stop.set()
        with pytest.raises(StopRequestedError):
            done.result(SECONDS)
    assert rig.ledger.committed == {P0: 10}


def test_a_bug_is_told_from_a_fault() -> None:
    rig = Rig(1)
    rig.runner.before_commit[0] = lambda: 1 / 0
    with pytest.raises(FirnError, match="Unexpected ZeroDivisionError") as raised:
        rig.run()
    assert not isinstance(raised.value, TransientError)


def test_an_epoch_that_is_over_begins_no_job_whoever_was_about_to() -> None:
    engine = Engine()
    epoch = EpochEngine(engine)
    assert epoch.run(lambda groups: iter(()), [1]) == []
    epoch.cancel()
    assert engine.cancelled.is_set()
    with pytest.raises(EngineFailedError):
        epoch.run(lambda groups: iter(()), [1])


def test_the_last_commit_is_waited_for_without_a_busy_loop() -> None:
    rig, asked = Rig(1), 0

    def reason() -> FirnError | None:
        nonlocal asked
        asked += 1
        return None

    rig.runner.before_commit[0] = lambda: time.sleep(0.5)  # as a COPY takes its time
    rig.run(reason)
    assert asked < 20
