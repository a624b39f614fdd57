"""Changes of a table arrive in Kafka once each and in order per key, read by a plain read_committed consumer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import Message

from spark_jobs.spark.engine import Engine
from tests.spark_jobs.export.conftest import World

pytestmark = pytest.mark.stack


def read(message: Message) -> tuple[str, Any]:
    """(key, value) of a record."""
    key, value = message.key(), message.value()
    assert key is not None
    return key.decode(), None if value is None else json.loads(value)


def test_inserts_updates_and_deletes_arrive_once_and_in_order(world: World) -> None:
    world.sql("INSERT INTO ORDERS VALUES (1, 'new', 10), (2, 'new', 20), (3, 'new', 30)")
    first = world.run()
    world.sql("UPDATE ORDERS SET STATUS = 'paid' WHERE ID = 1")
    world.sql("DELETE FROM ORDERS WHERE ID = 2")
    world.sql("UPDATE ORDERS SET ID = 4 WHERE ID = 3")
    second = world.run()
    by_key: dict[str, list[Any]] = {}
    for key, value in map(read, world.messages()):
        by_key.setdefault(key, []).append(value and value["STATUS"])
    assert by_key == {"1": ["new", "paid"], "2": ["new", None], "3": ["new", None], "4": ["new"]}
    assert first.rows == 3
    assert second.rows == 4
    assert world.waiting() == 0
    assert sum(row["ROW_COUNT"] for row in world.history()) == 7


def test_every_message_is_found_by_its_batch_and_offset(world: World) -> None:
    world.sql("INSERT INTO ORDERS SELECT SEQ4(), 'new', 1 FROM TABLE(GENERATOR(ROWCOUNT => 10))")
    world.run()
    spans = {
        (topic, int(partition)): (first, last, row["BATCH"])
        for row in world.history()
        for topic, partitions in row["OFFSETS"].items()
        for partition, (first, last) in partitions.items()
    }
    for message in world.messages():
        first, last, batch = spans[message.topic(), message.partition()]  # type: ignore[index]
        assert first <= message.offset() <= last  # type: ignore[operator]
        headers = dict(message.headers() or [])
        assert headers["firn.batch"] == str(batch).encode()
        assert headers["firn.action"] == b"INSERT"
        assert headers["firn.row_id"]


def test_tasks_run_on_spark(world: World, spark: Engine) -> None:
    world.engine = spark
    world.sql("INSERT INTO ORDERS SELECT SEQ4(), 'new', 1 FROM TABLE(GENERATOR(ROWCOUNT => 2500))")
    report = world.run()
    assert (report.rows, report.batches) == (2500, 3)
    assert len(world.messages()) == 2500
    assert world.waiting() == 0


def test_a_run_with_nothing_new_publishes_nothing(world: World) -> None:
    world.sql("INSERT INTO ORDERS VALUES (1, 'new', 10)")
    world.run()
    again = world.run()
    assert (again.rows, again.moves) == (0, 0)
    assert len(world.messages()) == 1
