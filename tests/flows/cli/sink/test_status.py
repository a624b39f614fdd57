"""`firn sink status` through the public command: rows, marks, exit codes, all sinks of a schema."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from firn.connector.parse import load_sink_config
from firn.kafka import cluster
from firn.kafka.partitions import TopicPartition
from firn.ledger.control import ControlTable
from firn.ledger.control_record import Diagnosis, State
from firn.ledger.owner import Totals
from firn.ledger.positions import Move
from firn.ledger.table import LedgerTable
from firn.operations.selection import of_files
from firn.sinks.topics import partitions_of
from firn.snowflake.connection import SnowflakeLogin, connect, execute
from firn.snowflake.identifiers import Namespace
from firn.snowflake.transactions import transaction
from firn.supervisor.current_credentials import CurrentControl
from firn.supervisor.sink_job import control_place
from tests.conftest import FIRN
from tests.support.kafka import Topic
from tests.support.sinks import connector_file, wait_until
from tests.support.snowflake import schema_of_its_own

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def schema(stack) -> Iterator[str]:
    """A schema in which only these tests' sinks are."""
    with schema_of_its_own(stack.settings, "STATUS") as name:
        yield name


@pytest.fixture
def topic(stack) -> Topic:
    return Topic(stack.settings, "status")


def claim(login: SnowflakeLogin, file: Path, topic: Topic, moves: tuple[Move, ...] = ()) -> None:
    """What a run leaves in the ledger that began just now, committed `moves`, and lives."""
    config = load_sink_config(file)
    table = LedgerTable(Namespace(login.database, login.schema), config.name, "a-run")
    admin = cluster.admin_client(topic.client)
    with connect(login) as connection:
        table.ensure(connection)
        ledger = table.claim(connection, lambda: partitions_of(admin, config), "earliest", lambda _: topic.table)
        with transaction(connection):
            table.move(connection, ledger.epoch, "b", moves)


def note(login: SnowflakeLogin, sink: str, state: State, **more: object) -> None:
    records = ControlTable(Namespace(login.database, login.schema), sink)
    with connect(login) as connection:
        records.ensure(connection)
        records.report(connection, state, **more)


def test_a_schema_without_sinks_says_so(firn, schema) -> None:
    done = firn("status")
    assert f"Schema STREAMING.{schema} has no supervised sink yet" in done.stderr


def test_a_running_sink_is_shown_with_lag_and_good_values(firn, login, topic, tmp_path) -> None:
    topic.send([b"x"] * 3, timestamp=int((time.time() - 7200) * 1000))
    file = connector_file(tmp_path, topic)
    sink = f"s_{topic.table}"
    claim(login, file, topic, (Move(TopicPartition(topic.name, 0), 0, 2),))
    note(login, sink, State.RUNNING, stats={"records_per_second": 4.5, "schema_ids": [7]})
    (row,) = map(json.loads, firn("status", file, "--json").stdout.splitlines())
    assert (row["sink"], row["state"], row["well"], row["tasks"]) == (sink, "Running", True, 2)
    assert (row["lag"], row["lag_worst"], row["records_per_second"], row["schema_ids"]) == (1, 1, 4.5, [7])
    assert row["lag_seconds"] == pytest.approx(7200, abs=120)
    assert [each["next_offset"] for each in row["partitions"]] == [2, 0]
    assert set(Totals.__dataclass_fields__) <= set(row)

    shown = firn("status", file).stdout
    assert f"Sink {sink}: Running since" in shown
    assert "< 1000" in shown
    assert "good" in shown
    assert "2 hours" in shown


def test_a_failed_sink_says_why_and_what_to_do_and_fails_a_probe(firn, login, topic, tmp_path) -> None:
    file = connector_file(tmp_path, topic)
    sink = f"s_{topic.table}"
    note(login, sink, State.FAILED, reason="Avro is malformed.", next_step="firn sink offsets <config> --reset 5")
    done = firn("status", file)
    assert done.exit_code == 8
    assert f"Sink {sink}: Failed since" in done.stdout
    assert "Why: Avro is malformed." in done.stdout
    assert f"Next: firn sink offsets {file} --reset 5" in done.stdout  # can be pasted

    everything = firn("status", "--json")
    assert everything.exit_code == 8
    rows = {row["sink"]: row for row in map(json.loads, everything.stdout.splitlines())}
    assert (rows[sink]["state"], rows[sink]["why"]) == ("Failed", "Avro is malformed.")


def test_without_a_file_topics_are_those_of_the_last_claim(firn, login, topic, tmp_path) -> None:
    topic.send([b"x"] * 2)
    claim(login, connector_file(tmp_path, topic), topic)
    note(login, f"s_{topic.table}", State.RUNNING)
    done = firn("status", "--json")
    rows = {row["sink"]: row for row in map(json.loads, done.stdout.splitlines())}
    found = rows[f"s_{topic.table}"]
    assert (found["state"], found["lag"], found["tasks"]) == ("Running", 2, 2)
    assert {each["table"] for each in found["partitions"]} == {topic.table}


def test_without_a_file_a_sink_is_judged_by_its_own_pace(stack, firn, login, topic, tmp_path) -> None:
    """One without heartbeats that waits ten minutes for company: silent and still, and as well as with its file."""
    pace = {"firn__heartbeat__seconds": "0", "buffer__flush__time": "600", "tasks__max": "2"}
    file = connector_file(tmp_path, topic, **pace)
    topic.send([b"x"])
    claim(login, file, topic)
    (context,) = of_files([file], stack.settings)
    CurrentControl(lambda: control_place(replace(context, login=login))).report(Diagnosis(State.RUNNING), {})
    with connect(login) as connection:
        for change in ("FIRN_OFFSETS SET UPDATED_AT", "FIRN_SINKS SET SINCE"):
            name = change.split()[-1]
            execute(connection, f"UPDATE {change} = DATEADD(SECOND, -150, {name}) WHERE SINK = 's_{topic.table}'")
    rows = {row["sink"]: row for row in map(json.loads, firn("status", "--json").stdout.splitlines())}
    for row in (json.loads(firn("status", file, "--json").stdout), rows[f"s_{topic.table}"]):
        assert (row["state"], row["tasks_max"]) == ("Running", 2)


def test_a_sink_that_cannot_be_seen_is_unknown_and_the_others_are_shown(firn, topic, tmp_path) -> None:
    blind = connector_file(tmp_path, topic, snowflake__user__name="NOBODY")
    sound = tmp_path / "sound.json"
    sound.write_text(json.dumps({"name": "sound", "config": {"topics": topic.name}}))
    done = firn("status", blind, sound, "--json")
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["state"], second["state"], done.exit_code) == ("Unknown", "Stopped", 8)
    assert "Snowflake refused the login" in first["why"]


def test_watching_ends_with_ctrl_c(stack, schema, topic, tmp_path) -> None:
    command = [FIRN, "sink", "status", connector_file(tmp_path, topic), "--watch", "--every", "1", "--json"]
    out = tmp_path / "out"
    with out.open("w") as opened:
        child = subprocess.Popen(
            command, env=stack.env | {"FIRN_SNOWFLAKE_SCHEMA": schema}, stdout=opened, stderr=subprocess.DEVNULL
        )
    try:
        wait_until(lambda: len(out.read_text().splitlines()) >= 2, what="two looks")
        child.send_signal(signal.SIGINT)
        assert child.wait(30) == 0
    finally:
        child.kill()
        child.wait()
