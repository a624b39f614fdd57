"""What the benchmarks need before they start: a topic that holds exactly so many orders, and the stack's pids."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from firn.errors import ConfigError
from firn.kafka import cluster
from firn.kafka.client import client_from_settings
from firn.produce.run import order_values, prepare, produce_orders
from firn.settings import Settings, load_settings

SEED = 20_261_121


def ensure_stack() -> None:
    """Start the embedded stack unless it is up. Raises ConfigError if it does not start."""
    done = subprocess.run([Path(sys.executable).with_name("firn"), "up"], stdout=sys.stderr, check=False)
    if done.returncode:
        raise ConfigError(
            "The embedded stack does not start.", where="firn up", next_step="The output of `firn up` above says why."
        )
    load_settings.cache_clear()


def preload(settings: Settings, topic: str, records: int) -> None:
    """Fill the topic up to `records` orders; one that holds more is an error, because figures would not compare."""
    admin = cluster.admin_client(client_from_settings(settings))
    known = cluster.find_topics(admin, [topic])
    held = 0
    if known:
        ends = cluster.offsets(admin, [(topic, p) for p in range(known[topic].partitions)], "latest")
        held = sum(ends.values())
    if held > records:
        raise ConfigError(
            f"Topic {topic} holds {held} records, more than {records}.",
            where="benchmarks",
            next_step=f"Run with --records {held}, or on another stack (FIRN_HOME).",
        )
    if held < records:
        target = prepare(settings, topic, order_values())
        now_ms = time.time_ns() // 1_000_000
        report = produce_orders(settings, target, count=records - held, now_ms=now_ms, seed=SEED)
        if report.error:
            raise report.error


def server_pids(settings: Settings) -> dict[str, int]:
    """The broker's and the local Snowflake's process ids, from the files that `firn up` keeps."""
    folder = settings.home / "run"
    return {
        part: int(json.loads((folder / f"{server}.json").read_text())["pid"])
        for part, server in (("broker", "kafka"), ("snowflake", "snowflake"))
    }
