"""What killed programs leave on this machine's disk: Spark's folders, files on their way to the stage, rotated logs.

A process that ends in order cleans up after itself; one that is killed cannot. Removes only what has not been written
to for a while and no running process can need. Not for a sink's residue in Snowflake and Kafka (`firn sink clean`).
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_ROTATED = re.compile(r"(sink|spark)-.+\.log\.\d+")
_SPARK = re.compile(r"(blockmgr|spark)-[0-9a-f-]{36}")
_TASK = re.compile(r"firn-[a-z0-9_]{8}")
"""What `spark_jobs.sink.task.partition_task` makes for the files of one task: Python's name of a temporary folder."""


@dataclass(frozen=True)
class StalePath:
    """A file or folder that no process needs. size: bytes."""

    kind: str
    path: Path
    size: int


def find_stale(home: Path, *, log_days: float, hours: float, now: float) -> list[StalePath]:
    """Look for them under `home` and in the folder of temporary files. now: seconds since the epoch.

    log_days: how long rotated logs are kept. hours: how long nothing was written to anything else; what is younger than
    the oldest Spark that still runs stays, because an idle Spark writes nothing and needs its folders.
    """
    untouched = now - hours * 3600
    spark = min(untouched, _oldest_spark())
    places = (
        ("rotated log", home / "logs", _ROTATED, now - log_days * 86_400),
        ("Spark folder", home / "spark", _SPARK, spark),
        ("task folder", Path(tempfile.gettempdir()), _TASK, spark),
    )
    return [
        StalePath(kind, path, _size(path))
        for kind, folder, name, before in places
        for path in _own(folder, name)
        if _touched(path) < before
    ]


def remove(stale: StalePath) -> bool:
    """Remove it; whether it is gone. What cannot be removed now is found again."""
    if stale.path.is_dir():
        shutil.rmtree(stale.path, ignore_errors=True)
    else:
        with suppress(OSError):
            stale.path.unlink(missing_ok=True)
    return not stale.path.exists()


def _own(folder: Path, name: re.Pattern[str]) -> Iterator[Path]:
    """What in a folder has such a name and is this user's."""
    with suppress(OSError):
        for path in sorted(folder.iterdir()):
            with suppress(OSError):
                if name.fullmatch(path.name) and not path.is_symlink() and path.stat().st_uid == os.getuid():
                    yield path


def _oldest_spark() -> float:
    """When the oldest JVM of Spark that this machine still runs was started; infinity where none does."""
    started = float("inf")
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any("org.apache.spark" in part for part in process.cmdline()):
                started = min(started, process.create_time())
    return started


def _touched(path: Path) -> float:
    """When something was last written in it, or infinity where that cannot be seen."""
    try:
        return max(each.lstat().st_mtime for each in (path, *path.rglob("*")))
    except OSError:
        return float("inf")


def _size(path: Path) -> int:
    size = 0
    for each in (path, *path.rglob("*")):
        with suppress(OSError):
            size += each.lstat().st_size if not each.is_dir() else 0
    return size
