"""The broker and the registry go away under a sink that goes on, in a stack that this file may harm."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firn_local import process
from firn_local.home import Home
from tests.support.faults_checks import agrees, exactly_once
from tests.support.faults_jobs import END_SECONDS, job
from tests.support.kafka import Topic, framed
from tests.support.sinks import committed, connector_file, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.full]

SCHEMA = {"type": "record", "name": "Item", "fields": [{"name": "id", "type": "long"}]}
OUTAGE_SECONDS = {"kafka": 10, "schema-registry": 60}


@pytest.fixture(scope="module")
def own_stack(new_stack: Callable[[str], Any]) -> Any:
    """An embedded stack of this file's own."""
    return new_stack("harmed")


@pytest.mark.both_methods
@pytest.mark.parametrize("server", ["kafka", "schema-registry"])
def test_a_server_that_dies_and_comes_back_costs_no_record(own_stack: Any, tmp_path: Path, server: str) -> None:
    settings = own_stack.settings
    topic = Topic(settings, "outage", partitions=1)

    def send(count: int) -> None:
        """Under a schema id that no worker knows yet."""
        schema = SCHEMA | {"name": f"Item{time.monotonic_ns()}"}
        topic.send(framed(topic.register(schema), schema, ({"id": n} for n in range(count))))

    def arrived(count: int) -> None:
        wait_until(lambda: committed(settings, topic).get(0) == count, seconds=END_SECONDS, what=f"{count} records")

    send(10)
    file = connector_file(tmp_path, topic, buffer__count__records="1", errors__tolerance="all")
    with job(own_stack, file, once=False) as sink:
        arrived(10)
        if server == "schema-registry":
            send(10)  # read while the registry is away
        running = process.find(Home.load(own_stack.home).pid_file(server))
        assert running is not None
        process.stop(running, 10)
        time.sleep(OUTAGE_SECONDS[server])  # the fault itself
        assert sink.poll() is None
        assert agrees(settings, topic)
        own_stack.run("up", timeout=300)
        send(10)
        arrived(30 if server == "schema-registry" else 20)
        sink.send_signal(signal.SIGTERM)
        assert sink.wait(END_SECONDS) == 0
    exactly_once(settings, topic, {0: 30 if server == "schema-registry" else 20})
