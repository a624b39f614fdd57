"""One epoch's streaming query while it runs: waited for, watched, and ended without cutting a batch in half.

Not for what a batch does (`batch`), nor for why an epoch ends (`run`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql.streaming.query import StreamingQuery

from firn.errors import FirnError, TerminalError
from spark_jobs.sink.batch import BatchRunner, StopRequestedError
from spark_jobs.sink.spark_faults import cause

STOP_SECONDS = 40.0
"""How long the batch that is running may take to its end once a stop was asked for."""
log = logging.getLogger(__name__)


class RunningQuery:
    """A started query and the runner of its batches. Used by the driver's main thread; batches have their own."""

    def __init__(self, query: StreamingQuery, runner: BatchRunner, stop: threading.Event) -> None:
        self._query, self._runner, self._stop = query, runner, stop

    def wait(self, reason_to_end: Callable[[], FirnError | None]) -> None:
        """Wait for the query's end. `reason_to_end` is asked every second; what it gives ends the query and is raised.

        So does a stop that was asked for, as StopRequestedError.

        Raises the runner's own error rather than Spark's text about it.
        """
        try:
            while not self._query.awaitTermination(1):
                why = _asked_to_stop() if self._stop.is_set() else reason_to_end()
                if why is not None:
                    self._end(why)
        except PySparkException:
            if self._runner.failure:
                raise self._runner.failure from None
            raise

    def _end(self, why: FirnError) -> None:
        """Let the running batch end, refuse the next one, stop the query; raises `why`, or the batch's own fault."""
        self._runner.stopping.set()
        self._await_idle()
        try:
            self._query.stop()
        except Py4JError as error:
            # Spark's own time-out. The batch that goes on cannot commit once this or another run has claimed again.
            log.warning("Spark did not stop query %s in time: %s", self._query.name, cause(error))
        failure = self._runner.failure
        if self._stop.is_set() and not isinstance(failure, TerminalError):
            raise _asked_to_stop()
        if failure and not isinstance(failure, StopRequestedError):  # a batch that was refused tells nothing
            raise failure
        raise why

    def _await_idle(self) -> None:
        """Wait for the batch that is running: in its own time, or within the deadline once a stop was asked for.

        Not held while the query stops: a batch that is just beginning waits for it, and the stop for that batch.
        """
        deadline: float | None = None
        while not self._runner.idle.acquire(timeout=0.5):
            if self._stop.is_set():
                deadline = deadline or time.monotonic() + STOP_SECONDS
                if time.monotonic() > deadline:
                    return
        self._runner.idle.release()


def _asked_to_stop() -> StopRequestedError:
    return StopRequestedError("The sink was asked to stop.")
