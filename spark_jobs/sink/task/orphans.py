"""Ends a Spark Python worker once the daemon that forked it is gone. Not for workers whose daemon lives.

Spark ends a worker through its daemon alone: without one (it was killed where memory ran out, say) a cancelled task
lives on and keeps its slot. So each worker looks whose child it is. Its end loses nothing: Spark fails the task and
starts another daemon, and the sink claims again.
"""

from __future__ import annotations

import logging
import os
import threading
import time

LOOK_SECONDS = 1.0
log = logging.getLogger(__name__)


def end_forks_with_this_process() -> None:
    """End each process that this one forks from now on within about a second after this one."""
    daemon = os.getpid()

    def watch() -> None:
        threading.Thread(target=_watch, args=(daemon,), name="firn-orphan", daemon=True).start()

    os.register_at_fork(after_in_child=watch)


def _watch(daemon: int) -> None:
    while os.getppid() == daemon:
        time.sleep(LOOK_SECONDS)
    log.error("The daemon of Spark's Python workers is gone: this worker ends. Nothing is lost: the sink claims again.")
    os._exit(1)
