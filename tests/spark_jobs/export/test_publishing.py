"""Dead letters, first rows by shards, columns that change, and several sources, through Kafka."""

from __future__ import annotations

import json
import logging
import secrets
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
    QualityCheck,
    SnapshotConfig,
    TopicConfig,
)
from firn.errors import BadRecordError, FirnError
from firn.exports.checks import QualityError
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


def test_a_row_that_fails_a_check_for_letters_becomes_one_and_all_others_go_on(world: World, caplog) -> None:
    """With errors.tolerance=none too: the check says what happens to its rows."""
    letters = f"{world.name}-refused"
    check = QualityCheck("cheap", "AMOUNT < 100", "dead letter")
    world.source = {"checks": (check, QualityCheck("named", "STATUS <> ''", "warn"))}
    world.more = {"errors": ExportErrorsConfig(dead_letter_topic=letters, dead_letter_replication=1)}
    world.sql("INSERT INTO ORDERS VALUES (1, 'a', 1), (2, 'b', 200), (3, '', 3)")
    with caplog.at_level(logging.WARNING):
        world.run()
    assert [json.loads(each.value() or b"")["ID"] for each in world.messages(letters)] == ["2"]
    assert sorted(message.key() or b"" for message in world.messages()) == [b"1", b"3"]
    told = [each.firn_data for each in caplog.records if getattr(each, "firn_event", "") == "check_failed"]
    assert [(each["check"], each["action"], each["rows"]) for each in told] == [
        ("cheap", "dead letter", 1),
        ("named", "warn", 1),
    ]


def test_a_check_that_stops_is_told_of_before_the_run_ends(world: World, caplog) -> None:
    world.source = {"checks": (QualityCheck("cheap", "AMOUNT < 100"),)}
    world.sql("INSERT INTO ORDERS VALUES (1, 'a', 1), (2, 'b', 200)")
    with caplog.at_level(logging.WARNING), pytest.raises(QualityError, match="cheap"):
        world.run()
    told = [each.firn_data for each in caplog.records if getattr(each, "firn_event", "") == "check_failed"]
    assert [(each["export"], each["source"], each["action"], each["rows"]) for each in told] == [
        (world.name, "orders", "stop", 1)
    ]


def with_notes(world: World) -> None:
    """ORDERS gets a column for texts of any length."""
    world.sql("DROP STREAM ORDERS_STREAM")
    world.sql("ALTER TABLE ORDERS ADD COLUMN NOTE VARCHAR")
    world.sql("CREATE STREAM ORDERS_STREAM ON TABLE ORDERS")


@pytest.mark.parametrize(("limit", "size"), [(3_000, 8_000), (700_000, 1_500_000)], ids=["in a batch", "alone"])
def test_a_row_too_large_for_its_topic_is_a_dead_letter_of_its_key(world: World, limit: int, size: int) -> None:
    """A topic refuses batches of records: those beside a large one are published all the same."""
    letters = f"{world.name}-letters"
    world.more = {
        "errors": ExportErrorsConfig("all", dead_letter_topic=letters, dead_letter_replication=1),
        "topics": TopicConfig(partitions=1, options=(("max.message.bytes", str(limit)),)),
    }
    with_notes(world)
    large = secrets.token_hex(size // 2)
    world.sql(f"INSERT INTO ORDERS VALUES (1, 'a', 1, 'x'), (2, 'b', 2, '{large}'), (3, 'c', 3, '{large}')")
    world.sql("INSERT INTO ORDERS VALUES (4, 'd', 4, 'y')")
    report = world.run()
    assert sorted(message.key() or b"" for message in world.messages()) == [b"1", b"4"]
    found = world.messages(letters)
    assert sorted(json.loads(each.value() or b"")["ID"] for each in found) == ["2", "3"]
    reason = dict(found[0].headers() or [])["__connect.errors.exception.message"] or b""
    assert reason.startswith(b"too large")
    assert b"max.message.bytes" in reason
    assert (report.rows, report.letters) == (4, 2)
    world.sql("INSERT INTO ORDERS VALUES (5, 'e', 5, 'z')")
    world.run()
    assert len(world.messages()) == 3


def test_a_row_too_large_for_its_topic_stops_an_export_that_tolerates_none(world: World) -> None:
    world.more = {"topics": TopicConfig(partitions=1, options=(("max.message.bytes", "3000"),))}
    with_notes(world)
    world.sql(f"INSERT INTO ORDERS VALUES (1, 'a', 1, 'x'), (2, 'b', 2, '{secrets.token_hex(4000)}')")
    with pytest.raises(BadRecordError, match="too large") as raised:
        world.run()
    assert "row id" in raised.value.where
    assert world.messages() == []


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
