"""A job's driver as this process starts it: early, with its log passed on, and for `--once` to its end.

Imports neither Prefect nor Snowflake's driver, which take seconds: the driver starts while they are imported. Not for
supervision (`flows.supervision.attended`), nor for the driver's command (`firn.supervisor.launcher`).
"""

from __future__ import annotations

import logging
import shlex
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import orjson
from pydantic import TypeAdapter

from firn.child import TERM_SECONDS
from firn.connector.export.parse import load_export_config
from firn.connector.parse import load_sink_config
from firn.connector.references import Resolver
from firn.errors import FirnError
from firn.exports.context import ExportContext, resolve_export
from firn.operations.log_files import driver_log
from firn.secrets import secret_reader
from firn.settings import Settings
from firn.sinks.context import SinkContext, resolve
from firn.supervisor.driver import DriverResult, read_result
from firn.supervisor.job import Result
from firn.supervisor.launcher import SparkLauncher
from firn.supervisor.ports import Driver

STOP_SECONDS = 20.0
"""From TERM to KILL of a driver whose flow run is cancelled: Prefect's worker kills the flow itself after 30 s."""
_POLL_SECONDS = 0.2
_LEVELS = {"warning": logging.WARNING, "error": logging.ERROR, "critical": logging.CRITICAL}
driver_lines = logging.getLogger("flows.supervision.driver")
C = TypeVar("C")


class Report(Protocol):
    """What a run did; made of the job's name before it did anything."""

    def __init__(self, name: str, /) -> None: ...


R = TypeVar("R", bound=Report)


class EarlyDriver:
    """A driver that starts before anybody listens: it keeps its lines for the one caller that takes it."""

    def __init__(self, start: Callable[[Callable[[str], None]], Driver]) -> None:
        """Raises what `start` raises."""
        self._lock = threading.Lock()
        self._kept: list[str] = []
        self._listener: Callable[[str], None] | None = None
        self._driver = start(self._heard)

    def take(self, on_line: Callable[[str], None]) -> Driver | None:
        """The driver, if nobody took it before; `on_line` gets its lines so far and all that follow."""
        with self._lock:
            if self._listener is not None:
                return None
            self._listener = on_line
            for line in self._kept:
                on_line(line)
            self._kept.clear()
        return self._driver

    def stop(self, seconds: float) -> None:
        """End it, if it runs."""
        self._driver.stop(seconds)

    def _heard(self, line: str) -> None:
        with self._lock:
            if self._listener is None:
                self._kept.append(line)
                return
        self._listener(line)


@dataclass(frozen=True)
class JobKind(Generic[C]):
    """A kind of job: its noun, its driver's module, and how its configuration and credentials are read."""

    noun: str
    module: str
    read: Callable[[Path, Settings], C]


def _read_sink(file: Path, settings: Settings) -> SinkContext:
    return resolve(load_sink_config(file, Resolver(secret_reader(settings))), settings)


def _read_export(file: Path, settings: Settings) -> ExportContext:
    return resolve_export(load_export_config(file, Resolver(secret_reader(settings))), settings)


SINK = JobKind("sink", "spark_jobs.sink.job", _read_sink)
EXPORT = JobKind("export", "spark_jobs.export.job", _read_export)


@dataclass(frozen=True)
class Place(Generic[C]):
    """Where a job runs. deployed: a Prefect worker started it and ends it by SIGTERM. early: its first driver."""

    kind: JobKind[C]
    config: Path
    settings: Settings
    name: str
    deployed: bool
    early: EarlyDriver | None = None

    def read(self) -> C:
        """The job's configuration and credentials, as they are now. Raises ConfigError and those of secrets."""
        return self.kind.read(self.config, self.settings)

    @property
    def log(self) -> Path:
        """Where its drivers' log is."""
        return driver_log(self.settings, self.name, self.kind.noun)

    def launch(self, on_line: Callable[[str], None], *, once: bool = False) -> Driver:
        """The early driver or another one; its log goes to its file, and its messages to this process's log."""
        driver = self.early.take(on_line) if self.early else None
        return driver or self._start(on_line, once=once)

    @contextmanager
    def launched(self, *, once: bool) -> Iterator[Place[C]]:
        """The same place with a driver that starts now, and ends with the block at the latest.

        If it cannot be started, `launch` tries again, and its caller handles the error.
        """
        early = None
        with suppress(FirnError, OSError):
            early = EarlyDriver(lambda on_line: self._start(on_line, once=once))
        try:
            yield replace(self, early=early)
        finally:
            if early:
                early.stop(TERM_SECONDS)

    def _start(self, on_line: Callable[[str], None], *, once: bool) -> Driver:
        def heard(line: str) -> None:
            on_line(line)
            _pass_on(line)

        return SparkLauncher(self.settings, self.kind.module, self.config, self.log, once=once)(heard)

    def read_result(self, code: int, answer: Sequence[str]) -> DriverResult:
        """What a driver's end means."""
        config, logs = shlex.quote(str(self.config)), str(self.settings.home / "logs")
        return read_result(code, answer, module=self.kind.module, config=config, logs=logs)


@dataclass
class Handover:
    """What a command and the flow that it calls pass to each other, beside the flow's parameters.

    early: the driver that runs already; result: how the run ended, whether or not Prefect could store it.
    """

    early: EarlyDriver | None = None
    result: Result | None = None

    @staticmethod
    def current() -> Handover:
        """The one of this context; an empty one where no command called the flow."""
        return _handover.get() or Handover()

    @contextmanager
    def passed(self) -> Iterator[None]:
        """Make it the current one for the length of the block."""
        token = _handover.set(self)
        try:
            yield
        finally:
            _handover.reset(token)


_handover: ContextVar[Handover | None] = ContextVar("handover", default=None)


def run_once(place: Place[Any]) -> Result:
    """Run the driver to its end. A first signal ends it early (KeyboardInterrupt, or Prefect's own)."""
    driver = place.launch(lambda _line: None, once=True)
    try:
        while (code := driver.poll()) is None:
            threading.Event().wait(_POLL_SECONDS)
    except BaseException:
        driver.stop(STOP_SECONDS if place.deployed else TERM_SECONDS)
        raise
    result = place.read_result(code, driver.answer)
    return Result("failed", error=result.error) if result.error else Result("ended", report=result.report)


def report_of(result: Result, kind: type[R], name: str) -> R:
    """The report of a run that is over. kind: of a report of nothing, a name makes one.

    Raises the error that the run failed with.
    """
    if result.error is not None:
        raise result.error
    return TypeAdapter(kind).validate_python(result.report) if result.report else kind(name)


def _pass_on(line: str) -> None:
    """Repeat a line of the driver's log in the log of this process; its JSON holds level and message."""
    try:
        entry = orjson.loads(line)
        driver_lines.log(_LEVELS.get(entry.get("level"), logging.INFO), "%s", entry["event"])
    except (ValueError, KeyError, AttributeError, TypeError):
        driver_lines.debug("%s", line)
