"""`firn sink pause|resume|stop` through the public command: what is written down, what is said, and --wait."""

from __future__ import annotations

import getpass
import os
import socket
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from firn.connector.parse import load_sink_config
from firn.errors import TransientError
from firn.kafka import cluster
from firn.ledger.control import ControlTable
from firn.ledger.control_record import ControlRecord, DesiredState, State
from firn.ledger.table import LedgerTable
from firn.sinks.topics import partitions_of
from firn.snowflake.connection import SnowflakeLogin, connect
from firn.snowflake.identifiers import Namespace
from tests.support.kafka import Topic
from tests.support.sinks import connector_file, wait_until
from tests.support.snowflake import schema_of_its_own

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def schema(stack) -> Iterator[str]:
    with schema_of_its_own(stack.settings, "WANTED") as name:
        yield name


@pytest.fixture(scope="module")
def topic(stack) -> Topic:
    return Topic(stack.settings, "wanted")


@pytest.fixture
def file(tmp_path: Path, topic: Topic) -> Path:
    return connector_file(tmp_path, topic, name=f"s_{uuid.uuid4().hex[:8]}")


class Ledger:
    """The sink of a file in ledger and FIRN_SINKS, as a run and its supervisor write there."""

    def __init__(self, login: SnowflakeLogin, file: Path, topic: Topic) -> None:
        self.login, self.config = login, load_sink_config(file)
        self.namespace = Namespace(login.database, login.schema)
        self.table = LedgerTable(self.namespace, self.config.name, "a-run")
        self.records = ControlTable(self.namespace, self.config.name)
        self.admin = cluster.admin_client(topic.client)

    def claim(self) -> int:
        with connect(self.login) as connection:
            self.table.ensure(connection)
            return self.table.claim(
                connection, lambda: partitions_of(self.admin, self.config), "earliest", str.upper, share_target=True
            ).epoch

    def note(self, state: State) -> None:
        with connect(self.login) as connection:
            self.records.ensure(connection)
            self.records.report(connection, state)

    def read(self) -> ControlRecord | None:
        with connect(self.login) as connection:
            return self.records.read(connection)


@pytest.fixture
def ledger(login: SnowflakeLogin, file: Path, topic: Topic) -> Ledger:
    return Ledger(login, file, topic)


def test_who_wants_what_is_written_down_where_nobody_runs(firn, file, ledger) -> None:
    said = firn("stop", file, "--wait").stderr
    assert f"Stop of sink {ledger.config.name} requested. No run owns the sink now" in said
    assert f"{ledger.config.name}: Stopped." in said
    found = ledger.read()
    assert (found.desired, found.desired_by) == (DesiredState.STOPPED, f"{getpass.getuser()}@{socket.gethostname()}")
    assert "Paused." in firn("pause", file, "--wait").stderr
    assert ledger.read().desired is DesiredState.PAUSED


def test_a_run_without_a_supervisor_has_to_be_ended_by_hand(firn, file, ledger) -> None:
    ledger.claim()
    said = firn("pause", file).stderr
    assert "has no supervisor, so nothing ends it. Send it SIGTERM" in said


def test_a_wait_lasts_until_it_is_so(firn, file, ledger) -> None:
    epoch = ledger.claim()
    ledger.note(State.RUNNING)

    def obey() -> None:
        """What a supervisor does."""
        wait_until(lambda: ledger.read().desired is DesiredState.PAUSED, what="the pause is written down")
        with connect(ledger.login) as connection:
            ledger.table.release(connection, epoch)
        ledger.note(State.PAUSED)

    supervisor = threading.Thread(target=obey)
    supervisor.start()
    try:
        said = firn("pause", file, "--wait").stderr
    finally:
        supervisor.join(60)
    assert "last reported" in said
    assert "Paused." in said
    assert not supervisor.is_alive()


def test_a_resume_that_nobody_obeys_is_told_after_a_while(firn, file, ledger) -> None:
    ledger.note(State.FAILED)
    done = firn("resume", file, "--wait", "--timeout", "2")
    assert isinstance(done.exception, TransientError)
    assert "not running after 2 s: Stopped" in done.exception.what
    assert f"firn sink run {file}" in done.stderr
    found = ledger.read()
    assert (found.desired, found.failed) == (DesiredState.RUNNING, False)


def test_a_request_works_where_the_user_has_no_name(firn, file, ledger, monkeypatch) -> None:
    """As in a container whose user id is not in /etc/passwd."""

    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", unknown)
    firn("pause", file)
    assert ledger.read().desired_by == f"{os.getuid()}@{socket.gethostname()}"
