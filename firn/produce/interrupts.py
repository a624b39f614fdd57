"""Ctrl-C as a flag instead of an exception. Not for SIGTERM: whoever sends that wants an end at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; the second is a KeyboardInterrupt again.

    As an exception it could strike inside a delivery report, and that record would be missing from the account. Outside
    the main thread no signal arrives, so the event stays clear.
    """
    stop = threading.Event()

    def first(_number: int, _frame: FrameType | None) -> None:
        stop.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    previous = signal.signal(signal.SIGINT, first)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGINT, previous)
