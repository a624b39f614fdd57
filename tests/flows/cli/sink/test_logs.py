"""`firn sink logs` through the public command: the newest lines, what follows, and a sink that ran elsewhere."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from firn.errors import TerminalError
from firn.ledger.control import ControlTable
from firn.ledger.control_record import State
from firn.settings import load_settings
from firn.snowflake.connection import connect
from firn.snowflake.identifiers import Namespace
from flows.cli.sink import add
from tests.conftest import FIRN, environment
from tests.support.kafka import Topic
from tests.support.sinks import connector_file, forget, login_of, wait_until

SAID = json.dumps({"event": "committed batch 1-0", "level": "info", "timestamp": "2026-11-21T13:36:37.375199Z"})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A FIRN_HOME with the logs of sink `orders`."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "sink-orders.log").write_text(f"older\nWARNING: of the JVM\n{SAID}\n")
    (tmp_path / "logs" / "spark-orders.log").write_text("WARN SparkConf: of Spark\n")
    return tmp_path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A connector file with a fault and a secret that is not there: neither hides a log."""
    made = tmp_path / "orders.json"
    config = {"topics": "order-events", "tasks.max": "none", "snowflake.private.key": "${env:NOT_SET}"}
    made.write_text(json.dumps({"name": "orders", "config": config}))
    return made


@pytest.fixture
def firn(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs `firn sink ...` of a home within this process: firn(home, "logs", ...)."""
    app = typer.Typer()
    add(app)

    def run(home: Path, *arguments: str | Path) -> Result:
        monkeypatch.setenv("FIRN_HOME", str(home))
        load_settings.cache_clear()
        return CliRunner().invoke(app, ["sink", *map(str, arguments)])

    return run


def test_the_newest_lines_are_shown_as_sentences(firn, home, file) -> None:
    done = firn(home, "logs", file, "--lines", "2")
    assert done.stdout.splitlines() == ["WARNING: of the JVM", "2026-11-21 13:36:37 committed batch 1-0"]
    assert str(home / "logs" / "sink-orders.log") in done.stderr
    assert firn(home, "logs", file, "-n", "1", "--json").stdout == f"{SAID}\n"


def test_sparks_own_log_is_another(firn, home, file) -> None:
    assert firn(home, "logs", file, "--spark").stdout == "WARN SparkConf: of Spark\n"


def test_a_log_is_followed_until_ctrl_c(home, file, tmp_path) -> None:
    out = tmp_path / "out"
    with out.open("w") as opened:
        command = [FIRN, "sink", "logs", file, "--follow", "-n", "1"]
        child = subprocess.Popen(command, env=environment(home), stdout=opened, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: "batch 1-0" in out.read_text(), what="the newest line")
        with (home / "logs" / "sink-orders.log").open("a") as log:
            log.write("and on\n")
        wait_until(lambda: "and on" in out.read_text(), what="the next line")
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 0
    finally:
        child.kill()
        child.wait()


@pytest.mark.stack
def test_a_sink_that_ran_on_another_machine_is_said_to(stack, firn, tmp_path, monkeypatch) -> None:
    topic = Topic(stack.settings, "elsewhere")
    file, records = connector_file(tmp_path, topic), ControlTable(Namespace("STREAMING", "PUBLIC"), f"s_{topic.table}")
    never = firn(stack.home, "logs", file)
    assert isinstance(never.exception, TerminalError)
    assert "has no log on this machine" in never.exception.what
    assert "from the first start of its driver on" in never.exception.next_step
    monkeypatch.setattr(socket, "gethostname", lambda: "other-box")
    with connect(login_of(stack.settings)) as connection:
        records.ensure(connection)
        records.report(connection, State.RUNNING)
    try:
        elsewhere = firn(stack.home, "logs", file)
    finally:
        forget(stack.settings, f"s_{topic.table}")
    assert "on other-box" in elsewhere.exception.next_step
