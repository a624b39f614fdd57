"""A child that is asked to stop by the signals that reach its parent, and answers."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from firn.child import run_child

ENDS_WITH_ITS_INPUT = """
import sys
print("ready", file=sys.stderr, flush=True)
sys.stdin.read()
print("answer")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_first_signal_asks_the_child_to_stop_and_its_answer_comes(number: int) -> None:
    before = signal.getsignal(number)
    command = [sys.executable, "-c", ENDS_WITH_ITS_INPUT]
    assert run_child(command, os.environ, lambda _: os.kill(os.getpid(), number), finish=True) == (0, ["answer"])
    assert signal.getsignal(number) is before


def test_without_finish_an_interrupt_ends_both() -> None:
    command = [sys.executable, "-c", ENDS_WITH_ITS_INPUT]
    with pytest.raises(KeyboardInterrupt):
        run_child(command, os.environ, lambda _: os.kill(os.getpid(), signal.SIGINT))
