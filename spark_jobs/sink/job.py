"""The sink's main program, for `python -m`, `spark-submit` and the sink flow.

    python -m spark_jobs.sink.job connectors/order-events.json --once
    spark-submit spark_jobs/sink/job.py connectors/order-events.json

The last line on stdout is the run's report as JSON. Exit codes are those of `firn` (docs/commands.md).
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from firn.connector.parse import load_sink_config
from firn.connector.references import Resolver
from firn.errors import FirnError, TransientError, unexpected
from firn.logs import add_to_log_context, configure_logging
from firn.operations.run_report import RunReport
from firn.secrets import secret_reader
from firn.settings import Settings, load_settings

if TYPE_CHECKING:
    from pyspark import SparkContext

    from firn.sinks.context import SinkContext

EXIT_SECONDS = 80.0
"""How long an orderly end may take: twice what a stream gives to its batches (`stream.STOP_SECONDS`)."""
CREDENTIALS = frozenset({"FIRN_AWS_ACCESS_KEY_ID", "FIRN_AWS_SECRET_ACCESS_KEY"})
"""Variables of the environment that Spark's processes have no use for."""
log = logging.getLogger(__name__)


def main(arguments: list[str] | None = None) -> int:
    """Run one sink; returns the exit code."""
    parser = argparse.ArgumentParser(description="Kafka topics into Snowflake tables, exactly once.")
    parser.add_argument("config", type=Path, help="connector configuration, JSON or .properties")
    parser.add_argument("--once", action="store_true", help="take all that is available now, then end")
    parser.add_argument("--supervised", action="store_true", help="end when standard input closes")
    options = parser.parse_args(arguments)
    configure_logging()
    stop = _stop_on_signals(supervised=options.supervised)
    try:
        report = _run(options.config, once=options.once, stop=stop)
    except FirnError as error:
        log.debug("the sink ends", exc_info=True)
        return _report(error)
    except Exception as error:
        log.exception("the sink ends")
        return _report(unexpected(error))
    sys.stdout.write(orjson.dumps({"report": report}).decode() + "\n")
    return 0


def _run(config_file: Path, *, once: bool, stop: threading.Event) -> dict[str, object]:
    settings = load_settings()
    resolver = Resolver(secret_reader(settings))
    config = load_sink_config(config_file, resolver)
    add_to_log_context(sink=config.name)
    if stop.is_set():
        return RunReport(config.name).as_dict()
    with ThreadPoolExecutor(1, "firn-spark") as starter:
        # The JVM needs its seconds on another core than Python's imports, so these come afterwards.
        starting = starter.submit(_start_spark, settings, config.name, CREDENTIALS | resolver.variables)
        from firn.sinks.context import resolve
        from spark_jobs.sink.run import SinkRun
        from spark_jobs.sink.spark.engine import SparkEngine

        def reload() -> SinkContext:
            return resolve(load_sink_config(config_file, resolver), settings)

        try:
            # Not read once more: the environment lacks what Spark must not inherit, until Spark is there.
            context = resolve(config, settings)
            engine = SparkEngine(starting.result(), config.name)
            return SinkRun(context, engine, once=once, stop=stop, reload=reload).run().as_dict()
        finally:
            _stop_spark(starting)


def _start_spark(settings: Settings, name: str, hidden: frozenset[str]) -> SparkContext:
    from spark_jobs.sink.spark.session import spark_context

    return spark_context(settings, name, hidden)


def _stop_spark(starting: Future[SparkContext]) -> None:
    """A JVM that is gone cannot be stopped, and why it is gone was reported already."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        starting.result().stop()
    except (PySparkException, Py4JError, ConnectionError, FirnError):
        log.debug("Spark was not stopped", exc_info=True)


def _report(error: FirnError) -> int:
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


def _stop_on_signals(*, supervised: bool) -> threading.Event:
    """An event that SIGTERM, SIGINT or (under a supervisor) the end of standard input sets."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if supervised:
        threading.Thread(target=_watch_parent, args=(stop,), daemon=True).start()
    threading.Thread(target=_exit_in_any_case, args=(stop,), daemon=True).start()
    return stop


def _exit_in_any_case(stop: threading.Event) -> None:
    """A stop that hangs in Spark ends the process all the same: the ledger holds what was committed."""
    stop.wait()
    threading.Event().wait(EXIT_SECONDS)
    os._exit(TransientError.exit_code)


def _watch_parent(stop: threading.Event) -> None:
    """A supervisor that dies, however it dies, closes the pipe: no sink outlives it."""
    while os.read(0, 1024):
        pass
    stop.set()


if __name__ == "__main__":
    sys.exit(main())
