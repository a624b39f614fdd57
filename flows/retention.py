"""What Prefect keeps of Firn's runs, bounded: which runs are old, and their removal with logs and artifacts.

Only runs that are over and have the tag `firn`, and their subflow runs. The server checks that again in the
transaction that deletes, so a run that somebody started anew meanwhile stays; it removes the logs of deleted runs by
itself. Not for events: the server bounds their age (PREFECT_SERVER_EVENTS_RETENTION_PERIOD).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.filters import ArtifactCollectionFilter, DeploymentFilter, FlowRunFilter
from prefect.client.schemas.objects import Artifact, FlowRun
from prefect.client.schemas.sorting import ArtifactSort, FlowRunSort
from prefect.exceptions import ObjectNotFound

TAG = "firn"
PAGE = 200
"""Objects in one answer; Prefect's own limit."""
BULK = 50
"""Runs in one request to delete; Prefect's own limit."""
_TAGGED = {"tags": {"all_": [TAG]}}
_ENDED = {"type": {"any_": ["COMPLETED", "FAILED", "CRASHED", "CANCELLED"]}}
_CANCELLED = {"type": {"any_": ["CANCELLED"]}}
_BY_ITSELF = {"type": {"any_": ["COMPLETED", "FAILED", "CRASHED"]}}
T = TypeVar("T")


@dataclass(frozen=True)
class Keep:
    """How much stays: of each deployment the newest `runs` that ran and `starts` that were cancelled before they did.

    before: what ended earlier goes, however few there are. at_most: runs removed at one time; the rest is for the next.
    """

    runs: int
    starts: int
    before: datetime
    at_most: int = 2000


@dataclass(frozen=True)
class Old:
    """Runs of one deployment that go; `left`: there are more, for the next time."""

    deployment: str
    runs: tuple[FlowRun, ...]
    left: bool


def find_old(client: SyncPrefectClient, keep: Keep) -> Iterator[Old]:
    """The runs of each deployment that are to go, and those whose deployment is gone."""
    room = keep.at_most
    groups: list[tuple[str, dict[str, Any]]] = [(name, {"any_": [str(id)]}) for name, id in _deployments(client)]
    for name, deployment in (*groups, ("(none)", {"is_null_": True})):
        old = _old(client, {**_TAGGED, "deployment_id": deployment}, keep)
        runs = tuple({run.id: run for run in islice(old, room + 1)}.values())
        if runs:
            yield Old(name, runs[:room], len(runs) > room)
        room -= min(room, len(runs))


def _old(client: SyncPrefectClient, ours: dict[str, Any], keep: Keep) -> Iterator[FlowRun]:
    """What goes of one deployment; some of it twice. The server cannot tell whether a run ever began: `run_count`."""
    cancelled = list(_runs(client, {**ours, "state": _CANCELLED}))
    yield from [run for run in cancelled if not run.run_count][keep.starts :]
    yield from [run for run in cancelled if run.run_count][keep.runs :]
    yield from _runs(client, {**ours, "state": _BY_ITSELF}, keep.runs)
    yield from _runs(client, {**ours, "state": _ENDED, "end_time": {"before_": keep.before}})


def remove_runs(client: SyncPrefectClient, runs: Sequence[FlowRun]) -> tuple[int, int]:
    """Delete runs that are still over, their subflow runs before them: how many of all these, how many artifacts.

    Of each key the newest artifact stays: it is what the UI shows under that key.
    """
    gone = artifacts = 0
    for part in _parts([run.id for run in runs], BULK):
        levels = [({**_TAGGED, "state": _ENDED}, part)]
        while below := _subflows(client, levels[-1][1]):
            levels.append(({"state": _ENDED}, below))
        for allowed, level in reversed(levels):
            for ids in _parts(level, BULK):
                found = _artifacts(client, ids)
                deleted = _delete(client, allowed, ids)
                gone += len(deleted)
                artifacts += _remove_artifacts(client, [each for each in found if each.flow_run_id in deleted])
    return gone, artifacts


def _deployments(client: SyncPrefectClient) -> list[tuple[str, UUID]]:
    """Firn's deployments by name, each with its id."""
    tagged = DeploymentFilter.model_validate(_TAGGED)
    pages = _pages(lambda offset: client.read_deployments(deployment_filter=tagged, limit=PAGE, offset=offset))
    return sorted((each.name, each.id) for each in pages)


def _runs(client: SyncPrefectClient, filters: dict[str, Any], kept: int = 0) -> Iterator[FlowRun]:
    """Runs, newest first, without the newest `kept`."""
    wanted = FlowRunFilter.model_validate(filters)
    sort = FlowRunSort.EXPECTED_START_TIME_DESC
    return _pages(
        lambda offset: client.read_flow_runs(flow_run_filter=wanted, sort=sort, limit=PAGE, offset=kept + offset)
    )


def _subflows(client: SyncPrefectClient, parents: Sequence[UUID]) -> list[UUID]:
    """The runs that these started, at one level."""
    return [run.id for run in _runs(client, {"parent_flow_run_id": {"any_": [str(id) for id in parents]}})]


def _delete(client: SyncPrefectClient, allowed: dict[str, Any], ids: Sequence[UUID]) -> set[UUID]:
    """Delete those of these runs that `allowed` still holds for, in one transaction of the server; which it was."""
    chosen = {**allowed, "id": {"any_": [str(id) for id in ids]}}
    body = {"flow_runs": chosen, "limit": BULK}
    answer = client.request("POST", "/flow_runs/bulk_delete", json=body)  # type: ignore[arg-type]  # a route it omits
    return {UUID(id) for id in answer.json()["deleted"]}


def _artifacts(client: SyncPrefectClient, ids: Sequence[UUID]) -> list[Artifact]:
    """The artifacts of runs."""
    of = FlowRunFilter.model_validate({"id": {"any_": list(ids)}})
    sort = ArtifactSort.ID_DESC
    return list(_pages(lambda o: client.read_artifacts(flow_run_filter=of, sort=sort, limit=PAGE, offset=o)))


def _remove_artifacts(client: SyncPrefectClient, artifacts: Sequence[Artifact]) -> int:
    """Delete artifacts but the newest of each key; how many."""
    newest: set[UUID] = set()
    for keys in _parts(sorted({each.key for each in artifacts if each.key}), PAGE):
        of = ArtifactCollectionFilter.model_validate({"key": {"any_": keys}})
        newest |= {each.latest_id for each in client.read_latest_artifacts(artifact_filter=of, limit=PAGE)}
    gone = [each.id for each in artifacts if each.id not in newest and each.id is not None]
    for id in gone:
        with suppress(ObjectNotFound):
            client.delete_artifact(id)
    return len(gone)


def _pages(read: Callable[[int], Sequence[T]]) -> Iterator[T]:
    """All that there is, page by page. read: takes an offset."""
    offset = 0
    while page := read(offset):
        yield from page
        if len(page) < PAGE:
            return
        offset += PAGE


def _parts(all_of_them: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (all_of_them[start : start + size] for start in range(0, len(all_of_them), size))
