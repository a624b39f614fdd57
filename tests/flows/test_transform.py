"""The transform flow and `firn transform`: results for people, failures as failures. dbt itself is replaced."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from prefect.artifacts import Artifact
from prefect.settings import PREFECT_SERVER_ANALYTICS_ENABLED, temporary_settings
from prefect.testing.utilities import prefect_test_harness
from pydantic import SecretStr
from typer.testing import CliRunner

from firn.dbt.results import NodeResult, TransformError, TransformResult, failure
from firn.secrets import SnowflakeSecret
from flows import transform as flow_module
from flows.cli import app

GOOD = TransformResult((NodeResult("fct_order_events", "model", "success", 42, 1.5, ""),))
BAD = TransformResult((*GOOD.nodes, NodeResult("unique_orders", "test", "fail", 1, 0.1, "Got 1 result")))


@pytest.fixture(scope="module")
def own_prefect_server() -> Iterator[None]:
    """A server with no other runs: the newest artifact is this module's."""
    with temporary_settings({PREFECT_SERVER_ANALYTICS_ENABLED: False}), prefect_test_harness(120):
        yield


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """dbt and Secrets Manager replaced; with select "bad" a test fails. Collects what dbt was asked for."""
    asked: list[dict[str, Any]] = []

    def run_dbt(_settings: Any, _login: Any, **options: Any) -> TransformResult:
        asked.append(options)
        if options["select"] == "bad":
            raise failure(BAD, "STREAMING.PUBLIC")
        return GOOD

    secret = SnowflakeSecret(account="a", user="u", role="r", private_key=SecretStr("k"))
    monkeypatch.setattr(flow_module, "run_dbt", run_dbt)
    monkeypatch.setattr(flow_module, "read_secret", lambda *_: secret)
    return asked


def _artifact() -> tuple[list[dict[str, Any]], str | None]:
    artifact = asyncio.run(Artifact.aget(flow_module.ARTIFACT_KEY))
    assert artifact
    assert isinstance(artifact.data, str)
    return json.loads(artifact.data), artifact.description


@pytest.mark.usefixtures("own_prefect_server")
def test_the_flow_publishes_every_node_and_fails_when_dbt_does(calls: list[dict[str, Any]]) -> None:
    assert flow_module.transform(select="fct_order_events+", full_refresh=True) == GOOD
    assert calls == [{"select": "fct_order_events+", "full_refresh": True}]
    rows, description = _artifact()
    assert [(row["name"], row["rows"]) for row in rows] == [("fct_order_events", 42)]
    assert description == "dbt: 1 success"

    with pytest.raises(TransformError, match="test unique_orders: Got 1 result") as raised:
        flow_module.transform(select="bad")

    assert raised.value.result == BAD
    rows, description = _artifact()
    assert [row["status"] for row in rows] == ["success", "fail"]
    assert description == "dbt: 1 success, 1 fail"


@pytest.fixture
def command(calls: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> Any:
    """`firn transform` with the flow's body in place of a flow run."""

    def without_prefect(**options: Any) -> TransformResult:
        return flow_module.run_dbt(None, None, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(flow_module, "transform", without_prefect)
    return lambda *arguments: CliRunner().invoke(app, ["transform", *arguments])


def test_the_command_prints_a_json_line_for_each_node(command: Any, calls: list[dict[str, Any]]) -> None:
    result = command("--json", "--full-refresh")

    assert result.exit_code == 0
    assert [json.loads(line)["rows"] for line in result.stdout.splitlines()] == [42]
    assert calls == [{"select": None, "full_refresh": True}]


def test_the_command_shows_the_nodes_of_a_failed_run_too(command: Any) -> None:
    result = command("--json", "--select", "bad")

    assert isinstance(result.exception, TransformError)  # main() makes it a message and exit code 3
    assert [json.loads(line)["status"] for line in result.stdout.splitlines()] == ["success", "fail"]
