"""A run says that it lives while its main thread is busy, and says nothing for one that hangs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from firn.errors import FencedError, FirnError
from firn.kafka.partitions import TopicPartition
from spark_jobs.sink.sign_thread import VOUCH_SECONDS, SignThread
from tests.support.sinks import wait_until

P0 = TopicPartition("t", 0)


class Signs:
    """Signs that are due at each look; `fault` ends the run, `busy` keeps one under way."""

    def __init__(self) -> None:
        self.written: list[bool] = []
        self.fault: FirnError | None = None
        self.busy = threading.Event()
        self.busy.set()
        self.begun, self.closed, self.last = 0, 0, 0

    def begin(self, _ledger_id: str, _where: TopicPartition | None) -> None:
        self.begun += 1

    def send_if_due(self, *, idle: bool) -> FirnError | None:
        self.busy.wait(20)
        self.written.append(idle)
        return self.fault

    def ended(self) -> None:
        self.last += 1

    def close(self) -> None:
        self.closed += 1


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def writing(signs: Signs, clock: Clock | None = None) -> Iterator[SignThread]:
    """The thread of an epoch that has begun."""
    given: Any = signs
    thread = SignThread(given, clock=clock or Clock(), tick=0.001)
    thread.begin("id", P0)
    try:
        yield thread
    finally:
        signs.busy.set()
        thread.close()


def more(signs: Signs, count: int = 5) -> None:
    """Returns once so many more signs are written."""
    wanted = len(signs.written) + count
    wait_until(lambda: len(signs.written) >= wanted, seconds=20, what="signs")


def test_signs_are_written_while_the_main_thread_says_nothing() -> None:
    signs, clock = Signs(), Clock()
    with writing(signs, clock) as thread:
        assert thread.alive(idle=True) is None
        more(signs)
        clock.now = VOUCH_SECONDS - 1  # it accounts for rows, say
        more(signs)
    assert signs.written[-1] is True


def test_a_main_thread_that_hangs_is_not_spoken_for_until_it_comes_back() -> None:
    signs, clock = Signs(), Clock()
    with writing(signs, clock) as thread:
        more(signs)
        clock.now = VOUCH_SECONDS
        more(signs, 0)
        silent = threading.Event()
        before = len(signs.written) + 1  # one may have been under way
        assert not silent.wait(0.2)
        assert len(signs.written) <= before
        assert thread.alive(idle=False) is None
        more(signs)
    assert signs.written[-1] is False


def test_what_ends_the_run_reaches_the_main_thread_and_no_sign_follows() -> None:
    signs = Signs()
    signs.fault = FencedError("a newer run")
    with writing(signs) as thread:
        wait_until(lambda: thread.alive(idle=True) is signs.fault, seconds=20, what="the fault")
        assert len(signs.written) == 1
        thread.close()
        signs.fault = None
        thread.begin("id", P0)  # claimed again: the ledger said that it may
        assert thread.alive(idle=True) is None


def test_an_epoch_begins_once_and_its_end_is_the_last_sign() -> None:
    signs = Signs()
    with writing(signs) as thread:
        thread.begin("id", P0)  # Kafka was asked a second time
        assert signs.begun == 1
        thread.ended()
        written = len(signs.written)
        assert (signs.closed, signs.last) == (1, 1)
        thread.begin("id", P0)
        more(signs)
        assert signs.begun == 2
    assert len(signs.written) > written


def test_a_fault_that_nobody_foresaw_ends_the_run() -> None:
    signs = Signs()

    def broken(*, idle: bool) -> None:
        raise KeyError(idle)

    signs.send_if_due = broken  # type: ignore[method-assign, assignment]
    with writing(signs) as thread:
        wait_until(lambda: thread.alive(idle=True) is not None, seconds=20, what="the fault")
        assert "KeyError" in str(thread.alive(idle=True))
