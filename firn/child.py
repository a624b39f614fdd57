"""A child process that never outlives its flow: own process group, TERM, a deadline, then KILL of the whole group.

The child gets a pipe as standard input and ends when it closes, so it also ends when this process is killed. Not for
what is started (callers), nor for starting it again (`firn.supervisor`).
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import IO, Self

TERM_SECONDS = 90.0
ANSWER_CHARACTERS = 16 * 1024 * 1024
"""So much of standard output is kept, the newest: a child that runs for weeks must not fill its parent."""
_LINE_CHARACTERS = ANSWER_CHARACTERS // 4
_LAST_LINES_SECONDS = 10.0
log = logging.getLogger(__name__)


class Child:
    """One process and all that it starts. Safe to use from several threads; as a context it is over at its end.

    stderr goes to `on_line` line by line, in a thread of its own. Raises OSError where the command cannot be started.
    """

    def __init__(self, command: Sequence[str], env: Mapping[str, str], on_line: Callable[[str], None]) -> None:
        self._process = subprocess.Popen(
            list(command),
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        self._answer = _Tail()
        self._ending = threading.Lock()
        self._code: int | None = None
        pumps = ((self._process.stdout, self._answer.add), (self._process.stderr, on_line))
        self._pumps = [threading.Thread(target=_pump, args=pump, daemon=True) for pump in pumps]
        for pump in self._pumps:
            pump.start()

    @property
    def pid(self) -> int:
        """Its process id, which is its group's too."""
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, or None while it runs; a negative one is the number of the signal that ended it.

        Once it has ended, the rest of its group is gone and all its output was read.
        """
        return self._over() if self._process.poll() is not None else None

    def wait(self, seconds: float | None = None) -> int | None:
        """As `poll`, after waiting so many seconds for its end, or without a limit."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.poll()

    @property
    def answer(self) -> list[str]:
        """The newest lines of standard output."""
        return self._answer.lines()

    def ask(self) -> None:
        """Ask for an orderly end by closing its input, which reaches also a child that is still starting."""
        if self._process.stdin and not self._process.stdin.closed:
            with suppress(BrokenPipeError):
                self._process.stdin.close()

    def stop(self, seconds: float = TERM_SECONDS) -> int:
        """End it: TERM to the leader, which needs its own children for an orderly end; after `seconds` KILL to all."""
        try:
            if self._process.poll() is None:
                self._process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    self._process.wait(seconds)
        finally:  # also where an impatient second Ctrl-C interrupts the wait
            code = self._over()
        return code

    def kill(self) -> int:
        """End it and its group at once."""
        return self.stop(0)

    def _over(self) -> int:
        with self._ending:
            if self._code is None:  # once: later another group may have its number
                with suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
                code = self._process.wait()
                for pump in self._pumps:
                    pump.join(_LAST_LINES_SECONDS)
                self.ask()
                self._code = code
            return self._code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


def run_child(command: Sequence[str], env: Mapping[str, str], on_line: Callable[[str], None]) -> tuple[int, list[str]]:
    """Run to the end; stderr goes to `on_line` line by line. Returns the exit code and the newest lines of stdout.

    A negative exit code is the number of the signal that ended the child. Whatever interrupts the caller (a
    cancelled flow, Ctrl-C) ends the child first.
    """
    with Child(command, env, on_line) as child:
        code = None
        while code is None:
            code = child.wait()
    return code, child.answer


@contextmanager
def first_signal(
    react: Callable[[], None], enabled: bool = True, *, numbers: Iterable[int] = (signal.SIGINT, signal.SIGTERM)
) -> Iterator[None]:
    """Where `enabled`, the first of these signals calls `react` instead of what it did; the next does that again.

    Signals reach the main thread only: in another one nothing changes.
    """
    if not enabled or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in numbers}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(*_: object) -> None:
        restore()
        react()

    for number in before:
        signal.signal(number, ask)
    try:
        yield
    finally:
        restore()


class _Tail:
    """The newest lines of a stream, up to ANSWER_CHARACTERS."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque()
        self._characters = 0
        self._lock = threading.Lock()

    def add(self, line: str) -> None:
        """Keep a line; the oldest go where there are too many characters."""
        with self._lock:
            self._lines.append(line)
            self._characters += len(line) + 1
            while self._characters > ANSWER_CHARACTERS:
                self._characters -= len(self._lines.popleft()) + 1

    def lines(self) -> list[str]:
        """The lines that are kept, oldest first."""
        with self._lock:
            return list(self._lines)


def _pump(stream: IO[str], on_line: Callable[[str], None]) -> None:
    with stream:
        while line := stream.readline(_LINE_CHARACTERS):
            try:
                on_line(line.rstrip("\n"))
            except Exception:  # a full pipe would stop the child
                log.exception("a line of a child could not be dealt with")
