"""The whole way, through the public commands only, as a newcomer walks it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.stack

COUNTED = """
SELECT COUNT(*) AS ALL_ROWS, COUNT(DISTINCT topic, partition, offset) AS DISTINCT_ROWS, SUM(order_total) > 0 AS PRICED,
  COUNT(DISTINCT order_status) AS STATES, MIN(created_at) > '2020-01-01'::TIMESTAMP_NTZ AS RECENT
FROM FCT_ORDER_EVENTS
"""


def json_rows(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def runs(stack) -> list[dict[str, Any]]:
    """Two runs of the pipeline, one after the other."""
    return [
        json_rows(stack.run("pipeline", "--count", count, "--json", timeout=300).stdout)[0] for count in ("300", "70")
    ]


def test_each_run_adds_exactly_the_new_orders(runs: list[dict[str, Any]]) -> None:
    first, second = (
        {count["table"]: (count["rows"], count["distinct_rows"]) for count in run["tables"]} for run in runs
    )
    before = first["ORDER_EVENTS"][0]
    assert first["ORDER_EVENTS"] == (before, before)
    assert second["ORDER_EVENTS"] == (before + 70, before + 70)
    assert second["FCT_ORDER_EVENTS"][0] == before + 70
    assert runs[1]["sink"]["records"] == 70


def test_everything_that_is_in_the_topic_is_committed(runs: list[dict[str, Any]]) -> None:
    partitions = runs[1]["sink"]["partitions"]
    assert [p["lag"] for p in partitions] == [0, 0, 0]
    assert sum(p["end_offset"] for p in partitions) == runs[1]["tables"][0]["rows"]


def test_orders_are_typed(stack, runs: list[dict[str, Any]]) -> None:
    (row,) = json_rows(stack.run("sql", COUNTED, "--json").stdout)
    assert row["ALL_ROWS"] == row["DISTINCT_ROWS"] == runs[1]["tables"][0]["rows"]
    assert row["PRICED"]
    assert row["RECENT"]
    assert 3 <= row["STATES"] <= 5
    statuses = {node["status"] for node in runs[1]["dbt"]}
    assert statuses == {"success", "pass"}


def test_a_second_provision_finds_everything_and_changes_nothing(stack, runs: list[dict[str, Any]]) -> None:
    rows = json_rows(stack.run("provision", "--json").stdout)
    assert {row["state"] for row in rows} <= {"found", "ok"}


def test_the_statements_of_the_course_run(stack, runs: list[dict[str, Any]]) -> None:
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


def test_the_statement_of_the_guide_gives_the_record_time(stack, runs: list[dict[str, Any]]) -> None:
    guide = Path("docs/commands.md").read_text().split("```sql")[1].split("```")[0]
    rows = json_rows(stack.run("sql", guide, "--json").stdout)
    assert all(row["KAFKA_TIMESTAMP"] >= "2020" for row in rows)
