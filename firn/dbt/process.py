"""dbt's process: its commands, its environment, and one run of it at a time in a home.

dbt keeps its logging and its parsed project in process-wide state, so it gets a process of its own, which also can be
stopped. The profile (dbt/profiles.yml) reads that process's environment alone; the key travels there under dbt's prefix
for secrets, which dbt keeps out of logs and artifacts
(https://docs.getdbt.com/reference/dbt-jinja-functions/env_var#secrets). Everything dbt writes goes to the home, never
into a checkout. Not for what dbt is asked to do (`transform`).
"""

from __future__ import annotations

import base64
import fcntl
import importlib.metadata
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firn.child import run_child
from firn.dbt.child import NODE
from firn.errors import ConfigError, TransientError
from firn.keys import private_key_der
from firn.settings import PROJECT_ROOT, Settings
from firn.snowflake.connection import SnowflakeLogin

PROJECT = PROJECT_ROOT / "dbt"
"""Firn's own project; its profile is every project's."""


@dataclass(frozen=True)
class NodeEvent:
    """A node of dbt starts or has ended. id: dbt's unique_id; status and message: dbt's words, of an end."""

    id: str
    kind: str
    name: str
    ended: bool
    status: str = ""
    message: str = ""


OnNode = Callable[[NodeEvent], None]


@dataclass(frozen=True)
class DbtProcess:
    """How dbt runs for one project. source: database and schema of the sinks' tables."""

    project: Path
    home: Path
    login: SnowflakeLogin
    source: tuple[str, str]

    @property
    def target(self) -> Path:
        """Where dbt's artifacts are."""
        return self.home / "target"

    def run(self, commands: Sequence[Sequence[str]], on_node: OnNode) -> tuple[int, str]:
        """Run these commands of dbt, one after another; give the exit code of `firn.dbt.child` and what dbt said.

        An exception in this process (an interrupt, a cancelled flow) stops dbt and its queries first.
        """
        errors: list[str] = []

        def on_line(line: str) -> None:
            if line.startswith(NODE):
                on_node(_event(json.loads(line.removeprefix(NODE))))
            else:
                errors.append(line)

        whole = [[*command, *self._everywhere()] for command in commands]
        arguments = [sys.executable, "-m", "firn.dbt.child", json.dumps(whole)]
        code, output = run_child(arguments, environment(self.login, self.source), on_line)
        return code, "\n".join([*output, *errors]).strip()

    def shell_environment(self) -> dict[str, str]:
        """The environment of dbt on a person's terminal (`firn.dbt.shell`), with a target of its own.

        Flags of dbt as variables, so that arguments may still say otherwise
        (https://docs.getdbt.com/reference/global-configs/environment-variable-configs).
        """
        own = self.home / "shell"
        return environment(self.login, self.source) | {
            "DBT_PROJECT_DIR": str(self.project),
            "DBT_PROFILES_DIR": str(PROJECT),
            "DBT_PROFILE": "firn",
            "DBT_TARGET_PATH": str(own / "target"),
            "DBT_LOG_PATH": str(own / "logs"),
            "DBT_INDIRECT_SELECTION": "buildable",
            "DBT_PARTIAL_PARSE": "true",
            "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
            "DBT_USE_COLORS": str(sys.stdout.isatty()).lower(),
        }

    def _everywhere(self) -> list[str]:
        quiet = ["--quiet", "--no-use-colors", "--no-send-anonymous-usage-stats", "--no-partial-parse"]
        places = [f"--project-dir={self.project}", f"--profiles-dir={PROJECT}", "--profile=firn"]
        return [*quiet, *places, f"--target-path={self.target}", f"--log-path={self.home / 'logs'}"]


def dbt_process(
    settings: Settings, login: SnowflakeLogin, source: tuple[str, str], project: Path | None = None
) -> DbtProcess:
    """The process of a project, Firn's own by default. Each has a home of its own.

    Raises ConfigError where dbt is not installed, and for a folder that is no project.
    """
    _check_installed()
    if project is None or project.resolve() == PROJECT:
        return DbtProcess(PROJECT, settings.home / "dbt", login, source)
    if not (project / "dbt_project.yml").is_file():
        raise ConfigError(
            "This is no dbt project: it has no dbt_project.yml.",
            where=str(project),
            next_step="Name the folder of a dbt project.",
        )
    return DbtProcess(project.resolve(), settings.home / f"dbt-{project.resolve().name}", login, source)


@contextmanager
def only_run(home: Path) -> Iterator[None]:
    """Hold the lock of `home`: two runs would mix up their results. Raises TransientError while another holds it."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TransientError(
                "Another transform is running.", where=str(home), next_step="Wait for its end, then run this again."
            ) from None
        yield


def environment(login: SnowflakeLogin, source: tuple[str, str]) -> dict[str, str]:
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
        "FIRN_DBT_SOURCE_DATABASE": source[0],
        "FIRN_DBT_SOURCE_SCHEMA": source[1],
        "FIRN_DBT_HOST": login.host,
        "FIRN_DBT_PORT": str(login.port),
        "FIRN_DBT_PROTOCOL": login.protocol,
        "DBT_ENV_SECRET_FIRN_PRIVATE_KEY": base64.b64encode(key).decode(),
        "PYTHONWARNINGS": "ignore",
    }


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


def _event(said: dict[str, Any]) -> NodeEvent:
    return NodeEvent(
        said["id"],
        said["kind"],
        said["name"],
        said["step"] == "end",
        said.get("status", ""),
        said.get("message") or "",
    )
