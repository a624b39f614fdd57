"""CPU seconds of everything that takes part: this process with all its children, and the servers it talks to."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Reading:
    """Wall-clock seconds, and CPU seconds by part (`client` is this process and its children)."""

    wall: float
    cpu: Mapping[str, float]

    def since(self, earlier: Reading) -> Reading:
        """What was used between two readings."""
        return Reading(self.wall - earlier.wall, {part: self.cpu[part] - earlier.cpu[part] for part in self.cpu})

    @property
    def total(self) -> float:
        """CPU seconds of all parts together."""
        return sum(self.cpu.values())


class Meter:
    """Reads the kernel's accounting of process trees. `servers` maps a part's name to the pid of its root process."""

    def __init__(self, servers: Mapping[str, int]) -> None:
        roots = {"client": psutil.Process(), **{name: psutil.Process(pid) for name, pid in servers.items()}}
        self._trees = {part: ProcessTree(root) for part, root in roots.items()}

    def read(self) -> Reading:
        """The counters now."""
        return Reading(time.monotonic(), {part: tree.seconds() for part, tree in self._trees.items()})


@dataclass(frozen=True)
class _Times:
    """CPU seconds of one process: its own, and those of the children that it has waited for."""

    own: float
    waited: float


class ProcessTree:
    """User and system seconds of a process, its descendants, and those that have ended.

    PySpark's daemon does not wait for its workers, so the kernel adds the time of one that ends to nobody. What it had
    used at the reading before is kept here, and what it used after that is not seen.
    """

    def __init__(self, root: psutil.Process) -> None:
        self.root = root
        self._last: dict[psutil.Process, _Times] = {}
        self._lost = 0.0

    def seconds(self) -> float:
        """The counter now; it never falls."""
        now = dict(self._times())
        ended = sum(times.own + times.waited for process, times in self._last.items() if process not in now)
        taken = sum(
            times.waited - self._last[process].waited for process, times in now.items() if process in self._last
        )
        self._lost += max(0.0, ended - taken)
        self._last = now
        return self._lost + sum(times.own + times.waited for times in now.values())

    def _times(self) -> Iterator[tuple[psutil.Process, _Times]]:
        for process in (self.root, *self.root.children(recursive=True)):
            try:
                times = process.cpu_times()
            except psutil.NoSuchProcess:  # ended between the listing and the reading
                continue
            yield process, _Times(times.user + times.system, times.children_user + times.children_system)
