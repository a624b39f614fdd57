"""Run a job for a command: as a Prefect flow if a server answers, else without Prefect.

The driver starts first, while Prefect, which takes seconds, is imported; without a configured server it never is. A
Prefect server that fails does not change how a run ends. Not for the flows (`flows.sink`, `flows.export`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from firn.errors import FirnError
from firn.settings import Settings, load_settings
from firn.supervisor.job import Policy, Result
from flows.supervision.driver import Handover, JobKind, Place, Report, report_of, run_once

_HEALTH_SECONDS = 3.0
_RETRIES = 2
C = TypeVar("C")
R = TypeVar("R", bound=Report)
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunnableJob(Generic[C, R]):
    """A job that a command runs. name: of its configuration, which is checked by that; report: of a run.

    flow: imports Prefect; its parameters are `config` and `once`. policy: of its supervision where no Prefect answers.
    """

    kind: JobKind[C]
    report: type[R]
    name: Callable[[Path, Settings], str]
    flow: Callable[[], Callable[..., R]]
    policy: Callable[[Path, Settings], Policy]


def run_job(job: RunnableJob[C, R], config: Path, *, once: bool) -> R:
    """Run a job: all that is available (`once`), or until it is stopped. Raises the error that it failed with."""
    for name in ("flows.supervision.driver", __name__):
        logging.getLogger(name).setLevel(logging.INFO)
    settings = load_settings()
    name = job.name(config, settings)
    with Place(job.kind, config, settings, name, deployed=False).launched(once=once) as place:
        if prefect_answers():
            return _run_flow(job, place, once=once)
        return report_of(run_once(place) if once else _supervised(job, place), job.report, name)


def _run_flow(job: RunnableJob[C, R], place: Place[C], *, once: bool) -> R:
    """Call the flow. Raises the error that the job failed with."""
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    flow, handover = job.flow(), Handover(place.early)
    try:
        with handover.passed(), temporary_settings(updates={PREFECT_CLIENT_MAX_RETRIES: _RETRIES}):
            return flow(config=str(place.config), once=once)
    except FirnError:
        raise
    except Exception as error:
        if handover.result is None:
            raise
        log.warning("Prefect did not store how the run ended: %s", type(error).__name__)
        return report_of(handover.result, job.report, place.name)


def _supervised(job: RunnableJob[C, R], place: Place[C]) -> Result:
    from flows.prefect_ui.publishing import LogPublisher
    from flows.supervision.attended import supervise

    return supervise(place, job.policy(place.config, place.settings), LogPublisher(log), log)


def prefect_answers() -> bool:
    """Whether a Prefect server is configured and answers; Prefect would need half a minute to start one itself."""
    url = _prefect_url()
    if not url:
        return False
    import httpx

    try:
        httpx.get(f"{url.rstrip('/')}/health", timeout=_HEALTH_SECONDS)
    except httpx.HTTPError:
        log.warning("Prefect does not answer at %s; the job runs without it.", url)
        return False
    return True


def _prefect_url() -> str | None:
    """PREFECT_API_URL of the environment; Prefect is imported and asked only if a file of its own may hold it."""
    if url := os.environ.get("PREFECT_API_URL"):
        return url
    if not _has_prefect_files():
        return None
    from prefect.settings import PREFECT_API_URL

    url = PREFECT_API_URL.value()
    return str(url) if url else None


def _has_prefect_files() -> bool:
    """Whether Prefect reads settings from files here (https://docs.prefect.io/v3/concepts/settings-and-profiles)."""
    home = Path(os.environ.get("PREFECT_HOME") or Path.home() / ".prefect")
    profiles = Path(os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml")
    return (
        profiles.exists()
        or Path("prefect.toml").exists()
        or _mentions(Path(".env"), "PREFECT_")
        or _mentions(Path("pyproject.toml"), "[tool.prefect")
    )


def _mentions(file: Path, word: str) -> bool:
    return file.is_file() and word in file.read_text(errors="replace")
