"""The driver is killed while records flow: nothing is lost, nothing is doubled, nothing lives on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from firn.settings import PROJECT_ROOT
from tests.support.kafka import Topic, framed
from tests.support.sinks import committed, connector_file, landed, sql, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.full]

FIRN = Path(sys.executable).with_name("firn")
SCHEMA = {"type": "record", "name": "Item", "fields": [{"name": "id", "type": "long"}]}


@contextmanager
def sink_run(stack, file: Path) -> Iterator[subprocess.Popen[str]]:
    """`firn sink run` without --once, ended at the end of the block whatever happens in it."""
    command = [FIRN, "sink", "run", str(file)]
    process = subprocess.Popen(
        command, cwd=PROJECT_ROOT, env=stack.env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def running(stack, file: Path) -> bool:
    """Whether FIRN_SINKS says so."""
    name = json.loads(file.read_text())["name"]
    return bool(sql(stack.settings, f"SELECT 1 FROM FIRN_SINKS WHERE SINK = '{name}' AND STATE = 'running'"))


@pytest.mark.both_methods
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_a_supervisors_term_end_a_sink_with_its_report(stack, tmp_path: Path, number: int) -> None:
    topic = Topic(stack.settings, "ctrlc")
    topic.send(framed(topic.register(SCHEMA), SCHEMA, [{"id": 1}]))
    file = connector_file(tmp_path, topic, buffer__count__records="1")
    with sink_run(stack, file) as process:
        wait_until(lambda: sum(committed(stack.settings, topic).values()) > 0, seconds=120, what="a first commit")
        # The driver starts beside Prefect and may be first; a signal before its supervisor listens gives no report.
        wait_until(lambda: running(stack, file), seconds=60, what="the supervisor says that the sink runs")
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        out, _ = process.communicate(timeout=90)
    assert process.returncode == 0
    assert topic.table in out
    wait_until(lambda: not any(child.is_running() for child in family), what="nothing lives on")


@pytest.mark.both_methods
def test_a_killed_command_takes_spark_with_it(stack, tmp_path: Path) -> None:
    topic = Topic(stack.settings, "orphan")
    topic.send(framed(topic.register(SCHEMA), SCHEMA, [{"id": 1}]))
    file = connector_file(tmp_path, topic, buffer__count__records="1")
    with sink_run(stack, file) as process:
        wait_until(lambda: sum(committed(stack.settings, topic).values()) > 0, seconds=120, what="a first commit")
        family = psutil.Process(process.pid).children(recursive=True)
        assert any("java" in child.name() for child in family)
        process.kill()
        wait_until(lambda: not any(child.is_running() for child in family), seconds=90, what="Spark ends")


@pytest.mark.both_methods
def test_a_killed_driver_loses_and_doubles_nothing(stack, tmp_path: Path) -> None:
    topic = Topic(stack.settings, "kill")
    schema_id = topic.register(SCHEMA)
    for partition in (0, 1):
        topic.send(framed(schema_id, SCHEMA, ({"id": n} for n in range(3_000))), partition=partition)
    file = connector_file(tmp_path, topic, firn__batch__records="200")
    job = subprocess.Popen(
        [sys.executable, "-m", "spark_jobs.sink.job", str(file), "--once"],
        cwd=PROJECT_ROOT,
        env=stack.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(lambda: sum(committed(stack.settings, topic).values()) > 0, seconds=120, what="a first commit")
        family = psutil.Process(job.pid).children(recursive=True)
    finally:
        os.kill(job.pid, signal.SIGKILL)
        job.wait()
    half = sum(committed(stack.settings, topic).values())
    assert 0 < half < 6_000
    wait_until(lambda: not any(child.is_running() for child in family), what="Spark's processes end with the driver")
    stack.run("sink", "run", file, "--once", timeout=180)
    assert landed(stack.settings, topic) == [(p, n) for p in (0, 1) for n in range(3_000)]
