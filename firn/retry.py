"""The one retry layer: transient errors are tried again with growing, jittered pauses until one deadline.

Used at the network edge and around a whole run. It looks at the root of an error (`firn.errors`) and at nothing else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from typing import ParamSpec, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential_jitter
from tenacity.nap import sleep_using_event
from tenacity.stop import stop_base, stop_when_event_set

from firn.errors import TransientError

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)


class Retries:
    """How often something was tried again, by the kind of error. Safe for several threads."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, counts: Mapping[str, int]) -> None:
        """Count these."""
        with self._lock:
            self._counts.update(counts)

    def counts(self) -> dict[str, int]:
        """How many of each kind there were."""
        with self._lock:
            return dict(self._counts)

    def take(self) -> dict[str, int]:
        """The same, and count from zero again."""
        with self._lock:
            counts, self._counts = self._counts, Counter()
        return dict(counts)


RETRIES = Retries()
"""Those of this process."""


class Deadline:
    """How long work may go on failing: `seconds` from the first failure since it last succeeded.

    One Deadline is shared by all that retries within a piece of work, so that retries inside retries do not add up.
    Safe for several threads: the driver's main thread and the one of its batches share one, and the success of either
    gives both their full patience again.
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._clock = seconds, clock
        self._failing_since: float | None = None
        self._lock = threading.Lock()

    def failed(self, ago: float = 0.0) -> None:
        """The work failed just now, and began to fail `ago` seconds before."""
        since = self._clock() - ago
        with self._lock:
            self._failing_since = since if self._failing_since is None else min(self._failing_since, since)

    def succeeded(self) -> None:
        """The work made progress, or was answered: the next failure is the first again."""
        with self._lock:
            self._failing_since = None

    def failing_for(self) -> float:
        """Seconds since the first failure; 0 where nothing fails."""
        with self._lock:
            return 0.0 if self._failing_since is None else self._clock() - self._failing_since

    def left(self) -> float:
        """Seconds until it is to be given up; 0 at the least."""
        return max(0.0, self.seconds - self.failing_for())


def with_retries(deadline: float | Deadline, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call until it succeeds, fails terminally, or the deadline has passed; then raise its last error.

    A deadline in seconds counts from now; a Deadline that other work shares counts from its own first failure, or now.
    """
    shared = deadline if isinstance(deadline, Deadline) else Deadline(deadline)
    shared.failed()  # a call that never answers is failing from its beginning
    try:
        answer = _policy(shared, threading.Event())(call, *args, **kwargs)
    except TransientError:
        raise
    except BaseException:
        shared.succeeded()  # an answer too, if not the one that was hoped for
        raise
    shared.succeeded()
    return answer


def with_retries_until(stop: threading.Event, deadline: Deadline, call: Callable[[], T]) -> T:
    """As `with_retries` for work that runs for long: only its failures count, and it gives up once `stop` is set.

    Each failure is logged with its reason: between two of them the work may have gone on for days.
    """
    return _policy(deadline, stop, each=True)(call)


class _Passed(stop_base):
    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    def __call__(self, _state: RetryCallState) -> bool:
        return self._deadline.left() <= 0


def _policy(deadline: Deadline, stop: threading.Event, *, each: bool = False) -> Retrying:
    def report(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        RETRIES.add({type(error).__name__: 1})
        # Of a single call the first fault is news; that it lasts is not.
        level = logging.WARNING if each or state.attempt_number == 1 else logging.DEBUG
        what = " ".join(str(getattr(error, "what", error)).split())
        log.log(level, "%s Trying again for up to %.0f s.", what, deadline.left())

    return Retrying(
        retry=retry_if_exception_type(TransientError),
        stop=_Passed(deadline) | stop_when_event_set(stop),
        wait=wait_exponential_jitter(multiplier=0.2, max=5.0, jitter=0.5),
        sleep=sleep_using_event(stop),
        after=lambda _state: deadline.failed(),
        before_sleep=report,
        reraise=True,
    )
