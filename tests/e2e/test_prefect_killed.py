"""The Prefect worker, the Prefect server and flow runs are killed under a sink that its deployment keeps alive.

It recovers by itself, no process is orphaned, no record doubled, and the UI tells the truth. In a stack that this file
may harm.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitUpdate
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelling

from firn_local import process
from firn_local.home import Home
from tests.support.deployed_sink import ORPHAN_SECONDS, START_SECONDS, DeployedSink, one_driver_at_most
from tests.support.sinks import wait_until

pytestmark = [pytest.mark.stack, pytest.mark.full, pytest.mark.timeout(1800)]

LEASE_SECONDS = 300.0
"""For so long Prefect believes a run that holds a slot without hearing of it."""


@pytest.fixture(scope="module")
def own_stack(new_stack: Callable[[str], Any]) -> Any:
    """An embedded stack of this file's own, with everything deployed and every schedule off."""
    stack = new_stack("prefect-killed")
    stack.run("deploy", "--paused", timeout=300)
    return stack


@pytest.fixture
def client(own_stack: Any) -> Iterator[SyncPrefectClient]:
    """Of the stack's Prefect server, in this process."""
    url = own_stack.settings.prefect_api_url
    with temporary_settings({PREFECT_API_URL: url}), get_client(sync_client=True) as client:
        yield client


@pytest.fixture
def sink(own_stack: Any, client: SyncPrefectClient, tmp_path: Path) -> Iterator[DeployedSink]:
    """A deployed sink, with records that flow."""
    sink = DeployedSink(own_stack, client, tmp_path)
    yield sink
    own_stack.run("up", timeout=300)
    sink.leave()


def kill_server(stack: Any, name: str) -> None:
    """SIGKILL to a server's whole process group."""
    running = process.find(Home.load(stack.home).pid_file(name))
    assert running is not None
    os.killpg(running.pid, signal.SIGKILL)
    running.wait(30)


def gone(family: list[psutil.Process]) -> bool:
    return not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in family)


def only_run_but(sink: DeployedSink, *before: object) -> bool:
    """Whether exactly one run is Running, and it is none of these."""
    running = sink.running()
    return len(running) == 1 and running[0] not in before


def test_a_killed_worker_leaves_no_orphan_and_the_schedule_brings_the_sink_back(
    own_stack: Any, sink: DeployedSink
) -> None:
    first = sink.start()
    sink.schedule(active=True)
    with one_driver_at_most(sink):
        sink.moves()
        family = sink.family()
        kill_server(own_stack, "prefect-worker")
        wait_until(lambda: gone(family), seconds=ORPHAN_SECONDS, what="no orphan")
        wait_until(lambda: "Failed" in sink.state(first), what="the run is not shown as Running for ever")
        assert "The Prefect worker that started this run is gone." in sink.state(first)
        own_stack.run("up", timeout=300)
        wait_until(lambda: only_run_but(sink, first), seconds=START_SECONDS, what="the schedule starts the sink")
        sink.moves()
        sink.ends()


def test_the_sink_goes_on_without_the_server_and_is_cancelled_in_order_after_it_is_back(
    own_stack: Any, client: SyncPrefectClient, sink: DeployedSink
) -> None:
    first = sink.start()
    sink.schedule(active=True)
    with one_driver_at_most(sink):
        sink.moves()
        family = sink.family()
        kill_server(own_stack, "prefect")
        for _ in range(2):
            sink.moves(60)
        own_stack.run("up", timeout=300)
        back = datetime.now(UTC)
        assert sink.running() == [first]
        # The server has forgotten the run's slot, and says so when it is to be renewed.
        lost = "Prefect could not renew this run's concurrency slot"
        wait_until(lambda: sink.said(first, lost), seconds=LEASE_SECONDS, what="the slot is lost")
        sink.moves(60)
        assert sink.running() == [first]
        wait_until(lambda: ": Running" in sink.shown(first, back), what="the artifact goes on")
        assert family[0].is_running()
        client.set_flow_run_state(first, Cancelling())
        wait_until(lambda: gone(family), seconds=ORPHAN_SECONDS, what="no orphan")
        wait_until(lambda: "Cancelled" in sink.state(first), what="the run is shown as cancelled")
        wait_until(lambda: only_run_but(sink, first), seconds=START_SECONDS, what="the schedule starts the sink")
        sink.moves()
        sink.ends()


def test_two_runs_never_double_a_sink_and_the_second_takes_over(
    own_stack: Any, client: SyncPrefectClient, sink: DeployedSink
) -> None:
    def slots(count: int) -> None:
        client.update_global_concurrency_limit(f"deployment:{sink.id}", GlobalConcurrencyLimitUpdate(limit=count))

    first = sink.start()
    with one_driver_at_most(sink):
        sink.moves()
        refused = sink.start()
        wait_until(lambda: "Cancelled" in sink.state(refused), what="the second run is cancelled")
        assert "concurrency limit reached" in sink.state(refused)
        slots(2)  # as where the server has forgotten who holds a slot
        try:
            second = sink.start()
            wait_until(lambda: "this one watches it" in sink.shown(second), seconds=START_SECONDS, what="it watches")
            assert set(sink.running()) == {first, second}
            family = sink.family()
            family[0].kill()
            wait_until(lambda: gone(family), seconds=ORPHAN_SECONDS, what="no orphan")
            wait_until(lambda: "Crashed" in sink.state(first), what="the UI says that the run crashed")
            sink.moves()
            assert sink.running() == [second]
        finally:
            slots(1)
        sink.ends()
