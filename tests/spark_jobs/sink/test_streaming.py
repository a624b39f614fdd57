"""How a running query ends: the batch in its own time for a new plan, within a deadline for a stop, never a hang."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from firn.errors import FencedError, TransientError
from spark_jobs.sink import streaming
from spark_jobs.sink.batch import StopRequestedError
from spark_jobs.sink.streaming import RunningQuery


class NewPlanError(TransientError):
    """A reason to end that is no stop."""


class Query:
    """A query that never ends by itself and notes when it is stopped."""

    name = "q-1"

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses, self.stopped = refuses, threading.Event()

    def awaitTermination(self, _seconds: int) -> bool:  # noqa: N802
        return False

    def stop(self) -> None:
        self.stopped.set()
        if self.refuses:
            raise Py4JError("java.util.concurrent.TimeoutException: the query did not stop")


def running(query: Query, stop: threading.Event, failure: Exception | None = None) -> tuple[RunningQuery, Any]:
    runner = SimpleNamespace(failure=failure, stopping=threading.Event(), idle=threading.Lock())
    return RunningQuery(query, runner, stop), runner  # type: ignore[arg-type]


def test_a_new_plan_waits_for_the_batch_that_is_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "STOP_SECONDS", 0.01)
    query, stop = Query(), threading.Event()
    waiting, runner = running(query, stop)
    runner.idle.acquire()
    asked = threading.Event()

    def reason() -> TransientError:
        asked.set()
        return NewPlanError("again")

    errors: list[BaseException] = []

    def wait() -> None:
        try:
            waiting.wait(reason)
        except TransientError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert asked.wait(5)
    assert not query.stopped.wait(1)  # far beyond the deadline of a stop
    runner.idle.release()
    thread.join(10)
    assert query.stopped.is_set()
    assert [type(error) for error in errors] == [NewPlanError]


def test_a_stop_gives_the_batch_a_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streaming, "STOP_SECONDS", 0.01)
    query, stop = Query(), threading.Event()
    waiting, runner = running(query, stop)
    runner.idle.acquire()
    stop.set()
    with pytest.raises(StopRequestedError):
        waiting.wait(lambda: NewPlanError("again"))
    assert query.stopped.is_set()


def test_a_query_that_does_not_stop_in_time_is_no_error_of_its_own() -> None:
    waiting, _ = running(Query(refuses=True), threading.Event())
    with pytest.raises(NewPlanError):
        waiting.wait(lambda: NewPlanError("again"))


def test_what_a_person_must_see_is_raised_before_any_reason_to_end() -> None:
    waiting, _ = running(Query(), threading.Event(), failure=FencedError("newer run"))
    with pytest.raises(FencedError):
        waiting.wait(lambda: NewPlanError("again"))
