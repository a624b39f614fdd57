"""A supervised sink on the stack, by the warehouse meter: idle or paused, it needs no warehouse."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from firn.settings import PROJECT_ROOT, Settings
from tests.support.faults_checks import own_schema
from tests.support.kafka import Topic
from tests.support.sinks import JSON, committed, connector_file, sql, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.full]
QUIET_SECONDS = 75
"""Longer than AUTO_SUSPEND, and than two intervals of anything that looks at Snowflake."""
SUPERVISE = """
import logging, sys
from pathlib import Path
from firn.connector.parse import load_sink_config
from firn.connector.references import Resolver
from firn.secrets import secret_reader
from firn.settings import load_settings
from firn.supervisor.sink_job import policy_of
from flows.prefect_ui.publishing import LogPublisher
from flows.supervision.attended import supervise
from flows.supervision.driver import SINK, Place
settings, file, log = load_settings(), Path(sys.argv[1]), logging.getLogger("flows")
config = load_sink_config(file, Resolver(secret_reader(settings)))
policy = policy_of(config, by="test", patience_seconds=settings.sink_patience_seconds)
supervise(Place(SINK, file, settings, config.name, deployed=False), policy, LogPublisher(log), log)
"""


@contextmanager
def supervised(env: dict[str, str], file: Path) -> Iterator[None]:
    """The sink under a supervisor in a process of its own; asked to end with the block."""
    process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISE, str(file)], cwd=PROJECT_ROOT, env=env, start_new_session=True
    )
    try:
        yield
        process.send_signal(signal.SIGINT)
        process.wait(120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def on_a_warehouse(settings: Settings, sink: str, since: str = "2000-01-01") -> list[str]:
    """The statements about a sink that a warehouse ran since then, whoever sent them."""
    found = sql(
        settings,
        "SELECT QUERY_TEXT FROM SNOWFLAKE.ACCOUNT_USAGE.QUERY_HISTORY WHERE LOCAL_ANSWERED_BY = 'WAREHOUSE' "
        f"AND START_TIME > '{since}'::TIMESTAMP_TZ AND (QUERY_TAG LIKE '%{sink}%' OR QUERY_TEXT LIKE '%{sink}%')",
    )
    return [row["QUERY_TEXT"] for row in found if "ACCOUNT_USAGE" not in row["QUERY_TEXT"]]


def quietly(settings: Settings, sink: str) -> list[str]:
    """The same for a while from now on."""
    since = sql(settings, "SELECT CURRENT_TIMESTAMP()::VARCHAR AS NOW")[0]["NOW"]
    time.sleep(QUIET_SECONDS)
    return on_a_warehouse(settings, sink, since)


@pytest.mark.parametrize("method", ["SNOWPIPE", "SNOWPIPE_STREAMING"])
def test_an_idle_and_a_paused_sink_need_no_warehouse(
    stack: Any, settings: Settings, tmp_path: Path, method: str
) -> None:
    settings = own_schema(settings)  # another sink's commit changes the ledger, and ends the results that it gave
    env = stack.env | {"FIRN_SNOWFLAKE_SCHEMA": settings.snowflake_schema}
    topic = Topic(settings, "idle")
    pace = {"buffer__flush__time": "10", "firn__ledger__seconds": "10"}
    file = connector_file(tmp_path, topic, **JSON, **pace, snowflake__ingestion__method=method)
    sink = f"s_{topic.table}"
    topic.send([b'{"n": 1}', b'{"n": 2}'])
    with supervised(env, file):
        wait_until(lambda: committed(settings, topic).get(0) == 2, seconds=180)
        time.sleep(10)  # what follows a first commit
        assert on_a_warehouse(settings, sink) != []
        assert quietly(settings, sink) == []
        subprocess.run(["firn", "sink", "pause", str(file), "--wait"], env=env, check=True)
        time.sleep(60)  # the end of the run, the change of state, and a look at what they changed
        assert quietly(settings, sink) == []
