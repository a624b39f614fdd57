"""The transform flow and `firn transform`: results for people, failures as failures. dbt itself is replaced."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from prefect.artifacts import Artifact
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import TaskRunFilter, TaskRunFilterFlowRunId
from prefect.client.schemas.sorting import FlowRunSort
from prefect.events.worker import EventsWorker
from prefect.settings import PREFECT_SERVER_ANALYTICS_ENABLED, temporary_settings
from prefect.testing.utilities import prefect_test_harness
from pydantic import SecretStr
from typer.testing import CliRunner

from firn.dbt.process import NodeEvent
from firn.dbt.results import NodeResult, TransformError, TransformResult, failure
from firn.dbt.transform import Build
from firn.snowflake.connection import SnowflakeLogin
from flows import transform as flow_module
from flows.cli import app
from tests.support.sinks import wait_until

GOOD = TransformResult((NodeResult("fct_order_events", "model", "success", 42, 1.5, ""),))
BAD = TransformResult((*GOOD.nodes, NodeResult("unique_orders", "test", "fail", 1, 0.1, "Got 1 result")))


@pytest.fixture(scope="module")
def own_prefect_server() -> Iterator[None]:
    """A server with no other runs: the newest artifact is this module's.

    Prefect keeps one events worker a process, whatever server it was made for, and task states travel as events: a
    worker that an earlier test left asks that test's server for this flow run, and loses them.
    """
    EventsWorker.drain_all(timeout=10)
    with temporary_settings({PREFECT_SERVER_ANALYTICS_ENABLED: False}), prefect_test_harness(120):
        yield


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Build]:
    """dbt and Secrets Manager replaced; with select "bad" a test fails. Collects what dbt was asked for."""
    asked: list[Build] = []

    def run_dbt(_settings: Any, _login: Any, build: Build, *, source: Any, on_node: Any) -> TransformResult:
        asked.append(build)
        told = threading.Thread(target=_tell, args=(on_node, build.select == "bad"))
        told.start()
        told.join()
        if build.select == "bad":
            raise failure(BAD, "STREAMING.PUBLIC")
        return GOOD

    login = SnowflakeLogin("a", "u", "r", "w", "STREAMING", "PUBLIC", "127.0.0.1", 1, "http", SecretStr("k"))
    monkeypatch.setattr(flow_module, "run_dbt", run_dbt)
    monkeypatch.setattr(flow_module, "dbt_login", lambda _: login)
    monkeypatch.setattr(flow_module, "failing_rows", lambda *_: [{"ORDER_ID": 7, "NOTE": None}])
    return asked


def _tell(on_node: Any, bad: bool) -> None:
    """What dbt's process says, from the thread that reads it."""
    for node in BAD.nodes if bad else GOOD.nodes:
        on_node(NodeEvent(node.name, node.kind, node.name, ended=False))
        on_node(NodeEvent(node.name, node.kind, node.name, ended=True, status=node.status, message=node.message))
    if bad:
        on_node(NodeEvent("lost", "model", "lost", ended=False))  # dbt ended first


def _task_states() -> dict[str, str]:
    """Names of the newest run's tasks, and of their states."""
    with get_client(sync_client=True) as client:
        (run,) = client.read_flow_runs(sort=FlowRunSort.START_TIME_DESC, limit=1)
        wanted = TaskRunFilter(flow_run_id=TaskRunFilterFlowRunId(any_=[run.id]))
        return {task.name: task.state_name or "" for task in client.read_task_runs(task_run_filter=wanted)}


def _artifact(key: str = flow_module.ARTIFACT_KEY) -> tuple[list[dict[str, Any]], str | None]:
    artifact = asyncio.run(Artifact.aget(key))
    assert artifact
    assert isinstance(artifact.data, str)
    return json.loads(artifact.data), artifact.description


@pytest.mark.usefixtures("own_prefect_server")
def test_the_flow_publishes_every_node_and_fails_when_dbt_does(calls: list[Build]) -> None:
    assert flow_module.transform(select="fct_order_events+", full_refresh=True) == GOOD
    assert calls == [Build("fct_order_events+", full_refresh=True)]
    wait_until(lambda: _task_states() == {"model fct_order_events": "Completed"}, seconds=120)
    rows, description = _artifact()
    assert [(row["name"], row["rows"]) for row in rows] == [("fct_order_events", 42)]
    assert description == "dbt: 1 success"

    with pytest.raises(TransformError, match="test unique_orders: Got 1 result") as raised:
        flow_module.transform(select="bad")

    assert raised.value.result == BAD
    rows, description = _artifact()
    assert [row["status"] for row in rows] == ["success", "fail"]
    assert description == "dbt: 1 success, 1 fail"
    rows, description = _artifact("transform-unique-orders")
    assert rows == [{"ORDER_ID": "7", "NOTE": None}]
    assert description == "fail: Got 1 result. The first 1 of 1 rows."
    ended = {"model fct_order_events": "Completed", "test unique_orders": "Failed", "model lost": "Cancelled"}
    wait_until(lambda: _task_states() == ended, seconds=120)


@pytest.fixture
def command(calls: list[Build], monkeypatch: pytest.MonkeyPatch) -> Any:
    """`firn transform` with the flow's body in place of a flow run."""

    def without_prefect(**options: Any) -> TransformResult:
        build = {name: value for name, value in options.items() if value is not None}
        return flow_module.run_dbt(None, None, Build(**build), source=None, on_node=lambda _: None)  # type: ignore[arg-type]

    monkeypatch.setattr(flow_module, "transform", without_prefect)
    return lambda *arguments: CliRunner().invoke(app, ["transform", *arguments])


def test_the_command_prints_a_json_line_for_each_node(command: Any, calls: list[Build]) -> None:
    result = command("--json", "--full-refresh", "--vars", '{"firn_backfill_from": "2026-03-01"}', "--no-freshness")

    assert result.exit_code == 0
    assert [json.loads(line)["rows"] for line in result.stdout.splitlines()] == [42]
    assert calls == [Build(full_refresh=True, freshness=False, variables={"firn_backfill_from": "2026-03-01"})]


def test_the_command_shows_the_nodes_of_a_failed_run_too(command: Any) -> None:
    result = command("--json", "--select", "bad")

    assert isinstance(result.exception, TransformError)  # main() makes it a message and exit code 3
    assert [json.loads(line)["status"] for line in result.stdout.splitlines()] == ["success", "fail"]


def test_vars_are_a_json_object(command: Any) -> None:
    for given in ("{", "[1]"):
        result = command("--vars", given)
        assert result.exit_code == 2
        assert "--vars is" in result.output
