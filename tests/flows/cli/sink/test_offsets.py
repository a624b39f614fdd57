"""`firn sink offsets` through the public command: what it shows, when it asks, and when it refuses."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from firn.connector.config import SinkConfig
from firn.connector.parse import load_sink_config
from firn.kafka import cluster
from firn.ledger.table import LedgerTable
from firn.sinks.topics import partitions_of
from firn.snowflake.connection import connect
from firn.snowflake.identifiers import Namespace
from tests.conftest import FIRN
from tests.support.kafka import Topic
from tests.support.sinks import committed, connector_file, login_of

pytestmark = pytest.mark.stack

COLUMNS = ["topic", "partition", "table", "next_offset", "earliest", "latest", "lag", "updated_at", "state"]


@pytest.fixture
def topic(stack) -> Topic:
    made = Topic(stack.settings, "stands")
    made.send([b"x"] * 5)
    return made


def claim(stack, topic: Topic, config: SinkConfig, *, ended: bool) -> None:
    """What a run leaves in the ledger that began just now, and is running or ended in order."""
    table = LedgerTable(Namespace("STREAMING", "PUBLIC"), config.name, "a-run")
    with connect(login_of(stack.settings)) as connection:
        table.ensure(connection)
        ledger = table.claim(
            connection, lambda: partitions_of(cluster.admin_client(topic.client), config), "earliest", str.upper
        )
        if ended:
            table.release(connection, ledger.epoch)


def test_a_sink_can_be_looked_at_before_its_first_start(stack, topic: Topic, tmp_path: Path) -> None:
    file = connector_file(tmp_path, topic, topics=f"{topic.name},{topic.name}-more")
    done = stack.run("sink", "offsets", file, "--json")
    first, second = map(json.loads, done.stdout.splitlines())
    assert list(first) == COLUMNS
    assert list(first.values()) == [topic.name, 0, topic.table, None, 0, 5, 5, None, "new"]
    assert (second["partition"], second["lag"], second["state"]) == (1, 0, "new")
    assert f"Sink s_{topic.table}: not in the ledger yet." in done.stderr
    assert f"Not in Kafka: {topic.name}-more." in done.stderr


def test_a_running_sink_is_shown_and_not_reset(stack, topic: Topic, tmp_path: Path) -> None:
    file = connector_file(tmp_path, topic)
    claim(stack, topic, load_sink_config(file), ended=False)
    shown = stack.run("sink", "offsets", file, "--reset", "latest", "--dry-run")
    assert ": running, last sign of life" in shown.stderr
    assert "Nothing was changed" in shown.stderr
    refused = stack.run("sink", "offsets", file, "--reset", "latest", "--yes", check=False)
    assert refused.returncode == 3
    assert "Stop it first" in refused.stderr
    assert committed(stack.settings, topic) == {0: 0, 1: 0}


def test_a_reset_changes_what_was_named_and_says_what_follows(stack, topic: Topic, tmp_path: Path) -> None:
    file = connector_file(tmp_path, topic)
    claim(stack, topic, load_sink_config(file), ended=True)
    done = stack.run("sink", "offsets", file, "--reset", "3", "--topic", topic.name, "--partition", "0", "--yes")
    assert "Records left out: up to 3." in done.stderr
    assert f"Unchanged: {topic.name}-1 (ok)." in done.stderr
    assert committed(stack.settings, topic) == {0: 3, 1: 0}
    refused = stack.run("sink", "offsets", file, "--reset", "-4", "--partition", "0", "--yes", check=False)
    assert refused.returncode == 3
    assert f"{topic.name}-0: -1 is outside of 0 to 5" in refused.stderr
    assert committed(stack.settings, topic) == {0: 3, 1: 0}


def test_without_a_terminal_and_without_yes_nothing_happens(stack, topic: Topic, tmp_path: Path) -> None:
    file = connector_file(tmp_path, topic)
    claim(stack, topic, load_sink_config(file), ended=True)
    refused = stack.run("sink", "offsets", file, "--reset", "latest", check=False)
    assert refused.returncode == 3
    assert "--yes" in refused.stderr
    assert committed(stack.settings, topic) == {0: 0, 1: 0}


def on_a_pty(stack, answer: str, command: list[str | Path]) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, on a terminal where `answer` is typed."""
    keyboard, terminal = pty.openpty()
    os.write(keyboard, answer.encode())
    try:
        return subprocess.run(
            [FIRN, *command], stdin=terminal, env=stack.env, capture_output=True, text=True, timeout=60
        )
    finally:
        os.close(keyboard)
        os.close(terminal)


@pytest.mark.parametrize(("answer", "first", "code"), [("n\n", 0, 0), ("y\n", 5, 0), ("\x04", 0, 130)])
def test_on_a_terminal_it_asks(stack, topic: Topic, tmp_path: Path, answer: str, first: int, code: int) -> None:
    file = connector_file(tmp_path, topic)
    claim(stack, topic, load_sink_config(file), ended=True)
    command = ["sink", "offsets", file, "--reset", "latest"]
    done = on_a_pty(stack, answer, command) if answer == "\x04" else stack.run(*command, typed=answer)
    assert "Reset these positions?" in done.stderr
    assert ("Nothing was changed." in done.stderr) == (first == 0)
    assert done.returncode == code
    assert committed(stack.settings, topic) == {0: first, 1: 0}


def test_wrong_usage_ends_with_2(stack, tmp_path: Path) -> None:
    done = stack.run("sink", "offsets", tmp_path / "unread.json", "--reset", "soon", check=False)
    assert done.returncode == 2
    assert "earliest, latest" in done.stderr
