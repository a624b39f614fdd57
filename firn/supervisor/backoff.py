"""How long a supervisor waits before it starts a driver again, and when it gives up. Not for retries within a run
(`firn.retry`), which have a deadline instead of a count.
"""

from __future__ import annotations

import random
from collections.abc import Callable

JITTER = 0.25
"""So much of a pause is left to chance, that sinks which fell together do not rise together."""


class Backoff:
    """Pauses that double from `first` to `longest` seconds; after `cap` failures in a row without progress no more."""

    def __init__(
        self, *, first: float = 1.0, longest: float = 60.0, cap: int = 10, chance: Callable[[], float] = random.random
    ) -> None:
        self._first, self._longest, self._cap, self._chance = first, longest, cap, chance
        self.failures = 0

    def failed(self) -> float | None:
        """Seconds to wait before the next start; None where there shall be none."""
        self.failures += 1
        if self.failures > self._cap:
            return None
        pause = min(self._longest, self._first * 2.0 ** (self.failures - 1))
        return pause * (1 - JITTER * self._chance())

    def progressed(self) -> None:
        """An offset was committed: what failed before counts no more."""
        self.failures = 0
