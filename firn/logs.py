"""Logs of long-running programs: one JSON object a line on stderr, readable lines on a terminal.

Each line has timestamp, level, logger and event (its text), and the fields of `log_context`. These belong to a thread:
one that is started sets its own. docs/metrics.md lists the fields. Not for Spark's own log (`log4j2.properties`).
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import structlog
from structlog import contextvars

_FIRST = ("timestamp", "level", "sink", "epoch", "batch", "topic", "partition", "event", "logger")


def configure_logging() -> None:
    """Send `logging` and Python's warnings through structlog: INFO and above, everything with FIRN_DEBUG=1."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        contextvars.merge_contextvars,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(allow=("firn_event", "firn_data")),  # see spark_jobs.sink.telemetry.events
    ]
    renderer: structlog.typing.Processor = (
        structlog.dev.ConsoleRenderer() if sys.stderr.isatty() else structlog.processors.JSONRenderer()
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _in_order,
                renderer,
            ],
        )
    )
    debug = os.environ.get("FIRN_DEBUG") == "1"
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.captureWarnings(True)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # its stack traces repeat the errors that we report
    for room in ("firn", "spark_jobs", "flows", "__main__"):
        logging.getLogger(room).setLevel(logging.DEBUG if debug else logging.INFO)


def _in_order(_logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """The same fields at the same place in every line, for eyes."""
    return {name: event.pop(name) for name in _FIRST if name in event} | dict(event)


@contextmanager
def log_context(**fields: object) -> Iterator[None]:
    """Lines that this thread logs inside carry these fields; at the end all fields are what they were before."""
    before = log_fields()
    contextvars.bind_contextvars(**fields)
    try:
        yield
    finally:
        contextvars.clear_contextvars()
        contextvars.bind_contextvars(**before)


def add_to_log_context(**fields: object) -> None:
    """From here to the end of the `log_context` around it, lines of this thread carry these fields too."""
    contextvars.bind_contextvars(**fields)


def log_fields() -> Mapping[str, object]:
    """The fields of this thread's lines now, to be given to a `log_context` elsewhere."""
    return contextvars.get_contextvars()
