"""What an export cost by its QUERY_TAG, the loop guard, staleness, and who may take an export over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firn.errors import ConfigError
from firn.exports import names
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.table import LedgerTable
from firn.operations.exports.costs import statement_costs
from firn.operations.exports.liveness import ExportRunsError, check_over
from firn.operations.exports.loops import find_loops, refuse_loops
from firn.operations.exports.streams import now, staleness
from firn.snowflake.connection import connect, execute
from tests.firn.exports.conftest import Export


def test_the_cost_of_an_export_is_that_of_the_statements_with_its_tag(connection, export, context) -> None:
    execute(connection, "INSERT INTO ORDERS VALUES (1, 'new')")
    with connect(context.login, query_tag=names.query_tag(export.config.name)) as tagged:
        Export(tagged, export.namespace, export.config).start().move()
    found = {each.query_type: each for each in statement_costs(connection, export.namespace, export.config.name, 24)}
    assert found["INSERT"].statements >= 1
    assert found["INSERT"].in_warehouse == found["INSERT"].statements
    assert found["SHOW"].in_warehouse == 0
    assert not statement_costs(connection, export.namespace, "another", 24)


def sink_loads(connection, export: Export, topic: str, table: str) -> None:
    """A sink of the same schema, which no supervisor runs, loads the topic into the table."""
    sink = LedgerTable(export.namespace, "loads-orders", "a-run")
    sink.ensure(connection)
    seen = {TopicPartition(topic, 0): KafkaPartition("id", 0, 0, None)}
    sink.claim(connection, lambda: seen, "earliest", lambda _topic: table)


def test_a_table_that_a_sink_fills_from_the_topic_of_the_export_is_refused(connection, export) -> None:
    sources = export.look()
    assert find_loops(connection, export.namespace, sources) == []
    sink_loads(connection, export, "order-status", "orders")
    loops = find_loops(connection, export.namespace, sources)
    assert [(each.source, each.sink, each.topic, each.table) for each in loops] == [
        ("orders", "loads-orders", "order-status", "ORDERS")
    ]
    with pytest.raises(ConfigError, match="round for ever: source orders publishes ORDERS to order-status"):
        refuse_loops(loops)
    elsewhere = replace(sources[0], topic="another")
    assert find_loops(connection, export.namespace, [elsewhere]) == []
    execute(connection, f"DROP TABLE {export.namespace.qualified('FIRN_OFFSETS')}")


def test_a_stream_is_marked_days_before_it_becomes_stale(connection, export, local) -> None:
    sources = export.look()
    (good,) = staleness(connection, sources)
    assert good.hours_left(now()) > 72
    assert good.row(now())["mark"] == "good"
    soon = replace(good, stale_after=now())
    assert (soon.needs_attention(now()), soon.row(now())["mark"]) == (True, "look")
    execute(connection, "INSERT INTO ORDERS VALUES (1, 'lost')")
    local.snowflake.account.clock.advance(40 * 86400)
    (stale,) = staleness(connection, sources)
    assert stale.row(now())["mark"] == "stale"
    execute(connection, "DROP STREAM ORDERS_CHANGES")
    (gone,) = staleness(connection, sources)
    assert (gone.gone, gone.row(now())["mark"]) == (True, "gone")


def test_an_export_is_taken_over_only_where_no_run_gave_a_sign_lately(connection, export, context, kafka) -> None:
    export.start()
    standing = export.ledger.standing(connection)
    kafka.sign(standing.epoch, 1)
    with pytest.raises(ExportRunsError, match="its last sign of life came"):
        check_over(context, standing)
    kafka.sign(standing.epoch, 2, ended=True)
    check_over(context, standing)
    taken = export.ledger.claim(connection, (), {"run_id": ""})
    assert taken.epoch == standing.epoch + 1
    check_over(context, export.ledger.standing(connection))
