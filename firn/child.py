"""A child process that never outlives its flow: own process group, TERM, a deadline, then KILL of the whole group.

The child gets a pipe as standard input and ends when it closes, so it also ends when this process is killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO

TERM_SECONDS = 90.0


def run_child(
    command: Sequence[str], env: Mapping[str, str], on_line: Callable[[str], None], *, finish: bool = False
) -> tuple[int, list[str]]:
    """Run to the end; stderr goes to `on_line` line by line. Returns the exit code and the lines of stdout.

    A negative exit code is the number of the signal that ended the child. Whatever interrupts the caller (a
    cancelled flow, Ctrl-C) ends the child first. With `finish`, in the main thread, a first Ctrl-C or SIGTERM is the
    child's ordinary end: it is asked to stop and its answer is returned.
    """
    with _started(command, env) as process, _asked_to_stop_by_signals(process, finish):
        assert process.stdout is not None  # noqa: S101 - a pipe, as asked for
        assert process.stderr is not None  # noqa: S101
        reader = threading.Thread(target=_pump, args=(process.stderr, on_line), daemon=True)
        reader.start()
        text = process.stdout.read()
        code = process.wait()
        reader.join()
    return code, text.splitlines()


@contextmanager
def _started(command: Sequence[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        list(command),
        env=dict(env),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _end(process)


@contextmanager
def _asked_to_stop_by_signals(process: subprocess.Popen[str], finish: bool) -> Iterator[None]:
    """A first signal closes the child's standard input; a second one does what it did before.

    Closing is heard also by a child that is still starting, which a signal would kill without an answer.
    """
    if not finish or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def ask(*_: object) -> None:
        restore()
        if process.stdin:
            process.stdin.close()

    for number in before:
        signal.signal(number, ask)
    try:
        yield
    finally:
        restore()


def _end(process: subprocess.Popen[str]) -> None:
    """Ask the leader, which needs its own children (Spark's JVM) for an orderly end; then kill what is left."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(TERM_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe:
            pipe.close()


def _pump(stream: IO[str], on_line: Callable[[str], None]) -> None:
    for line in stream:
        on_line(line.rstrip("\n"))
