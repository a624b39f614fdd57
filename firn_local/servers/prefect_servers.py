"""The Prefect server (SQLite, nothing leaves loopback) and one process worker on the work pool `firn`.

Source: https://docs.prefect.io/v3/api-ref/settings-ref. What runs on the worker is deployed by prefect.yaml.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from firn.settings import PROJECT_ROOT
from firn_local import process
from firn_local.home import LOOPBACK, Home
from firn_local.process import Launch
from firn_local.servers.server_contract import NotHealthy, Server, http_get, open_loopback

WORK_POOL = "firn"
_WORKER = "firn-local"


class PrefectServer(Server):
    """Prefect's API and UI. Its first start makes the database, which takes longest of all servers."""

    name: ClassVar[str] = "prefect"
    ports: ClassVar[tuple[str, ...]] = ("prefect",)
    start_seconds: ClassVar[float] = 180.0

    def launch(self, home: Home) -> Launch:
        """Prefect's own command."""
        options = ("--host", LOOPBACK, "--port", str(home.ports["prefect"]))
        command = [sys.executable, "-m", "prefect", "server", "start", *options]
        return Launch(command, cwd=home.data(self.name), env=_environment(home))

    def check(self, home: Home) -> None:
        """The API answers and its database too (the work pools are read from it)."""
        http_get(f"{home.url('prefect')}/api/ready")

    def address(self, home: Home) -> str:
        """The UI."""
        return home.url("prefect")

    def settle(self, home: Home) -> None:
        """Make the work pool, so that a deployment never meets a server without one."""
        body = json.dumps({"name": WORK_POOL, "type": "process", "description": "Processes on this machine."})
        request = urllib.request.Request(  # noqa: S310  (the URL is ours)
            f"{home.url('prefect')}/api/work_pools/",
            data=body.encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            open_loopback(request, timeout_seconds=30)
        except urllib.error.HTTPError as error:
            if error.code != 409:  # 409: it exists
                raise NotHealthy(f"the work pool {WORK_POOL} cannot be made: HTTP {error.code}") from error


class PrefectWorker(Server):
    """The worker that runs deployed flows as processes, with this stack as their environment."""

    name: ClassVar[str] = "prefect-worker"
    # All: it must not start a flow that finds half a stack, and it stops before what its flows use.
    needs: ClassVar[tuple[str, ...]] = ("prefect", "kafka", "schema-registry", "snowflake")
    stop_seconds: ClassVar[float] = 30.0

    def launch(self, home: Home) -> Launch:
        """Prefect's own command, in the project's folder, where deployed flows run."""
        options = ("--pool", WORK_POOL, "--type", "process", "--name", _WORKER, "--install-policy", "never")
        command = [sys.executable, "-m", "prefect", "worker", "start", *options]
        return Launch(command, cwd=PROJECT_ROOT, env=_environment(home) | _flow_environment(home))

    def check(self, home: Home) -> None:
        """The server has heard of the worker."""
        url = f"{home.url('prefect')}/api/work_pools/{WORK_POOL}/workers/filter"
        request = urllib.request.Request(url, data=b"{}", headers={"Content-Type": "application/json"})  # noqa: S310
        try:
            workers = json.loads(open_loopback(request))
        except OSError as error:
            raise NotHealthy(f"the Prefect server does not answer: {error}") from error
        running = process.find(home.pid_file(self.name))
        # The server remembers the worker of the last time: only a heartbeat of this process counts.
        since = running.create_time() if running else float("inf")
        beats = [datetime.fromisoformat(w["last_heartbeat_time"]).timestamp() for w in workers if w["name"] == _WORKER]
        if not any(beat >= since for beat in beats):
            raise NotHealthy(f"the Prefect server has not heard of worker {_WORKER}")

    def address(self, home: Home) -> str:
        """The page of its work pool."""
        return f"{home.url('prefect')}/work-pools/work-pool/{WORK_POOL}"


def _environment(home: Home) -> dict[str, str | None]:
    """Prefect's settings; those of the user's own Prefect are dropped, for they mean another server."""
    folder = home.data(PrefectServer.name)
    dropped: dict[str, str | None] = {name: None for name in os.environ if name.startswith("PREFECT_")}
    return dropped | {
        "PREFECT_HOME": str(folder),
        "PREFECT_API_URL": f"{home.url('prefect')}/api",
        "PREFECT_API_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{folder / 'prefect.db'}",
        # Nothing leaves the machine, and the telemetry's writes have met "database is locked".
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        # Runs that ended a month ago go, with their logs and artifacts.
        "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
        "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(30 * 86_400),
        # A run that is asked for starts within seconds; one machine can bear the polling.
        "PREFECT_WORKER_QUERY_SECONDS": "2",
        "PREFECT_CLI_PROMPT": "false",
        "PREFECT_CLI_COLORS": "false",
        "PYTHONUNBUFFERED": "1",
    }


def _flow_environment(home: Home) -> dict[str, str | None]:
    """What a flow run adds: where the stack is, and the programs of this virtual environment."""
    programs = str(Path(sys.executable).parent)
    return {"FIRN_HOME": str(home.root), "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
