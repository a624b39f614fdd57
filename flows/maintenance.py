"""The maintenance flow: bounds what Prefect keeps of Firn's runs and what killed programs left on this machine.

What is old, and what is safe to remove: `flows.retention` and `firn.disk_cleanup`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Annotated

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from prefect.client.orchestration import get_client
from pydantic import BaseModel, Field

from firn.disk_cleanup import find_stale, remove
from firn.plural import counted
from firn.settings import load_settings
from flows.prefect_ui.forms import described
from flows.retention import Keep, find_old, remove_runs

ARTIFACT_KEY = "maintenance"


class Removed(BaseModel):
    """What went of one kind: how many, and of how many bytes where that is known; `left` has to wait for next time."""

    what: str
    where: str
    count: int
    size: int | None = None
    left: bool = False


class MaintenanceResult(BaseModel):
    """All that was removed, or that would be."""

    removed: list[Removed]
    dry_run: bool = False


@flow(name="maintenance", description="Old runs with logs and artifacts, and what killed drivers left: removed.")
@described
def maintenance(
    keep_runs: Annotated[int, Field(ge=1, description="Runs that stay of each deployment, the newest.")] = 500,
    keep_cancelled_starts: Annotated[
        int, Field(ge=0, description="Starts cancelled because one ran already: so many stay of each deployment.")
    ] = 50,
    keep_days: Annotated[
        float, Field(gt=0, description="Runs that ended longer ago go, however few there are; rotated logs too.")
    ] = 30.0,
    leftover_hours: Annotated[
        float, Field(ge=1, description="Folders that a killed driver left go after so long untouched.")
    ] = 24.0,
    dry_run: Annotated[bool, Field(description="Remove nothing; say what would be removed.")] = False,
) -> MaintenanceResult:
    """Remove what is old. A run that is not over, or without the tag `firn`, is never touched."""
    before = datetime.now(UTC) - timedelta(days=keep_days)
    keep = Keep(runs=keep_runs, starts=keep_cancelled_starts, before=before)
    removed = [*_runs(keep, dry_run=dry_run), *_leftovers(keep_days, leftover_hours, dry_run=dry_run)]
    result = MaintenanceResult(removed=removed, dry_run=dry_run)
    summary = _summary(result)
    get_run_logger().info("%s", summary)
    create_table_artifact(key=ARTIFACT_KEY, table=[each.model_dump() for each in removed], description=summary)
    return result


def _runs(keep: Keep, *, dry_run: bool) -> Iterator[Removed]:
    """Old runs of each deployment, and the artifacts of all of them."""
    artifacts = 0
    with get_client(sync_client=True) as client:
        for old in list(find_old(client, keep)):
            gone, with_them = (len(old.runs), 0) if dry_run else remove_runs(client, old.runs)
            artifacts += with_them
            yield Removed(what="run", where=f"deployment {old.deployment}", count=gone, left=old.left)
    if artifacts:
        yield Removed(what="artifact", where="of these runs", count=artifacts)


def _leftovers(log_days: float, hours: float, *, dry_run: bool) -> Iterator[Removed]:
    """Leftovers on this machine, summed up by kind and folder."""
    found = find_stale(load_settings().home, log_days=log_days, hours=hours, now=time.time())
    for (kind, folder), several in groupby(found, key=lambda each: (each.kind, each.path.parent)):
        each_of_them = list(several)
        gone = [each for each in each_of_them if dry_run or remove(each)]
        left = len(gone) < len(each_of_them)
        yield Removed(what=kind, where=str(folder), count=len(gone), size=sum(each.size for each in gone), left=left)


def _summary(result: MaintenanceResult) -> str:
    counts: dict[str, int] = {}
    for each in result.removed:
        counts[each.what] = counts.get(each.what, 0) + each.count
    words = ", ".join(counted(count, what) for what, count in counts.items())
    return f"{'To remove' if result.dry_run else 'Removed'}: {words or 'nothing'}."
