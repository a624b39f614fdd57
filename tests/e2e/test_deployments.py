"""prefect.yaml: every flow can be deployed, with schedules and triggers. What a deployment runs: `test_pipeline`."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect import Flow
from prefect.cli.deploy._models import PrefectYamlModel, RawScheduleConfig
from prefect.cli.deploy._triggers import DeploymentTriggerAdapter
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter
from prefect.client.schemas.objects import ConcurrencyLimitStrategy
from prefect.utilities.callables import parameter_schema

from firn.settings import PROJECT_ROOT
from flows.prefect_ui.deployments import switched_off
from flows.prefect_ui.events import EVENTS, emit_sink_event
from tests.support.sinks import wait_until

TEXT = (PROJECT_ROOT / "prefect.yaml").read_text()
DOCUMENT: dict[str, Any] = yaml.safe_load(TEXT)
DEPLOYMENTS: list[dict[str, Any]] = DOCUMENT["deployments"]
BY_NAME = {deployment["name"]: deployment for deployment in DEPLOYMENTS}
each_deployment = pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment["name"])


def flow_of(deployment: dict[str, Any]) -> Flow[Any, Any]:
    path, name = deployment["entrypoint"].split(":")
    flow = getattr(importlib.import_module(path.removesuffix(".py").replace("/", ".")), name)
    assert isinstance(flow, Flow)
    return flow


@each_deployment
def test_every_deployment_names_a_flow_that_takes_its_parameters(deployment: dict[str, Any]) -> None:
    flow = flow_of(deployment)
    assert flow.validate_parameters(deployment.get("parameters", {})) is not None
    assert deployment["description"]
    assert "firn" in deployment["tags"]  # maintenance looks after those only


@each_deployment
def test_the_form_of_a_run_describes_every_field(deployment: dict[str, Any]) -> None:
    fields = parameter_schema(flow_of(deployment)).properties
    assert fields
    assert [name for name, field in fields.items() if not field.get("description")] == []


def test_prefect_takes_the_file_its_schedules_and_its_triggers() -> None:
    assert len(PrefectYamlModel.model_validate(DOCUMENT).deployments) == len(DEPLOYMENTS)
    for deployment in DEPLOYMENTS:
        slugs = [RawScheduleConfig.model_validate(each).slug for each in deployment.get("schedules", ())]
        assert all(slugs)  # without one, deploying again switches on what was switched off
        for each in deployment.get("triggers", ()):
            trigger = DeploymentTriggerAdapter.validate_python(each)
            assert trigger.expect <= {*(f"firn.sink.{event}" for event in EVENTS), "prefect.flow-run.Completed"}
        if limit := deployment.get("concurrency_limit"):
            assert ConcurrencyLimitStrategy(limit["collision_strategy"])


def test_every_flow_is_deployed() -> None:
    flows = {path.stem for path in (PROJECT_ROOT / "flows").glob("*.py") if "@flow(" in path.read_text()}
    assert {Path(deployment["entrypoint"].split(":")[0]).stem for deployment in DEPLOYMENTS} == flows


def test_whatever_runs_by_itself_never_runs_twice_at_once() -> None:
    for deployment in DEPLOYMENTS:
        if deployment.get("schedules") or deployment.get("triggers"):
            assert deployment["concurrency_limit"] == {"limit": 1, "collision_strategy": "CANCEL_NEW"}
    assert "concurrency_limit" not in BY_NAME["sink-control"]  # it has to get through while the sink runs


def test_the_sink_is_kept_alive_and_sample_orders_are_not_produced_unasked() -> None:
    sink = BY_NAME["sink"]
    assert sink["parameters"].items() >= {"once": False, "keep_alive": True}.items()
    assert 60 <= sink["schedules"][0]["interval"] <= 300
    assert BY_NAME["producer"]["schedules"][0]["active"] is False


def test_a_transform_follows_commits_once_in_its_time_and_misses_none() -> None:
    """It runs when the time in which further events fire nothing is over, so these are built too."""
    (trigger,) = (DeploymentTriggerAdapter.validate_python(each) for each in BY_NAME["transform"]["triggers"])
    assert trigger.threshold == 1
    assert trigger.within == trigger.schedule_after
    assert trigger.within.total_seconds() >= 60


@pytest.mark.parametrize("file", ["prefect.yaml", "infra/prefect/automations.yaml"])
def test_no_secret_is_in_what_is_deployed(file: str) -> None:
    text = (PROJECT_ROOT / file).read_text()
    assert not re.search(r"(?im)(password|passphrase|secret|api_?key|private_?key|token)\w*[\"']?\s*[:=]", text)
    assert not re.search(r"-----BEGIN|://[^/\s]*:[^/\s]*@|[A-Za-z0-9+/=_-]{40,}", text)


def test_paused_means_that_nothing_runs_by_itself() -> None:
    deployments = {each["name"]: each for each in switched_off(DOCUMENT)["deployments"]}
    assert {each["active"] for one in deployments.values() for each in one["schedules"]} == {False}
    assert {each["enabled"] for one in deployments.values() for each in one["triggers"]} == {False}
    assert deployments["sink"]["parameters"] == BY_NAME["sink"]["parameters"]


def test_the_page_lists_every_deployment() -> None:
    page = (PROJECT_ROOT / "docs/prefect.md").read_text()
    assert [name for name in BY_NAME if f"| `{flow_of(BY_NAME[name]).name}/{name}` |" not in page] == []


@pytest.mark.stack
def test_deploying_says_what_there_is_and_when_it_runs(
    deployed: list[dict[str, Any]], client: SyncPrefectClient
) -> None:
    runs = {row["name"]: row["runs"] for row in deployed if row["kind"] == "deployment"}
    assert set(runs) == {f"{flow_of(each).name}/{each['name']}" for each in DEPLOYMENTS}
    assert runs["sink/sink"] == "off: every 120 s"
    assert runs["provision/provision"] == ""
    assert {row["name"] for row in deployed if row["kind"] == "automation"} >= {"firn-sink-stalled", "firn-sink-failed"}
    sink = client.read_deployment_by_name("sink/sink")
    assert sink.global_concurrency_limit
    assert sink.global_concurrency_limit.limit == 1
    assert sink.concurrency_options
    assert sink.concurrency_options.collision_strategy is ConcurrencyLimitStrategy.CANCEL_NEW


@pytest.mark.stack
@pytest.mark.usefixtures("deployed")
def test_commits_plan_one_transform_for_the_end_of_their_time(client: SyncPrefectClient) -> None:
    transform = client.read_deployment_by_name("transform/transform").id
    (automation,) = client.read_automations_by_name("firn-transform-after-commits")
    planned = FlowRunFilter.model_validate(
        {"deployment_id": {"any_": [str(transform)]}, "state": {"type": {"any_": ["SCHEDULED"]}}}
    )
    client.resume_automation(automation.id)
    try:
        for rows in range(3):
            emit_sink_event("committed", {"sink": "deployed", "rows": rows})
        wait_until(lambda: client.read_flow_runs(flow_run_filter=planned), what="a transform is planned")
    finally:
        client.pause_automation(automation.id)
        runs = client.read_flow_runs(flow_run_filter=planned)
        for run in runs:
            client.delete_flow_run(run.id)
    assert len(runs) == 1
    assert runs[0].estimated_start_time_delta.total_seconds() == 0
    assert runs[0].expected_start_time
    assert runs[0].created
    assert (runs[0].expected_start_time - runs[0].created).total_seconds() == pytest.approx(120, abs=10)
