"""One deadline for all that is tried again."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable

import pytest

from firn.errors import TerminalError, TransientError
from firn.retry import RETRIES, Deadline, with_retries, with_retries_until


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def failing(times: int, error: Exception) -> tuple[list[int], Callable[[], str]]:
    calls: list[int] = []

    def call() -> str:
        calls.append(len(calls))
        if len(calls) <= times:
            raise error
        return "done"

    return calls, call


def test_a_deadline_counts_from_the_first_failure_and_anew_after_success() -> None:
    clock = Clock()
    deadline = Deadline(60, clock)
    clock.now += 1000
    assert deadline.left() == 60  # nothing has failed, however long it went well
    deadline.failed()
    clock.now += 20
    deadline.failed()
    assert deadline.left() == 40
    deadline.succeeded()
    assert deadline.left() == 60


def test_what_failed_elsewhere_counts_from_when_it_began_there() -> None:
    clock = Clock()
    deadline = Deadline(60, clock)
    deadline.failed(ago=45)
    assert deadline.left() == 15
    deadline.failed(ago=5)
    assert deadline.left() == 15


def test_transient_errors_are_tried_again_and_terminal_ones_are_not() -> None:
    calls, call = failing(2, TransientError("not yet"))
    assert with_retries(10, call) == "done"
    assert len(calls) == 3
    calls, call = failing(1, TerminalError("never"))
    with pytest.raises(TerminalError):
        with_retries(10, call)
    assert len(calls) == 1


def test_retries_within_retries_share_what_is_left() -> None:
    deadline = Deadline(0.3)
    calls, call = failing(1000, TransientError("down"))
    with pytest.raises(TransientError):
        with_retries_until(threading.Event(), deadline, lambda: with_retries(deadline, call))
    assert deadline.left() == 0
    assert len(calls) < 6  # a deadline for each would have been begun again and again


def test_retries_are_counted_by_their_kind_of_error_and_first_attempts_are_not() -> None:
    RETRIES.take()
    _, call = failing(2, TransientError("not yet"))
    with_retries(10, call)
    _, call = failing(1, TerminalError("never"))
    with pytest.raises(TerminalError):
        with_retries(10, call)
    assert RETRIES.counts() == {"TransientError": 2}
    assert RETRIES.take() == {"TransientError": 2}
    assert RETRIES.counts() == {}


def test_a_stop_ends_the_pause_between_two_attempts() -> None:
    stop = threading.Event()
    calls, call = failing(1000, TransientError("down"))

    def attempt() -> str:
        if len(calls) == 1:
            stop.set()
        return call()

    with pytest.raises(TransientError):
        with_retries_until(stop, Deadline(1000), attempt)
    assert len(calls) == 2


def test_any_answer_but_a_passing_fault_begins_the_patience_anew() -> None:
    clock = Clock()
    deadline = Deadline(60, clock)

    def refuse() -> None:
        clock.now += 1
        raise TerminalError("no such schema")

    with pytest.raises(TerminalError):
        with_retries(deadline, refuse)
    clock.now += 250
    assert deadline.failing_for() == 0


def test_threads_may_share_a_deadline() -> None:
    """Success on one thread, while another asks for how long it has been failing."""
    deadline, done = Deadline(60), threading.Event()

    def come_and_go() -> None:
        while not done.is_set():
            deadline.failed()
            deadline.succeeded()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # threads take turns between any two steps
    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        assert all(0 <= deadline.failing_for() < 60 for _ in range(50_000))
    finally:
        done.set()
        thread.join()
        sys.setswitchinterval(before)


def test_work_that_runs_for_long_says_its_reason_each_time_it_starts_over(caplog: pytest.LogCaptureFixture) -> None:
    _, call = failing(3, TransientError("Kafka\ndoes not answer."))
    assert with_retries_until(threading.Event(), Deadline(60), call) == "done"
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    assert all(record.getMessage().startswith("Kafka does not answer. Trying again") for record in caplog.records)


def test_a_single_call_says_its_reason_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "firn.retry")
    _, call = failing(3, TransientError("not yet"))
    assert with_retries(60.0, call) == "done"
    said = [record.levelname for record in caplog.records if record.name == "firn.retry"]  # not other tests' threads
    assert said == ["WARNING", "DEBUG", "DEBUG"]
