"""A supervisor with its ports (driver, observer, FIRN_SINKS, publisher), and the thread that waits for it.

Plain Python: works in a flow and without one. Not for a flow's parameters (`flows.sink`, `flows.export`), nor for one
driver (`flows.supervision.driver`), nor for what a supervisor does (`firn.supervisor`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from firn.child import TERM_SECONDS, first_signal
from firn.errors import FirnError, TransientError, unexpected
from firn.supervisor.export_job import export_job
from firn.supervisor.job import Policy, Result, SupervisedJob
from firn.supervisor.sink_job import sink_job
from firn.supervisor.supervisor import Supervisor
from flows.prefect_ui.publishing import Log, LogPublisher
from flows.supervision.driver import STOP_SECONDS, Place

_JOBS: Mapping[str, Callable[..., SupervisedJob]] = {"sink": sink_job, "export": export_job}
"""What is supervised, by the kind of a place."""
_ATTEND_SECONDS = 0.2
_SLACK_SECONDS = 5.0
_PARENT = os.getppid()
"""As early as this process can say: its worker may be gone before supervision begins."""


def supervise(place: Place[Any], policy: Policy, publisher: LogPublisher, log: Log) -> Result:
    """Supervise until the job is stopped or fails for good. No driver is left, however this ends."""
    job = _JOBS[place.kind.noun](place.name, place.read, place.launch, place.read_result)
    supervisor = Supervisor(job, policy, publisher)
    log.info("The driver's log is %s.", place.log)
    try:
        with first_signal(supervisor.ask, not place.deployed):
            result = _attended(supervisor, policy, log, publisher.cancelled, deployed=place.deployed)
            if result.kind == "skipped":
                log.info("%s", result.sentence)
            return result
    finally:
        publisher.close()
        job.observer.close()


def _attended(
    supervisor: Supervisor, policy: Policy, log: Log, cancelled: threading.Event, *, deployed: bool
) -> Result:
    """Wait for the supervisor, which has a thread of its own.

    Prefect ends a flow by an exception in its thread if it cannot renew the run's concurrency slot, for instance
    after its server was restarted. That is no reason to end a job: another run attaches, and takes nothing away.
    """
    results: list[Result] = []
    threading.Thread(target=lambda: results.append(_safely(supervisor)), name="firn-supervisor", daemon=True).start()
    while True:
        try:
            # By sleeping, not by joining: an exception from another thread within join() makes Python 3.11 believe
            # that the thread has ended (https://github.com/python/cpython/issues/89437).
            while not results:
                time.sleep(_ATTEND_SECONDS)
                if deployed and os.getppid() != _PARENT:
                    return _orphaned(supervisor, results)
                if cancelled.is_set():
                    supervisor.abort()
                    _wait(results, policy.stop + _SLACK_SECONDS)
                    return Result("cancelled", "The flow run was cancelled.")
            return results[0]
        except asyncio.CancelledError:
            log.warning("Prefect could not renew this run's concurrency slot; the job keeps running.")
        except BaseException:
            supervisor.abort()
            _wait(results, policy.stop + _SLACK_SECONDS)
            raise


def _wait(results: list[Result], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not results and time.monotonic() < deadline:
        time.sleep(_ATTEND_SECONDS)


def _orphaned(supervisor: Supervisor, results: list[Result]) -> Result:
    """End the job in order: the worker is gone, so nobody could cancel this run. The next run starts it again."""
    supervisor.ask()
    _wait(results, TERM_SECONDS)
    supervisor.abort()
    _wait(results, STOP_SECONDS + _SLACK_SECONDS)
    return Result(
        "failed",
        error=TransientError(
            "The Prefect worker that started this run is gone.",
            where="the flow",
            next_step="Nothing, if a keep-alive schedule starts it again; else start it yourself.",
        ),
    )


def _safely(supervisor: Supervisor) -> Result:
    try:
        return supervisor.run()
    except FirnError as error:
        return Result("failed", error=error)
    except BaseException as error:  # SystemExit too: that this thread is over must be known
        logging.getLogger(__name__).exception("the supervisor failed")
        return Result("failed", error=unexpected(error))
