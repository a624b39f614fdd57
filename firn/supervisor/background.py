"""Calls that may hang (Kafka, Snowflake), made one after the other in a thread of their own.

So a supervisor sees at once that its driver has ended or that it is to stop, whoever does not answer. Not for Prefect,
which has its own (`flows.sink`).
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from firn.errors import FirnError, unexpected

T = TypeVar("T")
log = logging.getLogger(__name__)


class Errand(Generic[T]):
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
            log.exception("an errand of the supervisor failed")
            self.result = unexpected(error)
        finally:
            self._done.set()

    def wait(self, seconds: float) -> bool:
        """Wait for its end; whether it came."""
        return self._done.wait(seconds)


class Running(Protocol):
    """Runs errands, in their order."""

    def __call__(self, call: Callable[[], T]) -> Errand[T]:
        """Run it, at once or later."""
        ...


class Errands:
    """One thread that does errands in their order. A daemon: a call that never answers holds up no end."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Errand[object]] = queue.SimpleQueue()
        threading.Thread(target=self._work, name="firn-errands", daemon=True).start()

    def __call__(self, call: Callable[[], T]) -> Errand[T]:
        """Put a call at the end of the line; its callers keep the line short."""
        errand = Errand(call)
        self._queue.put(errand)  # type: ignore[arg-type]
        return errand

    def _work(self) -> None:
        while True:
            self._queue.get().run()
