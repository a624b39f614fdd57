"""Two minutes of chaos: a real sink, real servers, one fault of each important kind, and nothing doubled or lost."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from firn.connector.config import Method
from firn.settings import PROJECT_ROOT
from tests.soak.schedule import SHORT
from tests.support.sinks import wait_until

SEED = 7


@contextmanager
def soak(tmp_path: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`python -m tests.soak` with its progress in a file; it ends with the block."""
    with (tmp_path / "progress").open("w") as progress:
        command = [sys.executable, "-m", "tests.soak", *arguments]
        process = subprocess.Popen(command, cwd=PROJECT_ROOT, stdout=subprocess.PIPE, stderr=progress, text=True)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


@pytest.mark.full
@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("method", Method)
def test_two_minutes_of_faults_double_and_lose_nothing(tmp_path: Path, method: Method) -> None:
    file = tmp_path / "figures.json"
    what = ("--minutes", "2", "--seed", str(SEED), "--method", method, "--json", str(file))
    with soak(tmp_path, *what) as process:
        out, _ = process.communicate(timeout=840)
    said = f"{out}\n{(tmp_path / 'progress').read_text()}"
    assert process.returncode == 0, said
    figures = json.loads(file.read_text())
    assert figures["faults_fired"] == dict.fromkeys(sorted(SHORT[method]), 1), said
    assert (figures["duplicates"], figures["losses"], figures["wrong"]) == (0, 0, [])
    assert figures["records"] == figures["rows"] + figures["dead_letters"]
    assert figures["records"] > 20_000
    assert figures["dead_letters"] > 100
    assert figures["recovery_max"] is not None


@pytest.mark.full
@pytest.mark.soak
def test_a_killed_soak_leaves_nothing_behind(tmp_path: Path) -> None:
    with soak(tmp_path, "--minutes", "2") as process:
        wait_until(lambda: "is ready" in (tmp_path / "progress").read_text(), seconds=60, what="a server runs")
        family = psutil.Process(process.pid).children(recursive=True)
        assert len(family) > 1
        process.send_signal(signal.SIGKILL)
        wait_until(lambda: not any(child.is_running() for child in family), seconds=60, what="nothing lives on")
