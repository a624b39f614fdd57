"""What the main programs of sinks and exports have in common: signals, Spark beside their imports, the last line.

Not for what they run (`spark_jobs.sink.job`, `spark_jobs.export.job`).
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

import orjson

from firn.errors import FirnError, TransientError
from firn.settings import Settings

if TYPE_CHECKING:
    from pyspark import SparkContext

EXIT_SECONDS = 80.0
"""How long an orderly end may take: twice what a sink gives to its batches (`spark_jobs.sink.stream.STOP_SECONDS`)."""
CREDENTIALS = frozenset({"FIRN_AWS_ACCESS_KEY_ID", "FIRN_AWS_SECRET_ACCESS_KEY"})
"""Variables of the environment that Spark's processes have no use for."""
log = logging.getLogger(__name__)


def start_spark(settings: Settings, name: str, hidden: frozenset[str]) -> SparkContext:
    """Start Spark without these variables of the environment. Raises as `session.spark_context`."""
    from spark_jobs.spark.session import spark_context

    return spark_context(settings, name, hidden)


def stop_spark(starting: Future[SparkContext]) -> None:
    """A JVM that is gone cannot be stopped, and why it is gone was reported already."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        starting.result().stop()
    except (PySparkException, Py4JError, ConnectionError, FirnError):
        log.debug("Spark was not stopped", exc_info=True)


def report_error(error: FirnError) -> int:
    """Write what ended a run, for a supervisor on stdout and for people on stderr; gives the exit code."""
    sys.stdout.write(orjson.dumps({"error": _fields(error)}).decode() + "\n")
    sys.stderr.write(f"{error}\n")
    return error.exit_code


def _fields(error: FirnError) -> dict[str, object]:
    return {
        "kind": type(error).__name__,
        "what": error.what,
        "where": error.where,
        "next": error.next_step,
        "exit_code": error.exit_code,
    }


def stop_on_signals(*, supervised: bool) -> threading.Event:
    """An event that SIGTERM, SIGINT or (under a supervisor) the end of standard input sets."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if supervised:
        threading.Thread(target=_watch_parent, args=(stop,), daemon=True).start()
    threading.Thread(target=_exit_in_any_case, args=(stop,), daemon=True).start()
    return stop


def _exit_in_any_case(stop: threading.Event) -> None:
    """A stop that hangs in Spark ends the process all the same: a ledger holds what was committed."""
    stop.wait()
    threading.Event().wait(EXIT_SECONDS)
    os._exit(TransientError.exit_code)


def _watch_parent(stop: threading.Event) -> None:
    """A supervisor that dies, however it dies, closes the pipe: no run outlives it."""
    while os.read(0, 1024):
        pass
    stop.set()
