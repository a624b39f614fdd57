"""CPU seconds of everything that takes part: this process with all its children, and the servers it talks to."""

from __future__ import annotations

import time
from collections.abc import Mapping
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
        self._roots = {"client": psutil.Process(), **{name: psutil.Process(pid) for name, pid in servers.items()}}

    def read(self) -> Reading:
        """The counters now."""
        return Reading(time.monotonic(), {part: tree_seconds(root) for part, root in self._roots.items()})


def tree_seconds(root: psutil.Process) -> float:
    """User and system seconds of a process, its living descendants, and those it has waited for."""
    seconds = 0.0
    for process in (root, *root.children(recursive=True)):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:  # ended between the listing and the reading
            continue
        seconds += times.user + times.system + times.children_user + times.children_system
    return seconds
