"""Transient faults in a flow's step: tried again until the settings' deadline, and said aloud. Not for spark_jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from firn.errors import TransientError
from firn.retry import with_retries
from firn.settings import Settings
from flows.console import say

T = TypeVar("T")


def patiently(settings: Settings, step: Callable[[], T]) -> T:
    """Run `step`, again after a TransientError, within `retry_deadline_seconds`; the first fault is shown at once."""
    said: list[str] = []

    def attempt() -> T:
        try:
            return step()
        except TransientError as error:
            if not said:
                said.append(error.what)
                say(f"{error.what} Trying again for up to {settings.retry_deadline_seconds:.0f} s.")
            raise

    return with_retries(settings.retry_deadline_seconds, attempt)
