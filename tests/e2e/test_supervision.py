"""A supervised sink while records flow: killed, paused, resumed, stopped, and cut off from its broker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from firn.ledger.control import ControlTable
from firn.ledger.control_record import ControlRecord, State
from firn.settings import PROJECT_ROOT
from firn.snowflake.connection import connect
from firn.snowflake.identifiers import Namespace
from firn_local import process
from firn_local.home import Home
from tests.support.flowing import Flowing
from tests.support.kafka import Topic
from tests.support.sinks import committed, connector_file, landed, login_of, wait_until

pytestmark = pytest.mark.stack

FIRN = Path(sys.executable).with_name("firn")


@contextmanager
def supervised(stack, file: Path, log: Path, **env: str) -> Iterator[subprocess.Popen[str]]:
    """`firn sink run`, ended at the end of the block whatever happens in it; what it says goes to `log`."""
    with log.open("w") as said:
        process = subprocess.Popen(
            [FIRN, "sink", "run", str(file)],
            cwd=PROJECT_ROOT,
            env=stack.env | env,
            stdout=subprocess.DEVNULL,
            stderr=said,
            text=True,
        )
        family: list[psutil.Process] = []
        try:
            yield process
            family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        finally:
            process.kill()
            process.wait()
        wait_until(lambda: not any(child.is_running() for child in family), seconds=90, what="nothing lives on")


def driver_of(process: subprocess.Popen[str]) -> psutil.Process | None:
    """The sink's driver, while there is one."""
    family = psutil.Process(process.pid).children()
    return next((child for child in family if "spark_jobs.sink.job" in child.cmdline()), None)


def record_of(stack, file: Path) -> ControlRecord | None:
    """The sink's row in FIRN_SINKS."""
    login = login_of(stack.settings)
    name = json.loads(file.read_text())["name"]
    with connect(login) as connection:
        return ControlTable(Namespace(login.database, login.schema), name).read(connection)


def state_of(stack, file: Path) -> State | None:
    record = record_of(stack, file)
    return record.state if record else None


@pytest.fixture
def flowing(stack) -> Iterator[Flowing]:
    """Records that flow through a topic of the test's own."""
    flowing = Flowing(Topic(stack.settings, "supervised"))
    yield flowing
    flowing.end()


def total(stack, topic: Topic) -> int:
    return sum(committed(stack.settings, topic).values())


@pytest.mark.both_methods
@pytest.mark.full
def test_a_killed_driver_is_started_again_and_stop_ends_the_sink(stack, tmp_path: Path, flowing: Flowing) -> None:
    topic = flowing.topic
    file, log = connector_file(tmp_path, topic, buffer__flush__time="10"), tmp_path / "log"
    with supervised(stack, file, log) as run:
        wait_until(lambda: total(stack, topic) > 0, seconds=240, what="a first commit")
        killed = driver_of(run)
        assert killed is not None
        family = [killed, *killed.children(recursive=True)]
        before = total(stack, topic)
        killed.send_signal(signal.SIGKILL)
        wait_until(lambda: total(stack, topic) > before, seconds=240, what="records flow again")
        assert not any(child.is_running() for child in family)
        assert "restarts in" in log.read_text()
        sent = flowing.end()
        wait_until(lambda: total(stack, topic) == sent, seconds=90, what="all is committed")
        stack.run("sink", "stop", file)
        assert run.wait(120) == 0
        assert state_of(stack, file) is State.STOPPED
    assert landed(stack.settings, topic) == [(0, offset) for offset in range(sent)]


@pytest.mark.both_methods
@pytest.mark.full
def test_a_paused_sink_waits_for_its_resume(stack, tmp_path: Path, flowing: Flowing) -> None:
    topic = flowing.topic
    file = connector_file(tmp_path, topic, buffer__flush__time="10")
    with supervised(stack, file, tmp_path / "log") as run:
        wait_until(lambda: total(stack, topic) > 0, seconds=240, what="a first commit")
        stack.run("sink", "pause", file)
        wait_until(lambda: state_of(stack, file) is State.PAUSED, seconds=120, what="paused")
        assert driver_of(run) is None
        assert run.poll() is None
        before = total(stack, topic)
        stack.run("sink", "resume", file)
        wait_until(lambda: total(stack, topic) > before, seconds=150, what="records flow after the pause")
    sent = flowing.end()
    stack.run("sink", "run", file, "--once", timeout=180)
    assert landed(stack.settings, topic) == [(0, offset) for offset in range(sent)]


@pytest.mark.both_methods
@pytest.mark.full
def test_a_broker_that_hangs_is_a_stall_within_a_minute_and_recovers(
    new_stack: Callable[[str], Any], tmp_path: Path
) -> None:
    own = new_stack("hung-broker")
    flowing = Flowing(Topic(own.settings, "supervised"))
    file, log = connector_file(tmp_path, flowing.topic, buffer__flush__time="10"), tmp_path / "log"
    broker = process.find(Home.load(own.home).pid_file("kafka"))
    assert broker is not None
    with supervised(own, file, log):
        wait_until(lambda: total(own, flowing.topic) > 0, seconds=240, what="a first commit")
        sent = flowing.end()
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: state_of(own, file) is State.STALLED, seconds=60, what="stalled")
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        more = Flowing(flowing.topic)
        wait_until(lambda: total(own, flowing.topic) > sent, seconds=120, what="records flow again")
        wait_until(lambda: state_of(own, file) is State.RUNNING, seconds=60, what="recovered")
    more.end()
