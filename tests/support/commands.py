"""`firn` commands within this process: what a new process would print and end with, without its seconds of imports."""

from __future__ import annotations

import io
import logging
import subprocess
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from unittest.mock import patch

from typer.testing import CliRunner

from firn.settings import Settings, load_settings
from flows.cli import app, explain
from flows.cli.console import log_handler

FLOWS = ("provision", "produce", "transform", "pipeline", "deploy")


def run_here(
    home: Path, *args: str | Path, check: bool = True, env: dict[str, str] | None = None, typed: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command against `home`, with `env` added to the environment. Warnings of the log are on stderr.

    typed: what a person types on a terminal, and then ends the input; None: there is no terminal. With `check`, a
    failure shows what it printed. A bug of ours keeps its stack trace.
    """
    command = [str(each) for each in args]
    said, log = io.StringIO(), log_handler(debug=False)
    log.setStream(said)
    log.setLevel(logging.WARNING)
    logging.getLogger().addHandler(log)
    load_settings.cache_clear()
    # Prefect's console handler goes on writing to the standard error of the first command, which is closed.
    raising, logging.raiseExceptions = logging.raiseExceptions, False
    try:
        with _prefect(home, command), patch("flows.cli.console.has_terminal", lambda: typed is not None):
            variables = {"FIRN_HOME": str(home), "COLUMNS": "10000", **(env or {})}
            done = CliRunner().invoke(app, command, input=typed, env=variables)
    finally:
        logging.raiseExceptions = raising
        logging.getLogger().removeHandler(log)
        load_settings.cache_clear()
    code, err = done.exit_code, done.stderr + said.getvalue()
    if isinstance(done.exception, Exception):
        explained = explain(done.exception)
        if explained is None:
            raise done.exception
        code, err = explained.exit_code, f"{err}Error: {explained}\n"
    assert not check or code == 0, f"`firn {' '.join(command)}` ended with {code}\n{done.stdout}\n{err}"
    return subprocess.CompletedProcess(command, code, done.stdout, err)


def _prefect(home: Path, command: list[str]) -> AbstractContextManager[object]:
    """Flow runs belong to the home's Prefect server; Prefect is imported for commands that run flows only."""
    if command[0] not in FLOWS:
        return nullcontext()
    from prefect.settings import PREFECT_API_URL, temporary_settings

    return temporary_settings({PREFECT_API_URL: Settings(_env_file=home / "stack.env", home=home).prefect_api_url})  # type: ignore[call-arg]
