"""Keeps one real sink running, as a supervisor would: starts its driver again after a crash or a transient end.

Exit codes 1, 4 and signals mean again, after a short pause; 0 where a stop was asked for; 5 for a driver that another
one has displaced. Anything else is a verdict of its own: it stands in `failures`.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from firn.errors import FencedError, TransientError
from firn.settings import PROJECT_ROOT
from firn_local import process
from firn_local.process import Launch
from tests.soak.stack import SoakStack
from tests.support.sinks import wait_until

_POLL = 0.1
_PAUSES = (0.5, 1.0, 2.0, 4.0)
_STEADY_SECONDS = 20.0
MOST_QUICK_ENDS = 6
_LAST_LINES = 12
STOP_SECONDS = 100


@dataclass
class Driver:
    """One process of the sink. `may_end` are exit codes that a fault explains."""

    number: int
    process: subprocess.Popen[bytes]
    log: Path
    began: float = field(default_factory=time.monotonic)
    may_end: set[int] = field(default_factory=set)

    @property
    def family(self) -> list[psutil.Process]:
        """The driver, Spark's JVM and the Python workers; empty once it has ended."""
        try:
            driver = psutil.Process(self.process.pid)
            return [driver, *driver.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def workers(self) -> list[psutil.Process]:
        """The Python workers that are there now: children of Spark's daemon."""
        daemons = {member.pid for member in self.family if _is_daemon(member)}
        return [member for member in self.family if _parent(member) in daemons]

    def ended(self, code: int, seconds: float) -> str:
        """Wait for this driver to end with `code`; fails where it does not. Returns a sentence about it."""
        wait_until(lambda: self.process.poll() is not None, seconds=seconds, what=f"driver {self.number} ends")
        assert self.process.returncode == code, f"driver {self.number} ended with {self.process.returncode}, not {code}"
        return f"driver {self.number} (pid {self.process.pid}) ended with {code}"


class Keeper:
    """`driver` is the sink's driver now. The thread that watches it is the only one that starts it again."""

    def __init__(self, stack: SoakStack, config: Path, say: Callable[[str], None]) -> None:
        self._stack, self._config, self._say = stack, config, say
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="keeper", daemon=True)
        self._quick_ends = 0
        self.drivers: list[Driver] = []
        self.ends: Counter[str] = Counter()
        self.failures: list[str] = []

    @property
    def driver(self) -> Driver:
        """The driver that is watched."""
        return self.drivers[-1]

    @property
    def restarts(self) -> int:
        """How many drivers were started after the first."""
        return len(self.drivers) - 1

    def start(self) -> None:
        """Start the first driver and watch it."""
        self._launch()
        self._thread.start()

    def displace(self) -> tuple[Driver, Driver]:
        """Start another driver, which is the one that is watched from now on; returns the old and the new one."""
        with self._lock:
            old = self.driver
            old.may_end.add(FencedError.exit_code)
            return old, self._launch()

    def stop(self) -> str:
        """The orderly end: SIGTERM, and an exit code of 0. Returns what is wrong with it, or nothing."""
        self.abandon()
        last = self.driver.process
        if last.poll() is None:
            last.terminate()
        try:
            code = last.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            return "the sink did not end at SIGTERM"
        return "" if code == 0 else f"the sink ended with {code} at SIGTERM"

    def abandon(self) -> None:
        """Start no driver any more."""
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()

    def _launch(self) -> Driver:
        number = len(self.drivers) + 1
        log = self._stack.home.log(f"sink-{number}")
        command = [sys.executable, "-m", "spark_jobs.sink.job", str(self._config)]
        launch = Launch(command, PROJECT_ROOT, {"FIRN_HOME": str(self._stack.root)})
        driver = Driver(number, process.spawn(launch, log, self._stack.home.pid_file(f"sink-{number}")), log)
        self.drivers.append(driver)
        self._say(f"driver {number} started (pid {driver.process.pid})")
        return driver

    def _watch(self) -> None:
        while not self._end.wait(_POLL):
            with self._lock:
                if (code := self.driver.process.poll()) is not None:
                    self._ended(self.driver, code)

    def _ended(self, driver: Driver, code: int) -> None:
        self.ends[signal.Signals(-code).name if code < 0 else f"exit code {code}"] += 1
        self._say(f"driver {driver.number} ended with {code}")
        if not (code < 0 or code in {1, TransientError.exit_code} | driver.may_end):
            self._give_up(f"driver {driver.number} ended with {code}, which no fault explains", driver)
            return
        steady = time.monotonic() - driver.began > _STEADY_SECONDS
        self._quick_ends = 0 if steady else self._quick_ends + 1
        if self._quick_ends > MOST_QUICK_ENDS:
            self._give_up(f"the driver ended {self._quick_ends} times within seconds", driver)
            return
        if not self._end.wait(_PAUSES[min(self._quick_ends, len(_PAUSES) - 1)]):
            self._launch()

    def _give_up(self, why: str, driver: Driver) -> None:
        self.failures.append(f"{why}:\n{last_lines(driver)}")
        self._end.set()


def last_lines(driver: Driver) -> str:
    """The end of a driver's log, for a message."""
    lines = driver.log.read_text(errors="replace").splitlines()[-_LAST_LINES:]
    return "\n".join(f"    {line[:500]}" for line in lines)


def _is_daemon(member: psutil.Process) -> bool:
    try:
        return "spark_jobs.sink.task.daemon" in member.cmdline()
    except psutil.Error:
        return False


def _parent(member: psutil.Process) -> int | None:
    try:
        return member.ppid()
    except psutil.Error:
        return None
