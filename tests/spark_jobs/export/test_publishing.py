"""Dead letters, first rows by shards, columns that change, and several sources, through Kafka."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from firn.connector.export.config import (
    BatchConfig,
    Envelope,
    ExportErrorsConfig,
    MessageConfig,
    MessageFormat,
    SnapshotConfig,
)
from firn.errors import BadRecordError, FirnError
from firn.registry.login import login_from_secret, registry_client
from firn.secrets import RegistrySecret, read_secret
from spark_jobs.export import worker
from tests.spark_jobs.export.conftest import World
from tests.support.export_hooks import armed_export
from tests.support.faults import CrashError, ExportStep, Fault, Kind

pytestmark = pytest.mark.stack
_SMALL = {"types": (("AMOUNT", "int"),)}


def test_a_row_that_does_not_fit_stops_the_export_in_front_of_its_batch(world: World) -> None:
    world.source, world.more = _SMALL, {"batch": BatchConfig(rows=2)}
    world.sql("INSERT INTO ORDERS VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4.5)")
    with pytest.raises(BadRecordError, match=r"AMOUNT: '4.50' is no") as raised:
        world.run()
    assert "row id" in raised.value.where
    assert sorted(message.key() or b"" for message in world.messages()) == [b"1", b"2"]
    world.source = {}
    world.run()
    assert len(world.messages()) == 4


def test_dead_letters_are_published_once_with_their_batch(world: World, tmp_path: Path) -> None:
    letters = f"{world.name}-letters"
    errors = ExportErrorsConfig("all", dead_letter_topic=letters, dead_letter_replication=1)
    world.source, world.more = _SMALL, {"errors": errors}
    world.run()
    world.sql("INSERT INTO ORDERS VALUES (1, 'a', 1), (2, 'b', 2.5), (3, 'c', 3.5)")
    with armed_export(Fault(ExportStep.COMMITTED, Kind.CRASH, str(tmp_path))), pytest.raises((FirnError, CrashError)):
        world.run()
    worker.close()
    world.run()
    found = world.messages(letters)
    assert sorted(json.loads(each.value() or b"")["ID"] for each in found) == ["2", "3"]
    headers = dict(found[0].headers() or [])
    assert headers["__connect.errors.connector.name"] == world.name.encode()
    assert b"AMOUNT" in (headers["__connect.errors.exception.message"] or b"")
    assert [message.key() for message in world.messages()] == [b"1"]
    assert [row["LETTERS"] for row in world.history()] == [2]


def test_first_rows_go_by_shards_and_changes_of_a_key_behind_them(world: World) -> None:
    world.more = {
        "snapshot": SnapshotConfig(shards=3),
        "batch": BatchConfig(rows=7),
        "envelope": Envelope.DEBEZIUM,
        "tasks_max": 2,
    }
    world.sql("DROP STREAM ORDERS_STREAM")
    world.sql("INSERT INTO ORDERS SELECT SEQ4(), 'first', 1 FROM TABLE(GENERATOR(ROWCOUNT => 50))")
    world.sql("CREATE STREAM ORDERS_STREAM ON TABLE ORDERS SHOW_INITIAL_ROWS = TRUE")
    world.sql("UPDATE ORDERS SET STATUS = 'second' WHERE ID < 20")
    report = world.run()
    operations: dict[bytes, list[Any]] = defaultdict(list)
    for message in world.messages():
        value = json.loads(message.value() or b"")
        operations[message.key() or b""].append((value["op"], value["after"]["STATUS"]))
    assert report.rows == 70
    assert len(operations) == 50
    expected = [("r", "first"), ("u", "second")]
    assert all(found == expected[: len(found)] for found in operations.values())
    assert {row["SHARD"] for row in world.history()} == {0, 1, 2, 3}


def test_a_column_that_comes_is_followed(world: World) -> None:
    world.run()
    world.sql("INSERT INTO ORDERS VALUES (1, 'a', 1)")
    world.run()
    world.sql("ALTER TABLE ORDERS ADD COLUMN NOTE VARCHAR(10)")
    world.sql("INSERT INTO ORDERS VALUES (2, 'b', 2, 'x')")
    world.run()
    values = {message.key(): json.loads(message.value() or b"") for message in world.messages()}
    assert values[b"1"] == {"ID": 1, "STATUS": "a", "AMOUNT": 1.0}
    assert values[b"2"] == {"ID": 2, "STATUS": "b", "AMOUNT": 2.0, "NOTE": "x"}


def test_avro_goes_to_the_registry_and_evolves(world: World) -> None:
    login = login_from_secret(read_secret(world.settings, world.settings.registry_secret_id, RegistrySecret))
    avro = MessageConfig(MessageFormat.AVRO)
    world.more = {"value": avro, "key": avro}
    world.registry = login
    world.sql("INSERT INTO ORDERS VALUES (1, 'a', 1.25)")
    world.run()
    world.sql("ALTER TABLE ORDERS ADD COLUMN NOTE VARCHAR(10)")
    world.sql("INSERT INTO ORDERS VALUES (2, 'b', 2, 'x')")
    world.run()
    client = registry_client(login)
    assert client.get_versions(f"{world.topic}-value") == [1, 2]
    assert client.get_versions(f"{world.topic}-key") == [1]
    assert len(world.messages()) == 2
