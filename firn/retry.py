"""The one retry layer: transient errors are tried again with growing, jittered pauses until one deadline.

Used at the network edge and around a whole run. It looks at the root of an error (`firn.errors`) and at nothing else.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter
from tenacity.nap import sleep_using_event
from tenacity.stop import stop_when_event_set

from firn.errors import TransientError

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)


def with_retries(deadline_seconds: float, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call until it succeeds, fails terminally, or `deadline_seconds` have passed; then raise its last error."""
    return _policy(deadline_seconds, threading.Event())(call, *args, **kwargs)


def with_retries_until(stop: threading.Event, deadline_seconds: float, call: Callable[[], T]) -> T:
    """As `with_retries`, and give up early, with the last error, once `stop` is set."""
    return _policy(deadline_seconds, stop)(call)


def _policy(deadline_seconds: float, stop: threading.Event) -> Retrying:
    def tell(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        # The first fault is news; that it lasts is not.
        level = logging.WARNING if state.attempt_number == 1 else logging.DEBUG
        log.log(level, "%s Trying again for up to %.0f s.", getattr(error, "what", error), deadline_seconds)

    return Retrying(
        retry=retry_if_exception_type(TransientError),
        stop=stop_after_delay(deadline_seconds) | stop_when_event_set(stop),
        wait=wait_exponential_jitter(multiplier=0.2, max=5.0, jitter=0.5),
        sleep=sleep_using_event(stop),
        before_sleep=tell,
        reraise=True,
    )
