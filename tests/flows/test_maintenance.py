"""What Prefect keeps is bounded: old runs go with their subflow runs and artifacts, and none that is not over."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prefect import flow, task
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import ArtifactCreate
from prefect.client.schemas.filters import ArtifactFilter, FlowRunFilter
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.sorting import ArtifactSort
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelled, Completed, Failed, Running, Scheduled

from flows import maintenance as flow_module
from flows import retention
from flows.maintenance import maintenance
from flows.retention import Keep, Old, find_old, remove_runs

pytestmark = pytest.mark.stack
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@flow(name="kept-or-not")
def empty() -> None:
    """Nothing; its runs are made without running it."""


@task(name="kept-or-not")
def stands_for_it() -> None:
    """Nothing."""


class Deployment:
    """A deployment of this test and runs of it that never were."""

    def __init__(self, client: SyncPrefectClient) -> None:
        self.client, self.name = client, f"t{uuid.uuid4().hex[:8]}"
        self.id = client.create_deployment(client.create_flow(empty), self.name, tags=["firn"])
        self._start = datetime.now(UTC)

    def run(self, *states: State) -> uuid.UUID:
        """A run that went through these states; each is a little newer than the one before."""
        first, *later = states
        self._start += timedelta(seconds=1)
        first.state_details.scheduled_time = self._start  # type: ignore[assignment]
        run = self.client.create_flow_run_from_deployment(self.id, state=first)  # with the deployment's tags
        for state in later:
            self.client.set_flow_run_state(run.id, state, force=True)
        return run.id

    def ran(self, last: State | None = None) -> uuid.UUID:
        return self.run(Scheduled(), Running(), last or Completed())

    def refused(self) -> uuid.UUID:
        """A start that the concurrency limit cancelled."""
        return self.run(Scheduled(), Cancelled())

    def runs(self) -> set[uuid.UUID]:
        mine = FlowRunFilter.model_validate({"deployment_id": {"any_": [str(self.id)]}})
        return {run.id for run in self.client.read_flow_runs(flow_run_filter=mine)}

    def old(self, runs: int = 500, starts: int = 50, before: datetime = LONG_AGO, at_most: int = 2000) -> Old | None:
        keep = Keep(runs=runs, starts=starts, before=before, at_most=at_most)
        return next((old for old in find_old(self.client, keep) if old.deployment == self.name), None)


@pytest.fixture
def client(stack: Any) -> Iterator[SyncPrefectClient]:
    """Of the stack's Prefect server, in this process."""
    with temporary_settings({PREFECT_API_URL: stack.settings.prefect_api_url}), get_client(sync_client=True) as client:
        yield client


@pytest.fixture
def deployment(client: SyncPrefectClient) -> Iterator[Deployment]:
    made = Deployment(client)
    yield made
    for id in made.runs():
        client.delete_flow_run(id)
    client.delete_deployment(made.id)


def ids(old: Old | None) -> set[uuid.UUID]:
    return {run.id for run in old.runs} if old else set()


def test_the_newest_of_each_kind_stay_and_what_is_not_over_always(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "PAGE", 2)  # several pages
    refused = [deployment.refused() for _ in range(5)]
    ran = [deployment.ran(state) for state in (Completed(), Failed(), Completed(), Completed())]
    cancelled = [deployment.ran(Cancelled()) for _ in range(3)]
    living = {deployment.run(Scheduled()), deployment.run(Scheduled(), Running())}

    assert ids(deployment.old(runs=2, starts=1)) == {*refused[:4], *ran[:2], *cancelled[:1]}
    assert ids(deployment.old(runs=0, starts=0, before=datetime.now(UTC) + timedelta(days=1))).isdisjoint(living)
    assert deployment.old() is None


def test_what_ended_long_ago_goes_however_few_there_are(deployment: Deployment) -> None:
    ran = deployment.ran()
    deployment.run(Scheduled(), Running())
    assert ids(deployment.old(before=datetime.now(UTC) + timedelta(days=1))) == {ran}


