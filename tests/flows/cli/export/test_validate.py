"""`firn export validate`: faults of a file, and with --live a message that no consumer of committed records sees."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from firn.exports.sources import discover
from firn.operations.exports import validation
from spark_jobs.export.validation import live_checks, try_message
from tests.conftest import RunningStack
from tests.spark_jobs.export.conftest import World
from tests.support.commands import run_here

pytestmark = pytest.mark.stack


def end_of(world: World, topic: str) -> int:
    """Where the partition 0 of a topic ends, aborted records included."""
    consumer = Consumer(world.context.kafka.librdkafka() | {"group.id": "none"})
    try:
        return consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]
    finally:
        consumer.close()


def test_one_message_is_produced_in_a_transaction_that_is_aborted(world: World) -> None:
    world.sql("INSERT INTO ORDERS VALUES (1, 'a', 1)")
    (source,) = discover(world.connection, world.config, world.schema)
    before = try_message(world.connection, world.context, source)
    assert before.state == "ok"
    assert f"the first run makes {world.topic}" in before.found

    world.run()
    ends = [end_of(world, topic) for topic in (world.topic, world.config.marker_topic)]
    found = try_message(world.connection, world.context, source)
    assert (found.state, found.found.endswith("produced, and aborted")) == ("ok", True)
    assert sum(end_of(world, topic) for topic in (world.topic, world.config.marker_topic)) > sum(ends)
    assert len(world.messages()) == 1
    world.sql("INSERT INTO ORDERS VALUES (2, 'b', 2)")
    world.run()
    assert len(world.messages()) == 2, "the export's own producers were not fenced"


def test_all_live_checks_of_an_export_that_works_are_good(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.sql("INSERT INTO ORDERS VALUES (1, 'a', 1)")
    world.run()
    monkeypatch.setattr(validation, "resolve_export", lambda _config, _settings: world.context)
    found = {check.subject: check for check in live_checks(world.config, world.settings)}
    assert {check.state for name, check in found.items() if name != "snowflake objects"} == {"ok"}
    assert {"source orders", "loop guard", "message of orders", "snowflake login"} <= found.keys()
    world.source = {"names": ("NO_STREAM",)}
    failed = [check for check in live_checks(world.config, world.settings) if check.state == "failed"]
    assert [check.subject for check in failed] == ["sources"]
    assert "NO_STREAM" in failed[0].found


def test_all_faults_of_a_file_come_at_once_and_nothing_is_asked(stack: RunningStack, tmp_path: Path) -> None:
    file = tmp_path / "export.json"
    file.write_text(json.dumps({"name": "x", "config": {"kafka.topik": "t", "batch.max.rows": "0"}}))
    done = run_here(stack.home, "export", "validate", file, "--json", check=False)
    assert done.returncode == 3
    assert "kafka.topic" in done.stdout
    assert "batch.max.rows" in done.stdout
