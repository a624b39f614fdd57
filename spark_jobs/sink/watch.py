"""Why an epoch that runs should end, or is known to be well: asked every second by the driver's main thread.

Not for ending it (`stream`), nor for what follows (`run`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from snowflake.connector import SnowflakeConnection

from firn.errors import FirnError, TransientError
from firn.retry import Deadline
from firn.snowflake.connection import SnowflakeLogin, close_quietly, open_connection
from firn.snowflake.faults import LockConflictError
from spark_jobs.sink.batch import PlanAgainError

LOCK_SECONDS = 5
"""How long a heartbeat waits for the ledger: whoever holds it commits, and a commit is a sign of life too."""
log = logging.getLogger(__name__)


class Heartbeat:
    """Tells the ledger that this run lives, and learns from it whether it still owns the sink.

    A commit says the same, so only an idle sink, or one in a long batch, sends heartbeats; in a session of its own,
    because the batch's is busy then. `seconds` between two; 0: none. Not thread-safe, but for `committed`.
    """

    def __init__(self, login: SnowflakeLogin, beat: Callable[[SnowflakeConnection], None], seconds: float) -> None:
        self._login, self._beat, self._seconds = login, beat, seconds
        self._session: SnowflakeConnection | None = None
        self._last = time.monotonic()

    def committed(self) -> None:
        """A commit moved the owner row."""
        self._last = time.monotonic()

    def send_if_due(self) -> FirnError | None:
        """Send one if it is time; gives what ends the run: FencedError, or a login that is refused.

        A heartbeat that does not get through ends nothing: whether the sink can work, its batches tell.
        """
        if not self._seconds or time.monotonic() - self._last < self._seconds:
            return None
        self._last = time.monotonic()
        try:
            self._send()
        except LockConflictError:
            log.debug("the ledger is busy: no heartbeat")
        except TransientError as error:
            log.warning("No heartbeat: %s", error.what)
            self.close()
        except FirnError as error:
            return error
        return None

    def _send(self) -> None:
        if self._session is None:
            self._session = open_connection(self._login, query_tag="firn heartbeat", lock_seconds=LOCK_SECONDS)
        self._beat(self._session)

    def close(self) -> None:
        """End the session."""
        if self._session is not None:
            close_quietly(self._session)
            self._session = None


class Watch:
    """One epoch's watch.

    changed: looks for new topics and partitions, every `look_seconds`; None: never. well: whether the epoch has got as
    far as to see Kafka's offsets, and no batch runs.
    """

    def __init__(
        self,
        heartbeat: Heartbeat,
        deadline: Deadline,
        *,
        changed: Callable[[], bool] | None,
        look_seconds: float,
        well: Callable[[], bool],
    ) -> None:
        self._heartbeat, self._deadline = heartbeat, deadline
        self._changed, self._look_seconds, self._well = changed, look_seconds, well
        self._next_look = time.monotonic() + look_seconds

    def __call__(self) -> FirnError | None:
        """Why the epoch should end now, if it should."""
        if self._changed and time.monotonic() > self._next_look:
            self._next_look = time.monotonic() + self._look_seconds
            if self._look(self._changed):
                return PlanAgainError("There are new partitions: the sink claims them.")
        return self._heartbeat.send_if_due()

    def _look(self, changed: Callable[[], bool]) -> bool:
        try:
            found = changed()
        except FirnError as error:
            log.warning("New partitions could not be looked for: %s", error.what)
            return False
        if self._well():
            self._deadline.succeeded()  # what failed before this epoch is over
        return found
