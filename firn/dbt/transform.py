"""Runs dbt over the tables of the sinks, and gives the result of each model and test. Knows no model by name.

dbt keeps its logging and its parsed project in process-wide state, so it gets a process of its own, which also can be
stopped. The key travels in that process's environment under dbt's prefix for secrets, which dbt keeps out of logs and
artifacts (https://docs.getdbt.com/reference/dbt-jinja-functions/env_var#secrets). Everything dbt writes goes to
`<home>/dbt`, never into the checkout.
"""

from __future__ import annotations

import base64
import fcntl
import importlib.metadata
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from firn.child import run_child
from firn.dbt.results import TransformInterruptedError, TransformResult, connection_lost, failure, read_result
from firn.errors import ConfigError, FirnError, TransientError
from firn.keys import private_key_der
from firn.retry import with_retries
from firn.settings import PROJECT_ROOT, Settings
from firn.snowflake.connection import SnowflakeLogin, connect

PROJECT = PROJECT_ROOT / "dbt"


def run_dbt(
    settings: Settings, login: SnowflakeLogin, *, select: str | None = None, full_refresh: bool = False
) -> TransformResult:
    """Run `dbt build` (models and their tests, in order of dependency) with this login, and wait for its end.

    `select` is dbt's node selection; `full_refresh` builds incremental models from nothing. An exception in this
    process (an interrupt, a cancelled flow) stops dbt and its queries first.

    Raises TransformError naming each failed node, ConfigError when `select` names nothing, the project does not compile
    or dbt is not installed, the login's own errors (see `firn.snowflake.connection`), TransformInterruptedError when
    the connection breaks in mid-run, or TransientError while another run holds `<home>/dbt`.
    """
    _check_installed()
    home = settings.home / "dbt"
    environment = _environment(login)
    with _only_run(home):
        with_retries(settings.retry_deadline_seconds, _check_login, login)
        results = home / "target" / "run_results.json"
        results.unlink(missing_ok=True)
        errors: list[str] = []
        code, output = run_child(_command(home, select, full_refresh), environment, errors.append)
        if code not in (0, 1) or not results.exists():
            raise _unfinished([*output, *errors], home)
        result = read_result(home / "target")
    if not result.nodes:
        raise ConfigError(
            f"No model or test matches the selection {select!r}.",
            where=str(PROJECT),
            next_step="Name a model of docs/dbt.md; dbt's syntax: https://docs.getdbt.com/reference/node-selection/syntax",
        )
    if code:
        raise failure(result, f"{login.database}.{login.schema}, Snowflake at {login.host}:{login.port}")
    return result


def _check_installed() -> None:
    try:
        importlib.metadata.distribution("dbt-core")
    except importlib.metadata.PackageNotFoundError:
        raise ConfigError(
            f"dbt is not installed beside Firn, which brings it for Python 3.11 to 3.13; this is {sys.version_info[0]}."
            f"{sys.version_info[1]}.",
            where=sys.prefix,
            next_step="Install Firn with one of these Pythons where models are to be built.",
        ) from None


def _check_login(login: SnowflakeLogin) -> None:
    """Fail here with an error a person can act on; dbt would retry an unreachable host for minutes."""
    with connect(login, query_tag="firn-dbt"):
        pass


@contextmanager
def _only_run(home: Path) -> Iterator[None]:
    """Hold the lock of `home`: two runs would mix up their results."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TransientError(
                "Another transform is running.", where=str(home), next_step="Wait for its end, then run this again."
            ) from None
        yield


def _command(home: Path, select: str | None, full_refresh: bool) -> list[str]:
    quiet = ["--quiet", "--no-use-colors", "--no-send-anonymous-usage-stats", "--no-partial-parse"]
    places = [f"--project-dir={PROJECT}", f"--profiles-dir={PROJECT}"]
    outputs = [f"--target-path={home / 'target'}", f"--log-path={home / 'logs'}"]
    # "buildable": with a selection, leave out tests that also read models outside it and its ancestors.
    chosen = ["--select", select, "--indirect-selection=buildable"] if select else []
    fresh = ["--full-refresh"] if full_refresh else []
    return [sys.executable, "-m", "firn.dbt.interruptible", "build", *quiet, *places, *outputs, *chosen, *fresh]


def _environment(login: SnowflakeLogin) -> dict[str, str]:
    """The child's environment: ours without any dbt setting of the caller, and dbt/profiles.yml's variables."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("DBT_", "FIRN_DBT_"))}
    key = private_key_der(login.private_key, login.private_key_passphrase, login.key_place)
    return inherited | {
        "FIRN_DBT_ACCOUNT": login.account,
        "FIRN_DBT_USER": login.user,
        "FIRN_DBT_ROLE": login.role,
        "FIRN_DBT_WAREHOUSE": login.warehouse,
        "FIRN_DBT_DATABASE": login.database,
        "FIRN_DBT_SCHEMA": login.schema,
        "FIRN_DBT_SOURCE_DATABASE": login.database,
        "FIRN_DBT_SOURCE_SCHEMA": login.schema,
        "FIRN_DBT_HOST": login.host,
        "FIRN_DBT_PORT": str(login.port),
        "FIRN_DBT_PROTOCOL": login.protocol,
        "DBT_ENV_SECRET_FIRN_PRIVATE_KEY": base64.b64encode(key).decode(),
        "PYTHONWARNINGS": "ignore",
    }


def _unfinished(output: list[str], home: Path) -> FirnError:
    text = "\n".join(output).strip()
    kind = TransformInterruptedError if connection_lost(text) else ConfigError
    return kind(
        f"dbt ended before it ran a model:\n{text[-3000:]}",
        where=str(PROJECT),
        next_step=f"Correct what dbt names and run again; dbt's own log is {home / 'logs' / 'dbt.log'}.",
    )
