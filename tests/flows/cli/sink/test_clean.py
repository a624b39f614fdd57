"""`firn sink clean` through the public command: what it shows, when it asks, refuses, and what it removes."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from firn.snowflake.connection import connect
from tests.support.kafka import Topic
from tests.support.leftovers import NOTHING, LeftSink
from tests.support.sinks import login_of
from tests.support.snowflake import drop_schema, make_schema

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def topic(stack) -> Topic:
    return Topic(stack.settings, "cleaned", partitions=1)


@pytest.fixture(scope="module")
def made(stack, topic: Topic) -> Iterator[LeftSink]:
    """A schema that nobody else uses, and a session there."""
    schema = f"CLEAN_{uuid.uuid4().hex[:8].upper()}"
    make_schema(stack.settings, schema)
    settings = stack.settings.model_copy(update={"snowflake_schema": schema})
    with connect(login_of(settings)) as connection:
        yield LeftSink(settings, "", topic.name, Path(), connection)
    drop_schema(stack.settings, schema)


@pytest.fixture
def sink(made: LeftSink, tmp_path: Path) -> LeftSink:
    """A sink that ended and left something everywhere."""
    own = LeftSink(made.settings, f"s{uuid.uuid4().hex[:8]}", made.topic, tmp_path, made.connection)
    epoch = own.claim().epoch
    own.stage_files(epoch)
    own.make_groups()
    return own


def test_it_shows_all_and_without_a_terminal_removes_nothing(stack, sink: LeftSink, tmp_path: Path) -> None:
    before = sink.left()
    shown = stack.run("sink", "clean", sink.file(tmp_path), "--dry-run")
    assert "Nothing was changed (--dry-run)." in shown.stderr
    refused = stack.run("sink", "clean", sink.file(tmp_path), "--json", check=False)
    rows = [json.loads(line) for line in refused.stdout.splitlines()]
    assert refused.returncode == 3
    assert "--yes" in refused.stderr
    assert list(rows[0]) == ["what", "name", "count", "bytes", "detail", "action"]
    assert [row["name"] for row in rows if row["what"] == "consumer group"] == sink.groups
    assert {row["action"] for row in rows} == {"remove", "leave"}
    assert f"topic {sink.topic}: kafka-topics --delete --topic '{sink.topic}'" in refused.stderr
    assert sink.left() == before


def test_with_yes_it_removes_all_and_a_second_time_finds_nothing(stack, sink: LeftSink, tmp_path: Path) -> None:
    done = stack.run("sink", "clean", sink.file(tmp_path), "--yes")
    assert f"Removed what sink {sink.name} left behind." in done.stderr
    assert sink.left() == NOTHING
    again = stack.run("sink", "clean", sink.file(tmp_path), "--yes")
    assert "left nothing to remove" in again.stderr


def test_on_a_terminal_it_wants_the_sinks_name(stack, sink: LeftSink, tmp_path: Path) -> None:
    before = sink.left()
    for answer, code, left in (("", 130, before), ("yes\n", 0, before), (f"{sink.name}\n", 0, NOTHING)):
        done = stack.run("sink", "clean", sink.file(tmp_path), typed=answer, check=False)
        assert f"Type the sink's name ({sink.name})" in done.stderr
        assert done.returncode == code
        assert ("Nothing was changed." in done.stderr) == (left == before)
        assert sink.left() == left


def test_a_sink_that_runs_is_shown_and_not_cleaned(stack, sink: LeftSink, tmp_path: Path) -> None:
    sink.claim(run_id="runs", ended=False)
    before = sink.left()
    refused = stack.run("sink", "clean", sink.file(tmp_path), "--yes", check=False)
    assert refused.returncode == 3
    assert f"Sink {sink.name} runs: last sign of life" in refused.stderr
    assert sink.name in refused.stdout
    assert sink.left() == before


def test_places_that_do_not_tell_must_be_left_on_purpose(stack, sink: LeftSink, tmp_path: Path) -> None:
    before, away = sink.left(), {"FIRN_KAFKA_SECRET_ID": "none/such"}
    refused = stack.run("sink", "clean", sink.file(tmp_path), "--yes", "--json", check=False, env=away)
    assert refused.returncode == 3
    rows = [json.loads(line) for line in refused.stdout.splitlines()]
    unseen = [row["what"] for row in rows if row["action"] == "not looked at"]
    assert unseen == ["consumer group"] * len(before["groups"])
    assert "Nothing was removed, because Kafka could not be read" in refused.stderr
    assert "--skip-kafka" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert sink.left() == before
    stack.run("sink", "clean", sink.file(tmp_path), "--yes", "--skip-kafka", env=away)
    assert sink.left() == NOTHING | {"groups": before["groups"]}
