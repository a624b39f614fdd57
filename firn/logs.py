"""Logs of long-running programs: one JSON object a line on stderr, readable lines on a terminal."""

from __future__ import annotations

import logging
import os
import sys

import structlog


def configure_logging() -> None:
    """Send `logging` through structlog: INFO and above, everything with FIRN_DEBUG=1."""
    shared: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.stdlib.ExtraAdder(allow=("firn_event", "firn_data")),  # see spark_jobs.sink.events
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
                renderer,
            ],
        )
    )
    debug = os.environ.get("FIRN_DEBUG") == "1"
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # its stack traces repeat the errors that we report
    for room in ("firn", "spark_jobs", "flows"):
        logging.getLogger(room).setLevel(logging.DEBUG if debug else logging.INFO)
