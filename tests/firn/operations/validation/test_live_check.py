"""Live checks side by side: each has its say, whatever the others meet."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from firn.errors import TransientError
from firn.operations.validation.live_check import LiveCheck, Task, run_tasks

FINE = LiveCheck("b", "ok", "there")


def test_one_failure_hides_nothing_and_keeps_its_next_step():
    def half_way() -> Iterator[LiveCheck]:
        yield FINE
        raise TransientError("It is down.", where="host:1", next_step="Start it.")

    found = run_tasks([Task("a", half_way), Task("c", lambda: [FINE])])
    assert found == [FINE, LiveCheck("a", "failed", "It is down. (host:1)", "Start it."), FINE]


def test_an_unexpected_error_is_named_without_its_text():
    def broken() -> list[LiveCheck]:
        raise ValueError("p4ssw0rd")

    (found,) = run_tasks([Task("a", broken)])
    assert found.state == "failed"
    assert "ValueError" in found.found
    assert "p4ssw0rd" not in repr(found)


def test_what_hangs_is_given_up_and_the_rest_is_shown():
    released = threading.Event()

    def hangs() -> list[LiveCheck]:
        released.wait(30)
        return []

    try:
        found = run_tasks([Task("slow", hangs), Task("b", lambda: [FINE])], seconds=0.2)
    finally:
        released.set()
    assert [check.subject for check in found] == ["slow", "b"]
    assert [check.state for check in found] == ["failed", "ok"]