def test_only_runs_with_the_tag_are_of_firn(client: SyncPrefectClient) -> None:
    """Runs of flows that were not deployed, or whose deployment is gone."""
    ours, others = (client.create_flow_run(empty, tags=tags, state=Completed()).id for tags in (["firn"], ["other"]))
    keep = Keep(runs=0, starts=0, before=LONG_AGO)
    found = {run.id for old in find_old(client, keep) if old.deployment == "(none)" for run in old.runs}
    assert ours in found
    assert others not in found
    for id in (ours, others):
        client.delete_flow_run(id)


def test_no_more_than_so_many_at_a_time(deployment: Deployment) -> None:
    for _ in range(4):
        deployment.refused()
    old = deployment.old(starts=0, at_most=3)
    assert old is None or (len(old.runs) <= 3 and old.left)  # others' old runs count too


def test_a_run_that_was_started_anew_meanwhile_stays(deployment: Deployment, client: SyncPrefectClient) -> None:
    gone, again = deployment.ran(), deployment.ran()
    old = deployment.old(runs=0)
    assert old
    client.set_flow_run_state(again, Running(), force=True)
    assert remove_runs(client, old.runs) == (1, 0)
    assert deployment.runs() == {again}
    assert gone not in deployment.runs()


def test_subflow_runs_go_with_their_run_and_of_each_artifact_the_newest_stays(
    deployment: Deployment, client: SyncPrefectClient
) -> None:
    keys = [f"{deployment.name}-{name}" for name in ("a", "b")]
    older, newer = deployment.ran(), deployment.ran()
    below = subflow(client, older)
    made = [artifact(client, keys[0], run) for run in (older, below.id, newer)]
    made.append(artifact(client, keys[1], older))

    old = deployment.old(runs=1)
    assert ids(old) == {older}
    assert old
    assert remove_runs(client, old.runs) == (2, 2)
    assert deployment.runs() == {newer}
    left = client.read_flow_runs(flow_run_filter=FlowRunFilter.model_validate({"id": {"any_": [str(below.id)]}}))
    assert left == []
    assert artifacts(client, keys) == {made[2], made[3]}
    for id in (made[2], made[3]):
        client.delete_artifact(id)


def subflow(client: SyncPrefectClient, parent: uuid.UUID) -> FlowRun:
    """A run that `parent` started, as Prefect notes it: below a task run that stands for it."""
    below = client.create_task_run(stands_for_it, parent, uuid.uuid4().hex, state=Completed())
    return client.create_flow_run(empty, parent_task_run_id=below.id, state=Completed())


def artifact(client: SyncPrefectClient, key: str, run: uuid.UUID) -> uuid.UUID:
    made = client.create_artifact(ArtifactCreate(key=key, type="markdown", data="x", flow_run_id=run))
    assert made.id
    return made.id


def artifacts(client: SyncPrefectClient, keys: list[str]) -> set[uuid.UUID | None]:
    return {
        each.id
        for each in client.read_artifacts(
            artifact_filter=ArtifactFilter.model_validate({"key": {"any_": keys}}), sort=ArtifactSort.ID_DESC
        )
    }


def test_the_flow_says_what_it_would_remove_and_then_removes_it(
    deployment: Deployment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = lambda client, keep: (old for old in find_old(client, keep) if old.deployment == deployment.name)  # noqa: E731
    monkeypatch.setattr(flow_module, "find_old", only)
    monkeypatch.setattr(flow_module, "find_stale", lambda *_args, **_kwargs: [])
    for _ in range(3):
        deployment.refused()
    expected = [{"what": "run", "where": f"deployment {deployment.name}", "count": 2, "size": None, "left": False}]
    for dry_run, left in ((True, 3), (False, 1)):
        result = maintenance(keep_cancelled_starts=1, dry_run=dry_run)
        assert [each.model_dump() for each in result.removed] == expected
        assert len(deployment.runs()) == left
    assert maintenance(keep_cancelled_starts=1).removed == []
