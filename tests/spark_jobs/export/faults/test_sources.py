"""What happens to a source while its export runs, and while none does: columns, streams, and a week of downtime."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import pytest

from firn.connector.export.config import SnowflakeTaskConfig
from firn.errors import ConfigError, FirnError, TerminalError
from firn_local.snowflake.metering.meter import FastClock
from spark_jobs.export import worker
from tests.spark_jobs.export.conftest import World
from tests.support.export_hooks import armed_export
from tests.support.export_orders import Expected
from tests.support.faults import CrashError, ExportStep, Fault, Kind
from tests.support.local_snowflake import Local, running_local
from tests.support.sinks import wait_until

pytestmark = pytest.mark.stack
DAY = 86_400.0
DAYS = 7


@pytest.fixture(scope="module")
def clock() -> FastClock:
    return FastClock()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory, clock: FastClock) -> Iterator[Local]:
    """One whose time these tests let pass."""
    with running_local(tmp_path_factory.mktemp("sources"), clock) as running:
        yield running
        worker.close()


def values(world: World) -> list[Any]:
    """The values of all messages, in the order of each partition."""
    return [None if each.value() is None else json.loads(each.value() or b"") for each in world.messages()]


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[dict[str, Any]]:
    """What runs told under this name."""
    return [record.__dict__["firn_data"] for record in caplog.records if record.__dict__.get("firn_event") == name]


def holds_data(world: World) -> bool:
    return bool(world.rows("SELECT SYSTEM$STREAM_HAS_DATA('ORDERS_STREAM') AS A")[0]["A"])


def test_a_week_without_an_exporter_loses_nothing(world: World, clock: FastClock) -> None:
    """What changed meanwhile comes as net changes: the stream keeps them for its retention."""
    expected = Expected(world, 3 * DAYS)
    for _ in range(DAYS):
        clock.advance(DAY)
        expected.change()
    world.run()
    expected.hold()


def test_in_a_week_without_an_exporter_a_task_keeps_every_state(world: World, clock: FastClock) -> None:
    """The stream alone would be stale after two days."""
    world.sql("ALTER TABLE ORDERS SET MAX_DATA_EXTENSION_TIME_IN_DAYS = 2")
    world.more = {"task": SnowflakeTaskConfig("1 MINUTE", "WH")}
    world.sql("INSERT INTO ORDERS VALUES (1, 'day 0', 1)")
    world.run()
    for day in range(1, DAYS + 1):
        clock.advance(DAY)
        world.sql(f"UPDATE ORDERS SET STATUS = 'day {day}'")
        wait_until(lambda: not holds_data(world), what="the task moves what changed")
    assert world.waiting() == DAYS
    world.run()
    assert [value["STATUS"] for value in values(world)] == [f"day {day}" for day in range(DAYS + 1)]
    assert world.waiting() == 0


def test_a_stream_that_is_stale_ends_the_run_with_what_to_do(world: World, clock: FastClock) -> None:
    world.sql("ALTER TABLE ORDERS SET MAX_DATA_EXTENSION_TIME_IN_DAYS = 2")
    world.sql("INSERT INTO ORDERS VALUES (1, 'new', 1)")
    world.run()
    world.sql("UPDATE ORDERS SET STATUS = 'paid'")
    clock.advance(3 * DAY)
    with pytest.raises(TerminalError, match="is stale: the changes since it was consumed last are lost") as raised:
        world.run()
    assert "firn export resync" in raised.value.next_step


def test_a_run_warns_of_a_stream_that_becomes_stale_soon(
    world: World, clock: FastClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_jobs.export.epoch.datetime", _Now(clock))
    caplog.set_level(logging.INFO)
    world.sql("INSERT INTO ORDERS VALUES (1, 'new', 1)")
    world.run()
    assert events(caplog, "stale_soon") == []
    world.sql("INSERT INTO ORDERS VALUES (2, 'new', 1)")
    clock.advance(12 * DAY)
    world.run()
    (told,) = events(caplog, "stale_soon")
    assert (told["export"], told["source"]) == (world.name, "orders")


class _Now:
    """The driver's clock, which is Snowflake's."""

    def __init__(self, clock: FastClock) -> None:
        self._clock = clock

    def now(self, zone: tzinfo) -> datetime:
        return datetime.fromtimestamp(self._clock(), zone)


def test_rows_that_wait_keep_the_columns_of_when_they_were_moved(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.sql("INSERT INTO ORDERS VALUES (0, 'new', 0.5)")
    world.run()
    world.sql("INSERT INTO ORDERS VALUES (1, 'new', 1.5)")
    fault = Fault(ExportStep.MOVE_COMMITTED, Kind.CRASH, str(tmp_path))
    with armed_export(fault), pytest.raises((FirnError, CrashError)):
        world.run()
    assert fault.fired == 1
    assert world.waiting() == 1
    world.sql("ALTER TABLE ORDERS DROP COLUMN AMOUNT")
    world.sql("ALTER TABLE ORDERS RENAME COLUMN STATUS TO STATE")
    world.sql("INSERT INTO ORDERS VALUES (2, 'paid')")
    world.run()
    found = sorted(values(world), key=lambda value: int(value["ID"]))
    assert [list(value) for value in found] == [["ID", "STATUS", "AMOUNT"]] * 2 + [["ID", "STATE"]]
    assert events(caplog, "schema_changed")[-1]["columns"] == ["ID", "STATE"]


def test_a_stream_that_is_dropped_ends_the_run_and_made_again_it_goes_on(world: World) -> None:
    world.sql("INSERT INTO ORDERS VALUES (1, 'new', 1)")
    world.run()
    world.sql("DROP STREAM ORDERS_STREAM")
    with pytest.raises(ConfigError, match="ORDERS_STREAM does not exist") as raised:
        world.run()
    assert "CREATE STREAM" in raised.value.next_step
    world.sql("CREATE STREAM ORDERS_STREAM ON TABLE ORDERS")
    world.sql("INSERT INTO ORDERS VALUES (2, 'new', 1)")
    world.run()
    assert sorted(str(value["ID"]) for value in values(world)) == ["1", "2"]


def test_a_stream_that_another_export_consumes_is_refused(world: World) -> None:
    world.run()
    first, world.name = world.name, f"{world.name}-too"
    with pytest.raises(ConfigError, match=f"Export {first} consumes stream .*ORDERS_STREAM already") as raised:
        world.run()
    assert "CREATE STREAM" in raised.value.next_step
