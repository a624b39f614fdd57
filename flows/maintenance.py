"""The maintenance flow: frees this machine's disk of what killed programs left behind, and of rotated logs.

What may be removed: `firn.disk_cleanup`. Not for what Prefect keeps of runs: its server removes those itself
(docs/prefect.md).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Annotated

from prefect import flow, get_run_logger
from prefect.artifacts import create_table_artifact
from pydantic import BaseModel, Field

from firn.disk_cleanup import find_stale, remove
from firn.plural import counted
from firn.settings import load_settings
from flows.prefect_ui.forms import described

ARTIFACT_KEY = "maintenance"


class Removed(BaseModel):
    """What was removed of one kind from one folder. left: some of it could not be removed and is found again."""

    what: str
    where: str
    count: int
    size: int = Field(description="Bytes.")
    left: bool = False


class MaintenanceResult(BaseModel):
    """All that was removed, or with `dry_run` would be."""

    removed: list[Removed]
    dry_run: bool = False


@flow(name="maintenance", description="Removes rotated logs and the files of killed drivers from this machine's disk.")
@described
def maintenance(
    keep_days: Annotated[float, Field(gt=0, description="Days for which rotated logs are kept.")] = 30.0,
    leftover_hours: Annotated[
        float, Field(ge=1, description="Hours after which the untouched folders of a killed driver are removed.")
    ] = 24.0,
    dry_run: Annotated[bool, Field(description="List what would be removed, and remove nothing.")] = False,
) -> MaintenanceResult:
    """Remove old files of programs that no longer run. Files that a running program may use stay."""
    removed = list(_clean_disk(keep_days, leftover_hours, dry_run=dry_run))
    result = MaintenanceResult(removed=removed, dry_run=dry_run)
    summary = _summary(result)
    get_run_logger().info("%s", summary)
    create_table_artifact(key=ARTIFACT_KEY, table=[each.model_dump() for each in removed], description=summary)
    return result


def _clean_disk(log_days: float, hours: float, *, dry_run: bool) -> Iterator[Removed]:
    found = find_stale(load_settings().home, log_days=log_days, hours=hours, now=time.time())
    for (kind, folder), several in groupby(found, key=lambda each: (each.kind, each.path.parent)):
        files = list(several)
        gone = [each for each in files if dry_run or remove(each)]
        yield Removed(
            what=kind,
            where=str(folder),
            count=len(gone),
            size=sum(each.size for each in gone),
            left=len(gone) < len(files),
        )


def _summary(result: MaintenanceResult) -> str:
    counts: Counter[str] = Counter()
    for each in result.removed:
        counts[each.what] += each.count
    words = ", ".join(counted(count, what) for what, count in counts.items())
    return f"{'Would remove' if result.dry_run else 'Removed'}: {words or 'nothing'}."
