"""One sink's supervision put together: driver, looks, notes, audience; attended by the thread that called.

Plain Python: works in a flow and without one. Not for the flow's parameters (`flows.sink`), nor for what supervision
is (`spark_jobs.supervise`).
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import shlex
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from firn.child import TERM_SECONDS, first_signal
from firn.connector.parse import load_sink_config
from firn.connector.references import Resolver
from firn.errors import FirnError, TransientError, unexpected
from firn.settings import Settings
from flows.telling import Log, LogTelling
from spark_jobs.sink.context import SinkContext, check_runnable, resolve
from spark_jobs.supervise.launch import Launcher, driver_log
from spark_jobs.supervise.notes import Looks, Notes
from spark_jobs.supervise.outcome import End, Outcome, end_of
from spark_jobs.supervise.policy import Policy
from spark_jobs.supervise.seams import Driver
from spark_jobs.supervise.supervisor import Supervisor

STOP_SECONDS = 20.0
"""From TERM to KILL of a driver whose flow run is cancelled: Prefect's worker kills the flow itself after 30 s."""
_ATTEND_SECONDS = 0.2
_SLACK_SECONDS = 5.0
_LEVELS = {"warning": logging.WARNING, "error": logging.ERROR, "critical": logging.CRITICAL}
driver_lines = logging.getLogger("flows.driver")
_PARENT = os.getppid()
"""As early as this process can say: its worker may be gone before supervision begins."""


@dataclass(frozen=True)
class Place:
    """Where a sink's supervision runs. deployed: a Prefect worker started it, and ends it by SIGTERM."""

    config: Path
    settings: Settings
    sink: str
    deployed: bool

    def read(self) -> SinkContext:
        """The sink's configuration and credentials, as they are now. Raises ConfigError and those of secrets."""
        config = load_sink_config(self.config, Resolver(self.settings))
        check_runnable(config)
        return resolve(config, self.settings)

    def launch(self, on_line: Callable[[str], None], *, once: bool = False) -> Driver:
        """Start a driver; its log goes to its file, and its messages to this process's log."""

        def heard(line: str) -> None:
            on_line(line)
            _pass_on(line)

        return Launcher(self.settings, self.sink, self.config, once=once)(heard)

    def read_end(self, code: int, answer: Sequence[str]) -> End:
        """What a driver's end means."""
        return end_of(code, answer, config=shlex.quote(str(self.config)), logs=str(self.settings.home / "logs"))


def by_whom() -> str:
    """Who asks, for FIRN_SINKS."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no such user, as in some containers
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def run_once(place: Place) -> Outcome:
    """One run of the driver, to its end. A first signal ends it early (KeyboardInterrupt, or Prefect's own)."""
    driver = place.launch(lambda _line: None, once=True)
    try:
        while (code := driver.poll()) is None:
            threading.Event().wait(0.2)
    except BaseException:
        driver.stop(STOP_SECONDS if place.deployed else TERM_SECONDS)
        raise
    end = place.read_end(code, driver.answer)
    return Outcome("failed", error=end.error) if end.error else Outcome("ended", report=end.report)


def supervise(place: Place, policy: Policy, telling: LogTelling, log: Log) -> Outcome:
    """Supervise until the sink is stopped or fails for good. No driver is left, however this ends."""
    looks = Looks(place.read)
    supervisor = Supervisor(
        place.sink,
        policy,
        launch=place.launch,
        read_end=place.read_end,
        observer=looks,
        notes=Notes(place.read),
        telling=telling,
    )
    log.info("The driver's log is %s.", driver_log(place.settings, place.sink))
    try:
        with first_signal(supervisor.ask, not place.deployed):
            return _attended(supervisor, policy, log, telling.cancelled, deployed=place.deployed)
    finally:
        telling.close()
        looks.close()


def _attended(
    supervisor: Supervisor, policy: Policy, log: Log, cancelled: threading.Event, *, deployed: bool
) -> Outcome:
    """Wait for the supervisor, which has a thread of its own.

    Prefect ends a flow by an exception in its thread where it cannot renew the run's concurrency slot, for instance
    when its server was started anew. That is no reason to end a sink: another run attaches, and takes nothing away.
    """
    outcomes: list[Outcome] = []
    threading.Thread(target=lambda: outcomes.append(_safely(supervisor)), name="firn-supervisor", daemon=True).start()
    while True:
        try:
            # By sleeping, not by joining: an exception from another thread within join() makes Python 3.11 believe
            # that the thread has ended (https://github.com/python/cpython/issues/89437).
            while not outcomes:
                time.sleep(_ATTEND_SECONDS)
                if deployed and os.getppid() != _PARENT:
                    return _orphaned(supervisor, outcomes)
                if cancelled.is_set():
                    supervisor.abort()
                    _wait(outcomes, policy.stop + _SLACK_SECONDS)
                    return Outcome("cancelled", "The flow run was cancelled.")
            return outcomes[0]
        except asyncio.CancelledError:
            log.warning("Prefect could not renew this run's concurrency slot: the sink goes on.")
        except BaseException:
            supervisor.abort()
            _wait(outcomes, policy.stop + _SLACK_SECONDS)
            raise


def _wait(outcomes: list[Outcome], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not outcomes and time.monotonic() < deadline:
        time.sleep(_ATTEND_SECONDS)


def _orphaned(supervisor: Supervisor, outcomes: list[Outcome]) -> Outcome:
    """The worker is gone, and nobody could cancel this run any more: the next one starts the sink again."""
    supervisor.ask()
    _wait(outcomes, TERM_SECONDS)
    supervisor.abort()
    _wait(outcomes, STOP_SECONDS + _SLACK_SECONDS)
    return Outcome(
        "failed",
        error=TransientError(
            "The Prefect worker that started this run is gone.",
            where="sink flow",
            next_step="Nothing, where a keep-alive schedule starts the sink again; else start it by hand.",
        ),
    )


def _safely(supervisor: Supervisor) -> Outcome:
    try:
        return supervisor.run()
    except FirnError as error:
        return Outcome("failed", error=error)
    except BaseException as error:  # SystemExit too: that this thread is over must be known
        logging.getLogger(__name__).exception("the supervisor failed")
        return Outcome("failed", error=unexpected(error))


def _pass_on(line: str) -> None:
    """Show a line of the driver's log on this process's own; its JSON carries level and message."""
    try:
        entry = orjson.loads(line)
        driver_lines.log(_LEVELS.get(entry.get("level"), logging.INFO), "%s", entry["event"])
    except (ValueError, KeyError, AttributeError, TypeError):
        driver_lines.debug("%s", line)
