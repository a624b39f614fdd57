"""Run a sink for a command: as a Prefect flow if a server answers, else without Prefect.

The driver starts first, while Prefect, which takes seconds, is imported; without a configured server it never is. A
Prefect server that fails does not change how a run ends. Not for the flow (`flows.sink`).
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from firn.connector.parse import load_sink_config
from firn.connector.references import Resolver
from firn.errors import FirnError
from firn.operations.run_report import RunReport
from firn.secrets import secret_reader
from firn.settings import load_settings
from firn.supervisor.job import Result
from flows.supervision.driver import Handover, Place, report_of, run_once

_HEALTH_SECONDS = 3.0
_RETRIES = 2
log = logging.getLogger(__name__)


def run_sink(config: Path, *, once: bool) -> RunReport:
    """Run a sink: all that is available (`once`), or until it is stopped. Raises the error that it failed with."""
    for name in ("flows.supervision.driver", __name__):
        logging.getLogger(name).setLevel(logging.INFO)
    settings = load_settings()
    sink = load_sink_config(config, Resolver(secret_reader(settings))).name
    with Place(config, settings, sink, deployed=False).launched(once=once) as place:
        if prefect_answers():
            return _run_flow(place, once=once)
        return report_of(run_once(place) if once else _supervised(place), sink)


def _run_flow(place: Place, *, once: bool) -> RunReport:
    """Call the flow. Raises the error that the sink failed with."""
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    from flows.sink import sink

    handover = Handover(place.early)
    try:
        with handover.passed(), temporary_settings(updates={PREFECT_CLIENT_MAX_RETRIES: _RETRIES}):
            return sink(config=place.config, once=once)
    except FirnError:
        raise
    except Exception as error:
        if handover.result is None:
            raise
        log.warning("Prefect did not store how the run ended: %s", type(error).__name__)
        return report_of(handover.result, place.sink)


def _supervised(place: Place) -> Result:
    from firn.ledger.control import requester
    from firn.supervisor.sink_job import policy_of
    from flows.prefect_ui.publishing import LogPublisher
    from flows.supervision.attended import supervise

    config = load_sink_config(place.config, Resolver(secret_reader(place.settings)))
    policy = policy_of(config, by=requester(), patience_seconds=place.settings.sink_patience_seconds)
    return supervise(place, policy, LogPublisher(log), log)


def prefect_answers() -> bool:
    """Whether a Prefect server is configured and answers; Prefect would need half a minute to start one itself."""
    url = _prefect_url()
    if not url:
        return False
    import httpx

    try:
        httpx.get(f"{url.rstrip('/')}/health", timeout=_HEALTH_SECONDS)
    except httpx.HTTPError:
        log.warning("Prefect does not answer at %s; the sink runs without it.", url)
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
