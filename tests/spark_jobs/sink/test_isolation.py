"""What a sink makes of Kafka's transactions: markers are no gaps, and isolation.level decides what is left out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from firn.connector.parse import parse_sink_config
from firn.kafka.cluster import admin_client
from firn.ledger.table import LedgerTable
from firn.operations.offsets import look
from firn.settings import Settings
from firn.sinks.context import resolve
from firn.snowflake.connection import connect
from spark_jobs.sink.run import SinkRun
from tests.support.kafka import Topic
from tests.support.sinks import committed, connector, landed, sql

pytestmark = pytest.mark.stack


@pytest.mark.both_methods
def test_read_committed_leaves_out_what_was_aborted_and_waits_for_what_is_open(
    settings: Settings, new_run: Callable[..., SinkRun]
) -> None:
    topic = Topic(settings, "isolation", partitions=1)
    producer = Producer(topic.client.librdkafka() | {"transactional.id": topic.name})
    producer.init_transactions(30)

    def begin(*values: bytes) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(topic.name, value, partition=0)
        assert producer.flush(30) == 0

    begin(b"0", b"1")
    producer.commit_transaction(30)  # offset 2 is the marker of its end
    begin(b"3", b"4")
    producer.abort_transaction(30)  # 5
    begin(b"6")
    producer.commit_transaction(30)  # 7
    begin(b"8")
    json = {"value__converter": "JsonConverter", "value__converter__schemas__enable": "false"}
    report = new_run(topic, consumer__override__isolation__level="read_committed", **json).run()
    assert landed(settings, topic) == [(0, 0), (0, 1), (0, 6)]
    assert committed(settings, topic) == {0: 8}
    assert [each.lag for each in report.partitions] == [1]  # to the high watermark: a record is there
    config = parse_sink_config(
        connector(topic, consumer__override__isolation__level="read_committed", **json), where="t"
    )
    context = resolve(config, settings)
    with connect(context.login) as connection:
        found = look(config, LedgerTable(context.namespace, config.name), connection, admin_client(context.kafka))
    assert [(each.state, each.lag) for each in found.partitions] == [("blocked", 1)]

    table = f"{topic.table}_ALL"
    new_run(topic, name="s_" + table, snowflake__topic2table__map=f"{topic.name}:{table}", **json).run()
    rows = sql(settings, f"SELECT RECORD_CONTENT FROM {table} ORDER BY RECORD_METADATA:offset")
    assert [row["RECORD_CONTENT"] for row in rows] == [0, 1, 3, 4, 6, 8]
    producer.commit_transaction(30)
