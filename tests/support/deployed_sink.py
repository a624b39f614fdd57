"""A sink of a test that its deployment keeps alive: its flow runs, its processes, what Prefect shows of it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psutil
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentUpdate
from prefect.client.schemas.filters import ArtifactFilter, FlowRunFilter, LogFilter
from prefect.client.schemas.objects import FlowRun, StateType

from flows.prefect_ui.job_artifact import artifact_key
from tests.support.flowing import Flowing
from tests.support.kafka import Topic
from tests.support.sinks import committed, connector_file, landed, sql, wait_until

START_SECONDS = 240.0
"""A tick of the schedule (120 s), the server's planning of it, a flow's start and Spark's first batch."""
ORPHAN_SECONDS = 90.0
"""An orderly end of the driver takes seconds, and as long as a batch where one is under way."""
NAME = "sink/sink"


class DeployedSink:
    """The deployment `sink` with a connector of the test's own, and records that flow through its topic."""

    def __init__(self, stack: Any, client: SyncPrefectClient, folder: Path) -> None:
        self.stack, self.client = stack, client
        self.flowing = Flowing(Topic(stack.settings, "deployed"))
        self.topic = self.flowing.topic
        self.file = connector_file(folder, self.topic, buffer__flush__time="10")
        deployment = client.read_deployment_by_name(NAME)
        self.id, (self._schedule,) = deployment.id, deployment.schedules
        parameters = deployment.parameters | {"config": str(self.file)}
        client.update_deployment(self.id, DeploymentUpdate(parameters=parameters))

    def schedule(self, *, active: bool) -> None:
        """Switch its keep-alive schedule on or off."""
        self.client.update_deployment_schedule(self.id, self._schedule.id, active=active)

    def start(self) -> UUID:
        """Start a run as the UI does."""
        return self.client.create_flow_run_from_deployment(self.id).id

    def runs(self, *states: StateType) -> list[FlowRun]:
        """The deployment's runs that are in one of these states."""
        asked = {
            "deployment_id": {"any_": [str(self.id)]},
            "state": {"type": {"any_": [each.value for each in states]}},
        }
        return self.client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate(asked))

    def running(self) -> list[UUID]:
        """The runs that the UI shows as Running."""
        return [run.id for run in self.runs(StateType.RUNNING)]

    def state(self, run: UUID) -> str:
        """A run's state as the UI shows it."""
        state = self.client.read_flow_run(run).state
        return f"{state.name}: {state.message}" if state else ""

    def shown(self, run: UUID, since: datetime | None = None) -> str:
        """The run's artifact, as Markdown; empty where it has none, or nothing was shown since then."""
        asked = {"key": {"any_": [artifact_key(f"s_{self.topic.table}")]}, "flow_run_id": {"any_": [str(run)]}}
        found = self.client.read_artifacts(artifact_filter=ArtifactFilter.model_validate(asked))
        return str(found[0].data) if found and (since is None or since < (found[0].updated or since)) else ""

    def said(self, run: UUID, words: str) -> bool:
        """Whether the run's log has these words."""
        asked = LogFilter.model_validate({"flow_run_id": {"any_": [str(run)]}})
        offset = 0
        while lines := self.client.read_logs(log_filter=asked, limit=200, offset=offset):
            if any(words in line.message for line in lines):
                return True
            offset += len(lines)
        return False

    def total(self) -> int:
        """How many records are committed."""
        return sum(committed(self.stack.settings, self.topic).values())

    def moves(self, seconds: float = START_SECONDS) -> None:
        """Wait for records to be committed beyond those that are."""
        before = self.total()
        wait_until(lambda: self.total() > before, seconds=seconds, what="records are committed")

    def drivers(self) -> list[psutil.Process]:
        """All of its drivers that live, whoever started them."""
        return [each for each in psutil.process_iter() if _drives(each, str(self.file))]

    def family(self) -> list[psutil.Process]:
        """The flow run's process first, then all that lives below it: the driver, its JVM, Spark's workers."""
        (driver,) = self.drivers()
        flow = driver.parent()
        assert flow is not None
        return [flow, *flow.children(recursive=True)]

    def ends(self) -> None:
        """Stop it for good; every record that was sent has landed once, and nothing of it lives on."""
        sent = self.flowing.end()
        wait_until(lambda: self.total() == sent, seconds=START_SECONDS, what=f"all {sent} records are committed")
        self.stack.run("sink", "stop", self.file)
        wait_until(lambda: not self.running(), seconds=ORPHAN_SECONDS, what="its runs end")
        wait_until(lambda: not self.drivers(), seconds=ORPHAN_SECONDS, what="no driver is left")
        assert landed(self.stack.settings, self.topic) == [(0, offset) for offset in range(sent)]
        places = "RECORD_METADATA:partition || '-' || RECORD_METADATA:offset"
        counts = f"SELECT COUNT(*) AS ALL_ROWS, COUNT(DISTINCT {places}) AS PLACES FROM {self.topic.table}"
        assert sql(self.stack.settings, counts) == [{"ALL_ROWS": sent, "PLACES": sent}]

    def leave(self) -> None:
        """Whatever happened: no schedule, no run, no process of it is left."""
        self.flowing.end()
        self.schedule(active=False)
        for each in self.runs(StateType.SCHEDULED, StateType.PENDING):
            self.client.delete_flow_run(each.id)
        for driver in self.drivers():
            flow = driver.parent()
            for each in [*([flow] if flow and flow.pid != 1 else []), driver]:
                each.kill()
        wait_until(lambda: not self.drivers(), what="no driver is left")


def _drives(process: psutil.Process, file: str) -> bool:
    try:
        line = process.cmdline()
    except psutil.Error:
        return False
    return "spark_jobs.sink.job" in line and file in line


@contextmanager
def one_driver_at_most(sink: DeployedSink) -> Iterator[None]:
    """Look all the time; fails at the end where two drivers of the sink were alive at once."""
    over, most = threading.Event(), 0

    def look() -> None:
        nonlocal most
        while not over.wait(0.5):
            most = max(most, len(sink.drivers()))

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join(30)
    assert most == 1
