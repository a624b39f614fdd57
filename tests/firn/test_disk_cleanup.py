"""What killed programs left on this machine: found by name and age, and nothing else with it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest

from firn.disk_cleanup import find_stale, remove

NOW = 1_800_000_000.0
HOUR, DAY = 3600.0, 86_400.0
SPARK = "spark-0a928c2f-818a-4103-9722-3ebf3b40a47b"


class Process:
    """A process of this machine, started so long ago."""

    def __init__(self, age: float, *command: str) -> None:
        self._started, self._command = NOW - age, command

    def cmdline(self) -> list[str]:
        return list(self._command)

    def create_time(self) -> float:
        return self._started


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, and a folder of temporary files beside it; no Spark runs."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    runs(monkeypatch)
    return tmp_path


def runs(monkeypatch: pytest.MonkeyPatch, *processes: Any) -> None:
    monkeypatch.setattr("psutil.process_iter", lambda: iter(processes))


def touched(path: Path, age: float) -> Path:
    """Make a file with its folders, all last written `age` seconds ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * 10)
    for each in (path, path.parent):
        os.utime(each, (NOW - age, NOW - age))
    return path


def found(home: Path) -> set[str]:
    leftovers = find_stale(home, log_days=30, hours=24, now=NOW)
    return {str(each.path.relative_to(home)) for each in leftovers}


def test_what_was_killed_long_ago_is_found_and_what_is_fresh_is_not(home: Path) -> None:
    touched(home / "spark" / SPARK / "jar", 2 * DAY)
    touched(home / "spark/blockmgr-525378db-cdc1-4a81-bcf6-c5a8a4b5d0cc/0c/x", 23 * HOUR)
    touched(home / "tmp/firn-1vyeyxsl/a.parquet", 2 * DAY)
    touched(home / "tmp/firn-34dtdfn_/a.parquet", 2 * HOUR)
    touched(home / "logs/sink-orders.log.3", 31 * DAY)
    touched(home / "logs/spark-orders.log.1", 29 * DAY)
    assert found(home) == {f"spark/{SPARK}", "tmp/firn-1vyeyxsl", "logs/sink-orders.log.3"}


def test_what_is_not_of_firn_or_may_be_wanted_stays_however_old(home: Path) -> None:
    for name in ("logs/sink-orders.log", "logs/kafka.log.1", "spark/mine/x", "tmp/firn-report/x", "tmp/other/x"):
        touched(home / name, 900 * DAY)
    (home / "spark" / SPARK).symlink_to(home / "tmp/other")
    assert found(home) == set()


def test_a_folder_that_was_written_to_inside_is_not_old(home: Path) -> None:
    old = touched(home / "spark" / SPARK / "jar", 2 * DAY)
    touched(old.parent / "userFiles/fresh", HOUR)
    os.utime(old.parent, (NOW - 2 * DAY, NOW - 2 * DAY))
    assert found(home) == set()


def test_a_spark_that_runs_keeps_its_folders_however_long_it_writes_nothing(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched(home / "spark" / SPARK / "jar", 20 * DAY)
    touched(home / "tmp/firn-1vyeyxsl/a.parquet", 20 * DAY)
    runs(monkeypatch, Process(21 * DAY, "java", "org.apache.spark.deploy.SparkSubmit"), Process(90 * DAY, "java", "x"))
    assert found(home) == set()
    runs(monkeypatch, Process(19 * DAY, "java", "org.apache.spark.deploy.SparkSubmit"))
    assert len(found(home)) == 2


def test_leftovers_are_measured_and_removed(home: Path) -> None:
    touched(home / "spark" / SPARK / "deep/jar", 2 * DAY)
    touched(home / "spark" / SPARK / "jar", 2 * DAY)
    touched(home / "logs/sink-orders.log.3", 31 * DAY)
    leftovers = find_stale(home, log_days=30, hours=24, now=NOW)
    assert [each.size for each in leftovers] == [10, 20]
    assert all(remove(each) for each in leftovers)
    assert found(home) == set()
    assert not (home / "spark" / SPARK).exists()
    assert all(remove(each) for each in leftovers)  # gone already is as good


def test_no_home_is_no_fault(home: Path) -> None:
    assert found(home / "nowhere") == set()
