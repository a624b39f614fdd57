"""The one retry layer: transient errors are tried again with growing, jittered pauses until one deadline.

Used at the network edge only. It looks at the root of an error (`firn.errors`) and at nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from firn.errors import TransientError

P = ParamSpec("P")
T = TypeVar("T")


def with_retries(deadline_seconds: float, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call until it succeeds, fails terminally, or `deadline_seconds` have passed; then raise its last error."""
    policy = Retrying(
        retry=retry_if_exception_type(TransientError),
        stop=stop_after_delay(deadline_seconds),
        wait=wait_exponential_jitter(initial=0.2, max=5.0, jitter=0.5),
        reraise=True,
    )
    return policy(call, *args, **kwargs)
