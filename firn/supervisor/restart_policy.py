"""What follows a driver's end: which event it is, how long the pause before a restart is, and when to give up.

Not for retries within a run (`firn.retry`), which have a deadline instead of a count.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from firn.supervisor.driver import DriverResult
from firn.supervisor.machine import DRIVING, Event, Phase

JITTER = 0.25
"""So much of a pause is left to chance, so that jobs which failed together do not restart together."""
FENCED_SECONDS = 30.0
"""How long it may stay unknown who took a job away: a run that lives, or a reset."""
WELL_SECONDS = 3600.0
"""A driver that held an idle job for so long was well, as after a commit: failures before it do not count."""


def exit_event(phase: Phase, result: DriverResult) -> Event:
    """Which event the end of a driver is."""
    if phase not in DRIVING:
        return Event.EXITED_WITH_ERROR if result.error else Event.EXITED
    if result.fenced:
        return Event.FENCED_OFF
    return Event.FAILED if result.final and result.error else Event.CRASHED


class RestartPolicy:
    """Pauses that double from `first` to `longest` seconds; after `cap` failures in a row without progress none."""

    def __init__(
        self, *, first: float = 1.0, longest: float = 60.0, cap: int = 10, chance: Callable[[], float] = random.random
    ) -> None:
        self._first, self._longest, self._cap, self._chance = first, longest, cap, chance
        self.failures = 0

    def failed(self) -> float | None:
        """Seconds to wait before the restart; None where there shall be none."""
        self.failures += 1
        if self.failures > self._cap:
            return None
        pause = min(self._longest, self._first * 2.0 ** (self.failures - 1))
        return pause * (1 - JITTER * self._chance())

    def progressed(self) -> None:
        """The job made progress: earlier failures do not count."""
        self.failures = 0
