"""A real driver, on the stack: what it runs on a warehouse once its records are in the table, and nothing comes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from firn.settings import Settings
from tests.support.faults_jobs import job
from tests.support.kafka import Topic
from tests.support.sinks import JSON, committed, connector_file, sql, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.full]
IDLE_SECONDS = 75
"""Longer than any interval in which a sink might look at Snowflake while it is idle, and than AUTO_SUSPEND."""


def on_a_warehouse(settings: Settings, sink: str, since: str) -> list[str]:
    """The statements of a sink's sessions that a warehouse ran since then."""
    found = sql(
        settings,
        "SELECT QUERY_TEXT FROM SNOWFLAKE.ACCOUNT_USAGE.QUERY_HISTORY WHERE LOCAL_ANSWERED_BY = 'WAREHOUSE' "
        f"AND START_TIME > '{since}'::TIMESTAMP_TZ AND (QUERY_TAG LIKE '%{sink}%' OR QUERY_TEXT LIKE '%{sink}%')",
    )
    return [row["QUERY_TEXT"] for row in found if "ACCOUNT_USAGE" not in row["QUERY_TEXT"]]


@pytest.mark.parametrize("method", ["SNOWPIPE", "SNOWPIPE_STREAMING"])
def test_an_idle_sink_runs_nothing_on_a_warehouse(stack: Any, settings: Settings, tmp_path: Path, method: str) -> None:
    topic = Topic(settings, "idle")
    file = connector_file(
        tmp_path,
        topic,
        **JSON,
        snowflake__ingestion__method=method,
        buffer__flush__time="10",
        firn__ledger__seconds="10",
    )
    name = f"s_{topic.table}"
    topic.send([b'{"n": 1}', b'{"n": 2}'])
    with job(stack, file, once=False):
        wait_until(lambda: committed(settings, topic).get(0) == 2, seconds=180)
        since = sql(settings, "SELECT CURRENT_TIMESTAMP()::VARCHAR AS NOW")[0]["NOW"]
        time.sleep(IDLE_SECONDS)
        assert on_a_warehouse(settings, name, since) == []
        assert on_a_warehouse(settings, name, "2000-01-01") != []  # its start
