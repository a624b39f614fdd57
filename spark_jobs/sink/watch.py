"""Why an epoch that runs should end, or is known to be well: asked every second by the driver's main thread.

Not for ending it (`streaming`), nor for what follows (`run`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from firn.errors import FirnError
from firn.retry import Deadline
from spark_jobs.sink.batch import BatchRunner, PlanAgainError
from spark_jobs.sink.limits import BatchLimit

log = logging.getLogger(__name__)


class Heartbeat:
    """Tells the ledger that this run lives, and learns from it whether it still owns the sink.

    A commit says the same, so an idle sink alone sends heartbeats. `seconds` between two; 0: none.
    """

    def __init__(self, beat: Callable[[], None], seconds: float) -> None:
        self._beat, self._seconds = beat, seconds
        self._last = time.monotonic()

    def committed(self) -> None:
        """A commit moved the owner row."""
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether the ledger has not heard of this run for long enough."""
        return self._seconds > 0 and time.monotonic() - self._last >= self._seconds

    def send(self) -> None:
        """Raises FencedError when a newer run owns the sink."""
        self._beat()
        self._last = time.monotonic()


class Watch:
    """One epoch's watch. `changed` looks for new topics and partitions every `look_seconds`; None: never."""

    def __init__(
        self,
        runner: BatchRunner,
        heartbeat: Heartbeat,
        limit: BatchLimit,
        deadline: Deadline,
        changed: Callable[[], bool] | None,
        look_seconds: float,
    ) -> None:
        self._runner, self._heartbeat, self._limit, self._deadline = runner, heartbeat, limit, deadline
        self._changed, self._look_seconds = changed, look_seconds
        self._next_look = time.monotonic() + look_seconds

    def __call__(self) -> FirnError | None:
        """Why the epoch should end now, if it should."""
        if self._limit.outgrown():
            return PlanAgainError("Records changed their size: batches get another limit.")
        if self._changed and time.monotonic() > self._next_look:
            self._next_look = time.monotonic() + self._look_seconds
            if self._look(self._changed):
                return PlanAgainError("There are new partitions: the sink claims them.")
        return self._beat() if self._heartbeat.due() else None

    def _look(self, changed: Callable[[], bool]) -> bool:
        try:
            found = changed()
        except FirnError as error:
            log.warning("New partitions could not be looked for: %s", error.what)
            return False
        if not self._runner.idle.locked():
            self._deadline.succeeded()  # Kafka answers and no batch has failed: what failed before this epoch is over
        return found

    def _beat(self) -> FirnError | None:
        """The session is the batches': while one commits there is nothing to tell."""
        if not self._runner.session.acquire(blocking=False):
            return None
        try:
            self._heartbeat.send()
        except FirnError as error:
            return error
        finally:
            self._runner.session.release()
        return None
