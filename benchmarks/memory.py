"""Peak memory of a sink whatever the backlog: `python -m benchmarks.memory` on the embedded stack (`firn up`).

The same sink, as `firn sink run --once` starts it, over backlogs that differ by a factor of four, of small and of large
records. Resident memory of the whole process tree is read ten times a second. What counts is that the peak does not
follow the backlog. The figures go to docs/performance.md.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from confluent_kafka import Producer
from confluent_kafka.cimpl import NewTopic
from rich.console import Console
from rich.table import Table

from firn.errors import FirnError
from firn.kafka import cluster
from firn.kafka.client import KafkaClient, client_from_settings
from firn.settings import load_settings

MEGABYTE = 1_000_000
SAMPLE_SECONDS = 0.1
PARTITIONS = 2


@dataclass(frozen=True)
class Backlog:
    """So many JSON records of so many bytes each."""

    records: int
    size: int

    @property
    def name(self) -> str:
        """For the table."""
        return f"{self.records:,} of {self.size:,} bytes ({self.records * self.size / MEGABYTE:,.0f} MB)"


BACKLOGS = (Backlog(100_000, 300), Backlog(400_000, 300), Backlog(150, MEGABYTE), Backlog(600, MEGABYTE))


@dataclass(frozen=True)
class Peak:
    """Most resident megabytes seen at one moment, of the JVM and of all Python processes."""

    jvm: float
    python: float


def fill(admin: cluster.KafkaAdmin, client: KafkaClient, topic: str, backlog: Backlog) -> None:
    """Make the topic and produce the backlog, evenly over its partitions."""
    wanted = NewTopic(topic, PARTITIONS, 1, config={"max.message.bytes": str(20 * MEGABYTE)})
    admin.client.create_topics([wanted])[topic].result(30)
    producer = Producer(client.librdkafka() | {"message.max.bytes": str(20 * MEGABYTE), "linger.ms": "20"})
    value = json.dumps({"text": "x" * (backlog.size - 12)}).encode()
    for number in range(backlog.records):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise FirnError(f"Topic {topic} could not be filled.")


def config_file(folder: Path, topic: str) -> Path:
    """A sink of plain JSON with the default buffers."""
    file = folder / f"{topic}.json"
    converter = "org.apache.kafka.connect.json.JsonConverter"
    config = {"topics": topic, "value.converter": converter, "value.converter.schemas.enable": "false"}
    file.write_text(json.dumps({"name": topic.replace("-", "_"), "config": config}))
    return file


def peak_of(file: Path) -> Peak:
    """Run the sink once and watch its processes."""
    command = [sys.executable, "-m", "spark_jobs.sink.job", str(file), "--once"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as sink:
        jvm = python = 0.0
        while sink.poll() is None:
            now = dict(_resident(psutil.Process(sink.pid)))
            jvm, python = max(jvm, now["java"]), max(python, now["python"])
            time.sleep(SAMPLE_SECONDS)
    if sink.returncode:
        raise FirnError(f"The sink of {file.name} ended with {sink.returncode}.")
    return Peak(jvm / MEGABYTE, python / MEGABYTE)


def _resident(root: psutil.Process) -> Iterator[tuple[str, float]]:
    sizes = {"java": 0.0, "python": 0.0}
    with suppress(psutil.NoSuchProcess):
        for process in (root, *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                kind = "java" if "java" in process.name() else "python"
                sizes[kind] += _unshared(process)
    yield from sizes.items()


def _unshared(process: psutil.Process) -> float:
    """Bytes that the process has for itself: forked workers share what they imported."""
    return float(process.memory_full_info().uss)


def main() -> None:
    """Fill, run, print."""
    client = client_from_settings(load_settings())
    admin = cluster.admin_client(client)
    table = Table(title="Peak resident memory of a sink, MB", title_justify="left")
    for column in ("backlog", "JVM", "Python, all processes"):
        table.add_column(column, justify="right" if column != "backlog" else "left")
    with tempfile.TemporaryDirectory() as folder:
        for backlog in BACKLOGS:
            topic = f"bench-memory-{uuid.uuid4().hex[:8]}"
            fill(admin, client, topic, backlog)
            peak = peak_of(config_file(Path(folder), topic))
            admin.client.delete_topics([topic])[topic].result(30)
            table.add_row(backlog.name, f"{peak.jvm:,.0f}", f"{peak.python:,.0f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
