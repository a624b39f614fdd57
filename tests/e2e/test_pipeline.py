"""The whole way, as a newcomer walks it: through the public commands, and then once more from Prefect's UI."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import FlowRunFilter

from firn.settings import PROJECT_ROOT
from tests.support.sinks import wait_until

pytestmark = pytest.mark.stack

PREFECT = Path(sys.executable).with_name("prefect")
ORDERS = 300

COUNTED = """
SELECT COUNT(*) AS ALL_ROWS, COUNT(DISTINCT topic, partition, offset) AS DISTINCT_ROWS, SUM(order_total) > 0 AS PRICED,
  COUNT(DISTINCT order_status) AS STATES, MIN(created_at) > '2020-01-01'::TIMESTAMP_NTZ AS RECENT
FROM FCT_ORDER_EVENTS
"""


def json_rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def run(stack) -> dict[str, Any]:
    """What a run of the pipeline by its command says."""
    return json_rows(stack.run("pipeline", "--count", ORDERS, "--json", timeout=300).stdout)[0]


def tables_of(run: dict[str, Any]) -> dict[str, tuple[int, int]]:
    """Rows and distinct rows of each table."""
    return {count["table"]: (count["rows"], count["distinct_rows"]) for count in run["tables"]}


def test_a_run_adds_exactly_the_new_orders(run: dict[str, Any]) -> None:
    tables = tables_of(run)
    rows, distinct = tables["ORDER_EVENTS"]
    assert rows == distinct == tables["FCT_ORDER_EVENTS"][0] >= ORDERS
    assert run["sink"]["records"] >= ORDERS


def test_everything_that_is_in_the_topic_is_committed(run: dict[str, Any]) -> None:
    partitions = run["sink"]["partitions"]
    assert [p["lag"] for p in partitions] == [0, 0, 0]
    assert sum(p["end_offset"] for p in partitions) == tables_of(run)["ORDER_EVENTS"][0]


def test_orders_are_typed(stack, run: dict[str, Any]) -> None:
    (row,) = json_rows(stack.run("sql", COUNTED, "--json").stdout)
    assert row["ALL_ROWS"] == row["DISTINCT_ROWS"] == tables_of(run)["ORDER_EVENTS"][0]
    assert row["PRICED"]
    assert row["RECENT"]
    assert 3 <= row["STATES"] <= 5
    assert {node["status"] for node in run["dbt"]} == {"success", "pass"}


def test_a_second_provision_finds_everything_and_changes_nothing(stack, run: dict[str, Any]) -> None:
    rows = json_rows(stack.run("provision", "--json").stdout)
    assert {row["state"] for row in rows} <= {"found", "ok"}


def test_the_statements_of_the_course_run(stack, run: dict[str, Any]) -> None:
    course = """
    USE ROLE ANALYTICS_DEVELOPER; USE DATABASE STREAMING; USE SCHEMA PUBLIC; SHOW TABLES;
    SELECT * FROM ORDER_EVENTS LIMIT 10;
    SELECT RECORD_METADATA:topic::STRING AS topic, RECORD_METADATA:partition::INT AS partition,
      RECORD_METADATA:offset::INT AS offset, RECORD_METADATA:timestamp::TIMESTAMP AS kafka_timestamp,
      RECORD_CONTENT:order_id::INT AS order_id, RECORD_CONTENT:customer_id::STRING AS customer_id,
      RECORD_CONTENT:order_status::STRING AS order_status, RECORD_CONTENT:order_total::FLOAT AS order_total
    FROM ORDER_EVENTS ORDER BY RECORD_METADATA:timestamp DESC;
    SHOW GRANTS TO ROLE SVC_KAFKA_CONNECTOR;
    """
    rows = json_rows(stack.run("sql", course, "--json").stdout)
    assert any(row.get("name") == "ORDER_EVENTS" for row in rows)
    assert any(row.get("TOPIC") == "order-events" and row["ORDER_ID"] > 0 for row in rows)
    assert any("STREAMING_DB_WRITER" in row.values() for row in rows)


def test_the_statement_of_the_guide_gives_the_record_time(stack, run: dict[str, Any]) -> None:
    guide = Path("docs/commands.md").read_text().split("```sql")[1].split("```")[0]
    rows = json_rows(stack.run("sql", guide, "--json").stdout)
    assert all(row["KAFKA_TIMESTAMP"] >= "2020" for row in rows)


@pytest.mark.usefixtures("deployed")
@pytest.mark.full
def test_what_the_ui_starts_runs_on_the_worker_and_adds_its_orders_alone(
    stack: Any, client: SyncPrefectClient, run: dict[str, Any]
) -> None:
    def start(name: str, **parameters: Any) -> UUID:
        id = client.read_deployment_by_name(name).id
        return client.create_flow_run_from_deployment(id, parameters=parameters).id

    def prefect(*args: str) -> str:
        env = stack.env | {"PREFECT_API_URL": stack.settings.prefect_api_url}
        done = subprocess.run(
            [PREFECT, "--no-prompt", *args], cwd=PROJECT_ROOT, env=env, capture_output=True, text=True, timeout=500
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    maintenance = client.read_deployment_by_name("maintenance/maintenance")
    (schedule,) = maintenance.schedules
    client.update_deployment_schedule(maintenance.id, schedule.id, active=True)
    cheap = [start("maintenance/maintenance"), start("sink/sink-control", action="resume")]
    prefect("deployment", "run", "pipeline/pipeline", "--param", "count=20", "--watch")
    artifact = json.loads(prefect("artifact", "inspect", "pipeline", "--limit", "1", "--output", "json"))[0]
    assert "**20** records produced, **20** committed" in artifact["data"]
    assert "| ORDER_EVENTS |" in artifact["data"]
    assert "| order-events | 2 | ORDER_EVENTS |" in artifact["data"]
    assert "| success | model | fct_order_events |" in artifact["data"]
    (row,) = json_rows(stack.run("sql", COUNTED, "--json").stdout)
    assert row["ALL_ROWS"] == row["DISTINCT_ROWS"] == tables_of(run)["ORDER_EVENTS"][0] + 20
    ended = [client.read_flow_run(id).state_type for id in cheap]
    wait_until(lambda: all(client.read_flow_run(id).state.is_final() for id in cheap), what=f"runs end: {ended}")
    assert [str(client.read_flow_run(id).state_name) for id in cheap] == ["Completed", "Completed"]
    planned = FlowRunFilter.model_validate(
        {"deployment_id": {"any_": [str(maintenance.id)]}, "state": {"type": {"any_": ["SCHEDULED"]}}}
    )
    try:
        # The server's scheduler looks once a minute, which has passed meanwhile.
        wait_until(lambda: client.read_flow_runs(flow_run_filter=planned), seconds=90, what="a schedule makes runs")
    finally:
        client.update_deployment_schedule(maintenance.id, schedule.id, active=False)
