"""The driver's command and environment for each kind of Spark master, and how it is started.

The driver is a module of this Python, whose JVM pyspark's own spark-submit starts in client mode with the arguments of
PYSPARK_SUBMIT_ARGS. Not `spark-submit job.py`: there a JVM stands between supervisor and driver. It mixes stdout with
the log, and keeps standard input open when the supervisor dies.

Sources: Spark's "Submitting Applications", "Python Package Management", "Running Spark on YARN", "... on Kubernetes".
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from firn.child import Child
from firn.errors import ConfigError
from firn.settings import Settings

LOG_BYTES, LOG_FILES = 10 * 1024 * 1024, 4
_MASTERS = ("local", "spark://", "yarn", "k8s://")


def driver_command(module: str, config: Path, *, once: bool) -> list[str]:
    """The driver's command. No credential is in it."""
    return [sys.executable, "-m", module, str(config), "--supervised", *(["--once"] if once else [])]


def driver_environment(settings: Settings, inherited: Mapping[str, str]) -> dict[str, str]:
    """The driver's environment: what Spark's launcher reads beside what is inherited. Raises ConfigError.

    Executors of a cluster need this Python's packages, Firn among them, at `spark_python`: installed there, in their
    image, or in an archive (spark.archives). Credentials reach them with each task, and in no other way.
    """
    if not settings.spark_master.startswith(_MASTERS):
        raise ConfigError(
            f"Spark master {settings.spark_master!r} is none that a Spark job can run on.",
            where="FIRN_SPARK_MASTER",
            next_step="Use local[*], spark://<host>:<port>, yarn or k8s://https://<host>:<port>.",
        )
    environment = dict(inherited)
    if settings.spark_python:
        environment["PYSPARK_PYTHON"] = settings.spark_python
        environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if not settings.spark_master.startswith("local"):
        arguments = ["--master", settings.spark_master, "--deploy-mode", "client", "pyspark-shell"]
        environment["PYSPARK_SUBMIT_ARGS"] = shlex.join(arguments)
    return environment


class SparkLauncher:
    """Starts drivers of one job; each line of their log goes to `log`, and on. module: the job's; config: its file."""

    def __init__(self, settings: Settings, module: str, config: Path, log: Path, *, once: bool = False) -> None:
        self._settings = settings
        self._command = driver_command(module, config, once=once)
        self._log = LogFile(log)

    def __call__(self, on_line: Callable[[str], None]) -> Child:
        """Start one. Raises ConfigError for a master that is none, OSError where nothing can be started."""

        def heard(line: str) -> None:
            self._log.write(line)
            on_line(line)

        return Child(self._command, driver_environment(self._settings, os.environ), heard)


class LogFile:
    """A log file that rotates. A disk that is full stops no driver."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._handler = _Quiet(file, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8", delay=True)
        self._handler.setFormatter(logging.Formatter("%(message)s"))

    def write(self, line: str) -> None:
        """Add a line."""
        self._handler.emit(logging.LogRecord("driver", logging.INFO, "", 0, line, None, None))


class _Quiet(logging.handlers.RotatingFileHandler):
    """Drops a line that cannot be written."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name of `logging`
        """Nothing: the driver goes on, and so does its supervisor."""
