"""A child that is asked, stopped and killed, and of which nothing lives on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from firn import child as module
from firn.child import Child, first_signal, run_child
from tests.support.sinks import wait_until

ENDS_WITH_ITS_INPUT = """
import sys
print("ready", file=sys.stderr, flush=True)
sys.stdin.read()
print("answer")
"""
# Deaf to TERM, and with a child of its own that is, too.
DEAF = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
own = subprocess.Popen(["sleep", "600"])
print(own.pid, file=sys.stderr, flush=True)
time.sleep(600)
"""


def python(script: str) -> list[str]:
    return [sys.executable, "-c", script]


@pytest.fixture
def heard() -> list[str]:
    return []


@pytest.fixture
def deaf(heard: list[str]) -> Iterator[tuple[Child, psutil.Process]]:
    """A child that ignores TERM, and its own child."""
    with Child(python(DEAF), os.environ, heard.append) as child:
        wait_until(lambda: heard, what="it started")
        yield child, psutil.Process(int(heard[0]))
        child.kill()


def gone(process: psutil.Process) -> bool:
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_first_signal_asks_the_child_to_stop_and_its_answer_comes(number: int) -> None:
    before = signal.getsignal(number)
    command = python(ENDS_WITH_ITS_INPUT)
    with Child(command, os.environ, lambda _: os.kill(os.getpid(), number)) as child, first_signal(child.ask):
        assert child.wait() == 0
    assert child.answer == ["answer"]
    assert signal.getsignal(number) is before


def test_an_interrupt_ends_both() -> None:
    with pytest.raises(KeyboardInterrupt):
        run_child(python(ENDS_WITH_ITS_INPUT), os.environ, lambda _: os.kill(os.getpid(), signal.SIGINT))


def test_a_child_that_is_asked_ends_in_its_own_time(heard: list[str]) -> None:
    with Child(python(ENDS_WITH_ITS_INPUT), os.environ, heard.append) as child:
        assert child.poll() is None
        child.ask()
        child.ask()  # who asks twice gets no error
        assert child.wait(30) == 0
        assert (child.answer, heard) == (["answer"], ["ready"])
        assert child.poll() == 0


def test_a_child_that_is_deaf_is_killed_at_the_deadline_with_all_it_started(
    deaf: tuple[Child, psutil.Process],
) -> None:
    child, own = deaf
    begun = time.monotonic()
    assert child.stop(0.3) == -signal.SIGKILL
    assert time.monotonic() - begun < 20
    wait_until(lambda: gone(own), what="its own child ends")


def test_a_frozen_child_is_killed_at_the_deadline(deaf: tuple[Child, psutil.Process]) -> None:
    child, own = deaf
    os.kill(child.pid, signal.SIGSTOP)
    assert child.stop(0.3) == -signal.SIGKILL
    wait_until(lambda: gone(own), what="its own child ends")


def test_what_a_killed_child_started_is_gone_once_its_end_is_known(deaf: tuple[Child, psutil.Process]) -> None:
    child, own = deaf
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait(30) == -signal.SIGKILL
    wait_until(lambda: gone(own), what="its own child ends")


def test_a_child_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    pids = tmp_path / "pid"
    script = (
        "import os, time; from pathlib import Path; from firn.child import Child\n"
        f"child = Child([{sys.executable!r}, '-c', {ENDS_WITH_ITS_INPUT!r}], os.environ, lambda _: None)\n"
        f"Path({str(pids)!r}).write_text(str(child.pid)); time.sleep(600)"
    )
    parent = subprocess.Popen(python(script))
    try:
        wait_until(lambda: pids.exists() and pids.read_text(), what="it started")
        own = psutil.Process(int(pids.read_text()))
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: gone(own), what="the child ends with its parent")


def test_only_the_newest_of_a_long_answer_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_CHARACTERS", 1000)
    code, lines = run_child(python("for n in range(10_000): print(n)"), os.environ, lambda _: None)
    assert code == 0
    assert lines[-1] == "9999"
    assert sum(map(len, lines)) <= 1000


def test_a_listener_that_fails_does_not_stop_the_child() -> None:
    def fail(_line: str) -> None:
        raise RuntimeError

    chatty = "import sys\nfor n in range(5000): print('x' * 100, file=sys.stderr)\nprint('done')"
    assert run_child(python(chatty), os.environ, fail) == (0, ["done"])
