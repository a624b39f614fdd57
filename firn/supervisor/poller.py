"""When to look at a job, and calls in the background: at Kafka often, at Snowflake no more than there is to see.

Calls that may hang (Kafka, Snowflake) are made one after the other in a thread of their own, so that a supervisor sees
at once that its driver has ended or that it is to stop. Not for what is looked at (`firn.operations.observer`), nor for
what follows from it (`supervisor`).
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from firn.errors import FirnError, unexpected
from firn.operations.observation import Depth, Observation
from firn.supervisor.ports import Observer

_FLOW_LOOKS = 2
T = TypeVar("T")
log = logging.getLogger(__name__)


class BackgroundCall(Generic[T]):
    """A call that is under way. After `done`, `result` is its answer or the FirnError that it met."""

    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._done = threading.Event()
        self.result: T | FirnError | None = None

    @property
    def done(self) -> bool:
        """Whether it has come to its end."""
        return self._done.is_set()

    def run(self) -> None:
        """Make the call, in this thread. Never raises."""
        try:
            self.result = self._call()
        except FirnError as error:
            self.result = error
        except Exception as error:
            log.exception("a background call of the supervisor failed")
            self.result = unexpected(error)
        finally:
            self._done.set()

    def wait(self, seconds: float) -> bool:
        """Wait for its end; whether it came."""
        return self._done.wait(seconds)


class Background(Protocol):
    """Makes calls, in their order."""

    def __call__(self, call: Callable[[], T]) -> BackgroundCall[T]:
        """Make it, at once or later."""
        ...


class BackgroundThread:
    """One thread that makes calls in their order. A daemon: a call that never answers holds up no end."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[BackgroundCall[object]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="firn-background", daemon=True).start()

    def __call__(self, call: Callable[[], T]) -> BackgroundCall[T]:
        """Put a call at the end of the queue; its callers keep the queue short."""
        background = BackgroundCall(call)
        self._queue.put(background)  # type: ignore[arg-type]
        return background

    def _work(self) -> None:
        while True:
            self._queue.get().run()


class Poller:
    """Looks of one supervisor, one at a time.

    look: seconds between two. idle, ledger: between two that ask for the desired state, and for the ledger, of a job
    at which nothing changes.
    """

    def __init__(self, observer: Observer, background: Background, *, look: float, idle: float, ledger: float) -> None:
        self._observer, self._background = observer, background
        self._look, self._seconds = look, {Depth.REQUESTS: idle, Depth.LEDGER: ledger}
        self._pending: tuple[BackgroundCall[Observation], float] | None = None
        self._looked = float("-inf")
        self._looked_at = dict.fromkeys(self._seconds, float("-inf"))
        self._flowing = 0
        self._at_once = True
        self.silent_seconds: float | None = None

    def expect_change(self) -> None:
        """Something was committed: the next looks ask the ledger too."""
        self._flowing = _FLOW_LOOKS

    def look_at_once(self) -> None:
        """The next look is now, and asks the ledger. One that is under way does not count: it may be too old."""
        self._at_once, self._pending = True, None

    def poll(self, now: float, *, ledger: bool) -> Observation | FirnError | None:
        """What a look brought that has come back; begins the next if it is time.

        ledger: whether the next look is to ask the ledger, however short ago it was asked.
        """
        if self._pending is None and (self._at_once or now - self._looked >= self._look):
            self._begin(now, Depth.LEDGER if self._at_once or ledger or self._flowing > 0 else self._due(now))
        if self._pending is None or not self._pending[0].done:
            return None
        (call, begun), self._pending = self._pending, None
        answer = call.result
        if isinstance(answer, Observation):
            self._asked(begun, answer.depth)
            self.silent_seconds = answer.owner.silent_seconds if answer.owner else None
        return answer

    def _due(self, now: float) -> Depth:
        due = (depth for depth, seconds in self._seconds.items() if now - self._looked_at[depth] >= seconds)
        return max(due, default=Depth.KAFKA)

    def _asked(self, at: float, asked: Depth) -> None:
        self._looked_at |= {depth: at for depth in self._seconds if depth <= asked}

    def _begin(self, now: float, depth: Depth) -> None:
        self._at_once = False
        self._looked = now
        self._asked(now, depth)
        if depth is Depth.LEDGER:
            self._flowing = max(0, self._flowing - 1)
        self._pending = (self._background(lambda: self._observer.look(depth)), now)
