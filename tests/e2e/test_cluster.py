"""A sink on a real Spark cluster: a master and a worker of their own, with executors in other processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pyspark
import pytest

from firn.kafka.client import client_from_settings
from tests.support.kafka import Topic, framed
from tests.support.proxies import closed_port
from tests.support.sinks import connector_file, landed, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.full]

SPARK_CLASS = Path(pyspark.__file__).parent / "bin/spark-class"
SCHEMA = {"type": "record", "name": "Item", "fields": [{"name": "id", "type": "long"}]}
LOOPBACK = "127.0.0.1"


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


@pytest.fixture
def cluster(stack, tmp_path: Path) -> Iterator[str]:
    """The URL of a standalone master with one worker, whose environment holds no credential."""
    port = closed_port()
    master = f"spark://{LOOPBACK}:{port}"
    environment = os.environ | {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_NO_DAEMONIZE": "1"}
    web = ["--webui-port", "0"]
    room = ["--cores", "1", "--memory", "1g", "--work-dir", str(tmp_path / "work")]
    commands = (
        ["org.apache.spark.deploy.master.Master", "--host", LOOPBACK, "--port", str(port), *web],
        ["org.apache.spark.deploy.worker.Worker", "--host", LOOPBACK, *web, *room, master],
    )
    with ExitStack() as running:
        for command in commands:
            process = subprocess.Popen(
                [SPARK_CLASS, *command],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=(tmp_path / f"{command[0]}.log").open("w"),
            )
            running.callback(process.wait)
            running.callback(process.kill)
            wait_until(lambda: listens(port), seconds=60, what="the master listens")
        yield master
    wait_until(lambda: not executors(tmp_path), seconds=60, what="no executor lives on")


def executors(folder: Path) -> list[psutil.Process]:
    """Living executors of the cluster whose work folder is in `folder`."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        words = process.info["cmdline"] or ()
        inside = (process.info["cwd"] or "").startswith(str(folder))
        if inside and any("CoarseGrainedExecutorBackend" in word for word in words):
            found.append(process)
    return found


def test_records_land_through_executors_of_a_cluster(stack, tmp_path: Path, cluster: str) -> None:
    topic = Topic(stack.settings, "cluster")
    topic.send(framed(topic.register(SCHEMA), SCHEMA, ({"id": n} for n in range(500))))
    seen: list[psutil.Process] = []
    settings = {
        "FIRN_SPARK_MASTER": cluster,
        "FIRN_SPARK_CONF": "spark.driver.host=127.0.0.1 spark.executor.memory=512m spark.cores.max=1",
        "FIRN_SPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": LOOPBACK,
    }
    file = connector_file(tmp_path, topic)
    command = subprocess.Popen(
        [Path(sys.executable).with_name("firn"), "sink", "run", str(file), "--once"],
        env=stack.env | settings,
        stdout=subprocess.DEVNULL,
        stderr=(tmp_path / "run.log").open("w"),
    )
    try:
        wait_until(lambda: executors(tmp_path) or command.poll() is not None, seconds=120, what="an executor")
        seen = executors(tmp_path)
        secret = client_from_settings(stack.settings).librdkafka()["sasl.password"]
        assert command.wait(240) == 0, (tmp_path / "run.log").read_text()
    finally:
        command.kill()
    assert seen, "nothing ran on the cluster"
    assert landed(stack.settings, topic) == [(0, offset) for offset in range(500)]
    logs = [each.read_text(errors="replace") for each in tmp_path.rglob("*") if each.is_file() and each != file]
    assert not any(secret in text for text in logs)
