"""prefect.yaml: every flow can be deployed, and a run that the server starts does what the command does."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect import Flow

from firn.settings import PROJECT_ROOT

PREFECT = Path(sys.executable).with_name("prefect")
DEPLOYMENTS: list[dict[str, Any]] = yaml.safe_load((PROJECT_ROOT / "prefect.yaml").read_text())["deployments"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment["name"])
def test_every_deployment_names_a_flow_that_takes_its_parameters(deployment: dict[str, Any]) -> None:
    path, name = deployment["entrypoint"].split(":")
    flow = getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), name)
    assert isinstance(flow, Flow)
    assert flow.validate_parameters(deployment.get("parameters", {})) is not None
    assert deployment["description"]


def test_every_flow_is_deployed() -> None:
    flows = {path.stem for path in (PROJECT_ROOT / "flows").glob("*.py") if "@flow(" in path.read_text()}
    assert {Path(deployment["entrypoint"].split(":")[0]).stem for deployment in DEPLOYMENTS} == flows


@pytest.mark.stack
def test_a_deployed_pipeline_runs_on_the_worker(stack) -> None:
    def prefect(*args: str) -> str:
        env = stack.env | {"PREFECT_API_URL": stack.settings.prefect_api_url}
        done = subprocess.run(
            [PREFECT, "--no-prompt", *args], cwd=PROJECT_ROOT, env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    prefect("deploy", "--all")
    prefect("deployment", "run", "pipeline/pipeline", "--param", "count=20", "--watch")
    artifact = json.loads(prefect("artifact", "inspect", "pipeline", "--limit", "1", "--output", "json"))[0]
    assert "**20** records produced, **20** committed" in artifact["data"]
    assert "| ORDER_EVENTS |" in artifact["data"]
    assert "| order-events | 2 | ORDER_EVENTS |" in artifact["data"]
    assert "| success | model | fct_order_events |" in artifact["data"]
