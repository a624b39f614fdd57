"""`firn export status`, `history`, `costs`, `pause`, `resume`, `stop`: what a person sees and sets."""

from __future__ import annotations

import pytest

from firn.exports import names
from firn.ledger.control import ControlTable
from firn.ledger.control_record import DesiredState
from tests.flows.cli.export.conftest import Firn, rows_of
from tests.spark_jobs.export.conftest import World

pytestmark = pytest.mark.stack


def test_status_shows_what_waits_and_when_streams_become_stale(world: World, firn: Firn) -> None:
    world.run()
    world.sql("INSERT INTO ORDERS VALUES (1, 'a', 1)")
    (row,) = rows_of(firn("status", "--json", check=False))
    assert [each["stream"].rsplit(".", 1)[1] for each in row["streams"]] == ["ORDERS_STREAM"]
    assert [(each["table"], each["state"]) for each in row["partitions"]] == [("orders", "unmoved")]
    shown = firn("status", check=False)
    assert "Sources" in shown.stdout
    assert "ORDERS_STREAM" in shown.stdout


def test_status_warns_of_a_stream_that_is_stale_with_exit_code_8(world: World, firn: Firn) -> None:
    world.run()
    assert firn("status", check=False).returncode == 0
    world.sql("INSERT INTO ORDERS VALUES (1, 'a', 1)")
    world.local.snowflake.account.clock.advance(40 * 86400)
    done = firn("status", check=False)
    assert done.returncode == 8
    assert "stale" in done.stdout


def test_history_lists_the_newest_batches_and_costs_what_they_took(world: World, firn: Firn) -> None:
    assert "has published nothing yet" in firn("history").stderr
    world.run()
    for number in (1, 2):
        world.sql(f"INSERT INTO ORDERS VALUES ({number}, 'a', 1)")
        world.run()
    assert [row["row_count"] for row in rows_of(firn("history", "--json"))] == [1, 1]
    (newest,) = rows_of(firn("history", "--newest", "1", "--json"))
    assert world.topic in newest["offsets"]
    assert rows_of(firn("history", "--source", "another", "--json")) == []
    costs = {row["query_type"]: row for row in rows_of(firn("costs", "--json"))}
    assert costs["INSERT"]["in_warehouse"] > 0


def test_pause_resume_and_stop_set_what_is_desired(world: World, firn: Firn) -> None:
    world.run()
    table = ControlTable(world.schema, names.control_name(world.name))
    for command, desired in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
        said = firn(command).stderr
        assert f"{command.capitalize()} of export {world.name} requested." in said
        assert table.read(world.connection).desired is DesiredState(desired)
    assert "firn export resume" in said
