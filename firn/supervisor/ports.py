"""What a supervisor asks of the world, as Protocols: launcher, clock, observer, control, publisher.

A test puts others in their place, and two hours pass in a second. Not for doing any of it: `launcher`, `sink_job` and
the flow do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:  # who launches a driver early imports none of these
    from firn.ledger.control_record import DesiredState, Diagnosis
    from firn.operations.observation import Depth, Observation
    from firn.supervisor.snapshot import Snapshot


class Driver(Protocol):
    """The process that does the job."""

    def poll(self) -> int | None:
        """Its exit code, None while it runs; afterwards nothing of its process group lives."""
        ...

    @property
    def answer(self) -> Sequence[str]:
        """The newest lines that it printed; the last JSON one is its report or its error."""
        ...

    def ask(self) -> None:
        """Ask for an orderly end; returns at once."""
        ...

    def stop(self, seconds: float) -> int:
        """TERM, after `seconds` KILL of all its processes; returns the exit code."""
        ...


class Launcher(Protocol):
    """Starts a driver whose log goes to `on_line` line by line, from another thread."""

    def __call__(self, on_line: Callable[[str], None]) -> Driver:
        """Start one. Raises OSError or FirnError where it cannot be started."""
        ...


class Observer(Protocol):
    """Looks at the job from outside: positions, who holds it, its desired state."""

    def look(self, depth: Depth) -> Observation:
        """Kafka, and so much of the rest; more where Kafka says that it changed. Raises FirnError without an answer."""
        ...

    def close(self) -> None:
        """End sessions and clients."""
        ...


class Control(Protocol):
    """Writes the job's row in the control table. Raises FirnError where Snowflake does not answer."""

    def report(self, diagnosis: Diagnosis, stats: Mapping[str, Any]) -> None:
        """How the job is, with its figures."""
        ...

    def request(self, desired: DesiredState, by: str) -> None:
        """Set the desired state."""
        ...


class Publisher(Protocol):
    """The audience: must return at once and never raise, whatever is down."""

    def emit(self, event: str, sentence: str, data: Mapping[str, Any]) -> None:
        """Something happened: `firn.<kind of job>.<event>`."""
        ...

    def show(self, snapshot: Snapshot) -> None:
        """How the job is now."""
        ...


class Clock(Protocol):
    """Time, and sleep that another thread can end."""

    def monotonic(self) -> float:
        """Seconds that only grow."""
        ...

    def utc(self) -> datetime:
        """Now."""
        ...

    def sleep(self, seconds: float) -> None:
        """Sleep for so long, or until woken."""
        ...

    def wake(self) -> None:
        """End the sleep; from any thread."""
        ...


class SystemClock:
    """The clock of this machine."""

    def __init__(self) -> None:
        self._woken = threading.Event()

    def monotonic(self) -> float:
        """Seconds since some time."""
        return time.monotonic()

    def utc(self) -> datetime:
        """Now."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Sleep for so long, or until woken."""
        self._woken.wait(seconds)
        self._woken.clear()

    def wake(self) -> None:
        """End the sleep."""
        self._woken.set()
