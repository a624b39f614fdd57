"""The sink's main program, for `python -m`, `spark-submit` and the sink flow.

    python -m spark_jobs.sink.job connectors/order-events.json --once
    spark-submit spark_jobs/sink/job.py connectors/order-events.json

The last line on stdout is the run's report as JSON. Exit codes are those of `firn` (docs/commands.md).
"""

from __future__ import annotations

import argparse
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from firn.connector.parse import load_sink_config
from firn.connector.references import Resolver
from firn.errors import FirnError, unexpected
from firn.logs import add_to_log_context, configure_logging
from firn.operations.run_report import RunReport
from firn.secrets import secret_reader
from firn.settings import load_settings
from spark_jobs.spark.program import CREDENTIALS, report_error, start_spark, stop_on_signals, stop_spark

if TYPE_CHECKING:
    from firn.sinks.context import SinkContext

log = logging.getLogger(__name__)


def main(arguments: list[str] | None = None) -> int:
    """Run one sink; returns the exit code."""
    parser = argparse.ArgumentParser(description="Kafka topics into Snowflake tables, exactly once.")
    parser.add_argument("config", type=Path, help="connector configuration, JSON or .properties")
    parser.add_argument("--once", action="store_true", help="take all that is available now, then end")
    parser.add_argument("--supervised", action="store_true", help="end when standard input closes")
    options = parser.parse_args(arguments)
    configure_logging()
    stop = stop_on_signals(supervised=options.supervised)
    try:
        report = _run(options.config, once=options.once, stop=stop)
    except FirnError as error:
        log.debug("the sink ends", exc_info=True)
        return report_error(error)
    except Exception as error:
        log.exception("the sink ends")
        return report_error(unexpected(error))
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
        starting = starter.submit(start_spark, settings, config.name, CREDENTIALS | resolver.variables)
        from firn.sinks.context import resolve
        from spark_jobs.sink.run import SinkRun
        from spark_jobs.spark.engine import SparkEngine

        def reload() -> SinkContext:
            return resolve(load_sink_config(config_file, resolver), settings)

        try:
            # Not read once more: the environment lacks what Spark must not inherit, until Spark is there.
            context = resolve(config, settings)
            engine = SparkEngine(starting.result(), config.name)
            return SinkRun(context, engine, once=once, stop=stop, reload=reload).run().as_dict()
        finally:
            stop_spark(starting)


if __name__ == "__main__":
    sys.exit(main())
