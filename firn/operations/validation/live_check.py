"""What a live check says, and how several run beside each other: none hides another, none takes longer than its time.

Not for what is checked (`sink_checks`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Literal

from firn.errors import FirnError
from firn.settings import Settings

log = logging.getLogger(__name__)

State = Literal["ok", "warning", "failed"]
COLUMNS = ("subject", "state", "found", "next_step")
TASK_SECONDS = 45.0
"""How long a task may take; the clients' own time-outs are shorter and say more."""
RETRY_SECONDS = 5.0
"""How long a secret is asked for again: a person waits for the answer."""


@dataclass(frozen=True)
class LiveCheck:
    """What was looked at, what was found, and what to do about it. Holds no credential."""

    subject: str
    state: State
    found: str
    next_step: str = ""

    def row(self) -> dict[str, str]:
        """As a table row."""
        return asdict(self)


@dataclass(frozen=True)
class Task:
    """Checks that need each other, so that they run one after the other. `subject` names them if they cannot run."""

    subject: str
    run: Callable[[], Iterable[LiveCheck]]


def impatient(settings: Settings) -> Settings:
    """The settings for live checks: what does not answer is given up soon."""
    deadline = min(settings.retry_deadline_seconds, RETRY_SECONDS)
    return settings.model_copy(update={"retry_deadline_seconds": deadline})


def failed(subject: str, error: FirnError) -> LiveCheck:
    """An error as a check."""
    where = f" ({error.where})" if error.where else ""
    return LiveCheck(subject, "failed", f"{error.what}{where}", error.next_step)


def guarded(subject: str, look: Callable[[], Iterable[LiveCheck]]) -> list[LiveCheck]:
    """The checks, or the error that ended them as one."""
    try:
        return list(look())
    except FirnError as error:
        return [failed(subject, error)]


def run_tasks(tasks: Iterable[Task], *, seconds: float = TASK_SECONDS) -> list[LiveCheck]:
    """Run all tasks at the same time and give their checks in the tasks' order. Never raises for what a task meets."""
    started = [(task, _start(task)) for task in tasks]
    deadline = time.monotonic() + seconds
    found: list[LiveCheck] = []
    for task, future in started:
        try:
            found += future.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            text = f"did not end within {seconds:.0f} seconds"
            found.append(LiveCheck(task.subject, "failed", text, "Check the network between here and there."))
    return found


def _start(task: Task) -> Future[list[LiveCheck]]:
    future: Future[list[LiveCheck]] = Future()
    # A daemon: a client that hangs must not keep the command from ending.
    threading.Thread(target=lambda: future.set_result(_guarded(task)), daemon=True).start()
    return future


def _guarded(task: Task) -> list[LiveCheck]:
    found: list[LiveCheck] = []
    try:
        found.extend(task.run())  # what was found before an error stays
    except FirnError as error:
        found.append(failed(task.subject, error))
    except Exception as error:
        log.debug("a live check failed", exc_info=True)
        text = f"unexpected {type(error).__name__}"  # its text is nobody's promise: it might hold anything
        found.append(LiveCheck(task.subject, "failed", text, "Report this, with the output of `firn --debug`."))
    return found
