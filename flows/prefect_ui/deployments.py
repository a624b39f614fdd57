"""Deploy prefect.yaml to a Prefect server, by Prefect's own command. What is in it: docs/prefect.md.

Not for automations (`flows.prefect_ui.automations`), nor for work pools and workers, which belong to the environment.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterName
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule

from firn.errors import ConfigError
from firn.settings import PROJECT_ROOT

FILE = PROJECT_ROOT / "prefect.yaml"
_SECONDS = 300


class Deployed(NamedTuple):
    """A deployment as the server has it now."""

    name: str
    schedule: str


def deploy_all(*, paused: bool = False) -> None:
    """Run `prefect deploy --all`. paused: schedules and triggers are off until somebody switches them on.

    Raises ConfigError with Prefect's output if it fails.
    """
    document = yaml.safe_load(FILE.read_text())
    if not paused:
        return _run(FILE)
    with tempfile.TemporaryDirectory(prefix="firn-deploy-") as folder:
        file = Path(folder, FILE.name)
        file.write_text(yaml.safe_dump(switched_off(document)))
        return _run(file)


def switched_off(document: dict[str, Any]) -> dict[str, Any]:
    """A prefect.yaml whose schedules and triggers are off."""

    def off(deployment: dict[str, Any]) -> dict[str, Any]:
        schedules = [{**each, "active": False} for each in deployment.get("schedules", ())]
        triggers = [{**each, "enabled": False} for each in deployment.get("triggers", ())]
        return {**deployment, "schedules": schedules, "triggers": triggers}

    return {**document, "deployments": [off(each) for each in document["deployments"]]}


def deployed(client: SyncPrefectClient) -> list[Deployed]:
    """The deployments of prefect.yaml, in its order."""
    found = []
    for each in yaml.safe_load(FILE.read_text())["deployments"]:
        named = DeploymentFilter(name=DeploymentFilterName(any_=[each["name"]]))
        for answer in client.read_deployments(deployment_filter=named):
            if answer.entrypoint == each["entrypoint"]:
                flow = client.read_flow(answer.flow_id).name
                found.append(Deployed(f"{flow}/{answer.name}", _schedule(answer)))
    return found


def _schedule(deployment: DeploymentResponse) -> str:
    """When it runs by itself; "off: " in front of a schedule that is switched off."""
    texts = []
    for each in deployment.schedules:
        schedule = each.schedule
        if isinstance(schedule, IntervalSchedule):
            text = f"every {schedule.interval.total_seconds():.0f} s"
        else:
            text = schedule.cron if isinstance(schedule, CronSchedule) else "by recurrence rule"
        texts.append(text if each.active and not deployment.paused else f"off: {text}")
    return ", ".join(texts)


def _run(file: Path) -> None:
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(file)]
    done = subprocess.run(command, cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=_SECONDS, check=False)
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split()[-60:])
        raise ConfigError(
            f"`prefect deploy --all` ended with {done.returncode}: {said}",
            where=str(FILE),
            next_step="The work pool must exist: prefect work-pool create firn --type process",
        )
