"""Publishers of a supervised job: log lines, and in Prefect also events and one artifact, updated in place.

A Prefect server that is down delays nothing and ends nothing: a thread of its own calls it, from a bounded queue.
Not for what is published (`firn.supervisor`) or how it looks (`flows.prefect_ui.job_artifact`).
"""

from __future__ import annotations

import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from firn.supervisor.snapshot import Snapshot

PUBLISH_SECONDS = 15.0
CANCEL_SECONDS = 30.0
LAST_SECONDS = 5.0
_WAITING = 200
_LEVELS = {"stalled": logging.WARNING, "restarting": logging.WARNING, "lagging": logging.WARNING}
_ERRORS = ("failed", "ahead")
_DRIVERS_OWN = ("started", "committed", "dead_letters", "schema_changed")

Log = logging.Logger | logging.LoggerAdapter[Any]
Emit = Callable[[str, Mapping[str, Any]], None]


def outlive_reader() -> None:
    """Keep running when nobody reads the log any more.

    A worker that is killed leaves its runs a pipe without a reader. Rich, which prints Prefect's log lines there, then
    ends the thread that logs, whichever it is: https://rich.readthedocs.io, `Console.on_broken_pipe`.
    """
    from prefect.logging.handlers import PrefectConsoleHandler

    for handler in logging.getLogger().handlers:
        if isinstance(handler, PrefectConsoleHandler):
            handler.console.on_broken_pipe = partial(setattr, handler.console, "quiet", True)  # type: ignore[method-assign]


class LogPublisher:
    """Writes to the log only: for a run without a Prefect server. The driver's own events are in its log already.

    cancelled: set when somebody cancelled the run in Prefect, whether or not its worker can still pass that on.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self.cancelled = threading.Event()

    def emit(self, event: str, sentence: str, data: Mapping[str, Any]) -> None:  # noqa: ARG002
        """Log one line, except for the driver's own events."""
        if event not in _DRIVERS_OWN:
            self._log.log(logging.ERROR if event in _ERRORS else _LEVELS.get(event, logging.INFO), "%s", sentence)

    def show(self, snapshot: Snapshot) -> None:
        """Do nothing: `firn sink status` and `firn export status` show it."""

    def close(self) -> None:
        """Do nothing."""


class PrefectPublisher(LogPublisher):
    """Publishes in Prefect too. emit: sends an event; publish: shows a snapshot; is_cancelled: asks about the run.

    All three may hang, and may fail.
    """

    def __init__(
        self,
        log: Log,
        emit: Emit,
        publish: Callable[[Snapshot], None],
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(log)
        self._emit, self._publish, self._is_cancelled = emit, publish, is_cancelled
        self._asked = time.monotonic()
        self._events: deque[tuple[str, Mapping[str, Any]]] = deque(maxlen=_WAITING)
        self._snapshot: Snapshot | None = None
        self._published, self._state = float("-inf"), ""
        self._wake, self._closing = threading.Event(), threading.Event()
        self._silent: set[str] = set()
        # In the caller's context: events and artifacts belong to its flow run.
        work = contextvars.copy_context().run
        self._thread = threading.Thread(target=work, args=(self._work,), name="firn-publisher", daemon=True)
        self._thread.start()

    def emit(self, event: str, sentence: str, data: Mapping[str, Any]) -> None:
        """Log it, and send it as an event of the job; while nothing can be sent, the newest events are kept."""
        super().emit(event, sentence, data)
        self._events.append((event, {**data, "sentence": sentence, "at": datetime.now(UTC).isoformat()}))
        self._wake.set()

    def show(self, snapshot: Snapshot) -> None:
        """Publish it, at most once in PUBLISH_SECONDS; at once if the state has changed."""
        self._snapshot = snapshot
        self._wake.set()

    def close(self) -> None:
        """Send what is left, for LAST_SECONDS at most."""
        self._closing.set()
        self._wake.set()
        self._thread.join(LAST_SECONDS)

    def _work(self) -> None:
        while not self._closing.is_set():
            self._wake.wait(PUBLISH_SECONDS)
            self._wake.clear()
            self._send_all()
            self._poll_cancelled()
        self._send_all(last=True)

    def _send_all(self, *, last: bool = False) -> None:
        while self._events and self._send(*self._events.popleft()):
            pass
        snapshot = self._snapshot
        if snapshot is None or not (last or self._due(snapshot)):
            return
        self._published, self._state = time.monotonic(), snapshot.state
        if self._try("artifact", lambda: self._publish(snapshot)) and self._snapshot is snapshot:
            self._snapshot = None

    def _send(self, event: str, data: Mapping[str, Any]) -> bool:
        """Send one event; keep it if Prefect is away, and drop it if it can never be sent."""
        try:
            sent = self._try("event", lambda: self._emit(event, data))
        except ValueError as error:
            self._log.warning("Event %s cannot be sent to Prefect: %s", event, error)
            return True
        if not sent and len(self._events) < _WAITING:
            self._events.appendleft((event, data))
        return sent

    def _poll_cancelled(self) -> None:
        """Ask Prefect: after an outage of the server, or a restart of its own, a worker passes no cancellation on."""
        if time.monotonic() - self._asked < CANCEL_SECONDS:
            return
        self._asked = time.monotonic()
        try:
            found = self._is_cancelled()
        except Exception:  # an event or the artifact logs that Prefect is away
            return
        if found:
            self.cancelled.set()

    def _due(self, snapshot: Snapshot) -> bool:
        return snapshot.state != self._state or time.monotonic() - self._published >= PUBLISH_SECONDS

    def _try(self, kind: str, call: Callable[[], None]) -> bool:
        """Whether it worked; a failure of a kind is logged once. Raises ValueError as `call` does."""
        try:
            call()
        except ValueError:
            raise
        except Exception as error:
            if kind not in self._silent:
                self._log.warning(
                    "Prefect does not accept the %s (%s); the job runs without it.", kind, type(error).__name__
                )
            self._silent.add(kind)
            return False
        self._silent.discard(kind)
        return True
