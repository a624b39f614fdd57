"""Records of other kinds than framed Avro, large ones, and topics that come later, through a whole sink."""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer

from firn.errors import BadRecordError, ConfigError
from firn.ledger.positions import LostPositionError
from firn.settings import Settings
from spark_jobs.sink.run import SinkRun
from tests.support.kafka import Topic
from tests.support.sinks import JSON, committed, landed, sql, wait_until

pytestmark = pytest.mark.stack

NewRun = Callable[..., SinkRun]
MEGABYTE = 1_000_000


def numbers(count: int) -> list[bytes]:
    return [json.dumps({"id": number}).encode() for number in range(count)]


@pytest.mark.both_methods
def test_json_values_with_long_keys_land_without_a_registry(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "json")
    topic.send([b'{"a": 1.50, "big": 123456789012345678901234567890}', b"null"], keys=[struct.pack(">q", 5), None])
    new_run(topic, key__converter="org.apache.kafka.connect.converters.LongConverter", **JSON).run()
    rows = sql(settings, f"SELECT * FROM {topic.table} ORDER BY RECORD_METADATA:offset")
    assert rows[0]["RECORD_CONTENT"] == {"a": 1.5, "big": 123456789012345678901234567890}
    assert rows[0]["RECORD_METADATA"]["key"] == 5
    assert "schema_id" not in rows[0]["RECORD_METADATA"]
    assert rows[1]["RECORD_CONTENT"] == {}
    assert "key" not in rows[1]["RECORD_METADATA"]


@pytest.mark.both_methods
def test_protobuf_values_with_avro_keys_land_hoisted(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "proto")
    proto = 'syntax = "proto3"; message Item { int64 id = 1; map<string, bool> flags = 2; }'
    value_id = topic.register(proto, "PROTOBUF")
    key_id = topic.register({"type": "long"}, part="key")  # type: ignore[arg-type]
    value = struct.pack(">bI", 0, value_id) + b"\x00" + b"\x08\x07" + b"\x12\x05\x0a\x01a\x10\x01"
    topic.send([value, None], keys=[struct.pack(">bI", 0, key_id) + b"\x0a", None])
    new_run(
        topic,
        value__converter="io.confluent.connect.protobuf.ProtobufConverter",
        key__converter="io.confluent.connect.avro.AvroConverter",
        transforms="wrap",
        transforms__wrap__type="org.apache.kafka.connect.transforms.HoistField$Value",
        transforms__wrap__field="message",
    ).run()
    item, tombstone = sql(settings, f"SELECT * FROM {topic.table} ORDER BY RECORD_METADATA:offset")
    assert item["RECORD_CONTENT"] == {"message": {"id": 7, "flags": {"a": True}}}
    meta = item["RECORD_METADATA"]
    assert (meta["key"], meta["schema_id"], meta["key_schema_id"]) == (5, value_id, key_id)
    assert tombstone["RECORD_CONTENT"] == {"message": None}
    assert "schema_id" not in tombstone["RECORD_METADATA"]


@pytest.mark.both_methods
def test_ignored_tombstones_leave_no_row_and_no_lag(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "ignore")
    topic.send([b"1", None, b"3", None])
    topic.send([None, None], partition=1)
    report = new_run(topic, behavior__on__null__values="IGNORE", **JSON).run()
    assert landed(settings, topic) == [(0, 0), (0, 2)]
    assert committed(settings, topic) == {0: 4, 1: 2}
    assert [p.lag for p in report.partitions] == [0, 0]


@pytest.mark.both_methods
def test_one_task_takes_several_partitions_and_stops_only_the_bad_one(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "tasks", partitions=3)
    topic.send([b"1", b"{broken", b"3"])
    topic.send(numbers(40), partition=1)
    topic.send(numbers(50), partition=2)
    with pytest.raises(BadRecordError, match=f"{topic.name}-0 offset 1: invalid_json"):
        new_run(topic, tasks__max="1", buffer__count__records="7", **JSON).run()
    assert committed(settings, topic) == {0: 1, 1: 40, 2: 50}
    assert landed(settings, topic) == [(0, 0)] + [(1, n) for n in range(40)] + [(2, n) for n in range(50)]


@pytest.mark.both_methods
def test_a_bad_key_stops_the_sink_and_says_so(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "badkey")
    topic.send([b"1", b"2"], keys=[struct.pack(">q", 5), "short"])
    with pytest.raises(BadRecordError, match="offset 1: wrong_size: in the key"):
        new_run(topic, key__converter="org.apache.kafka.connect.converters.LongConverter", **JSON).run()
    assert landed(settings, topic) == [(0, 0)]


def test_large_records_make_small_batches(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "large", partitions=1)
    topic.send([json.dumps("x" * (MEGABYTE // 10)).encode() for _ in range(110)])
    run = new_run(topic, firn__batch__bytes=str(5 * MEGABYTE), buffer__size__bytes=str(MEGABYTE), **JSON)
    report = run.run()
    assert report.batches >= 3  # 11 MB where 5 MB fit
    assert report.files >= 11
    assert landed(settings, topic) == [(0, n) for n in range(110)]


@pytest.mark.both_methods
def test_records_of_any_timestamp_land(settings: Settings, new_run: NewRun) -> None:
    """Nanoseconds where milliseconds belong, and the largest number that Kafka takes."""
    topic = Topic(settings, "times", partitions=1, config={"message.timestamp.after.max.ms": str(2**63 - 1)})
    times = [1_760_000_000_123_456_789, 2**63 - 1, 1]
    for time in times:
        topic.send([b"1"], timestamp=time)
    new_run(topic, **JSON).run()
    rows = sql(settings, f"SELECT RECORD_METADATA AS M FROM {topic.table} ORDER BY RECORD_METADATA:offset")
    assert [row["M"]["CreateTime"] for row in rows] == times


@pytest.mark.both_methods
@pytest.mark.full
def test_a_sink_of_300_partitions_reads_each_of_them_once(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "wide", partitions=300)
    producer = Producer(topic.client.librdkafka() | {"linger.ms": "50"})
    for number in range(3 * topic.partitions):
        producer.produce(topic.name, b"%d" % number, partition=number % topic.partitions)
    assert producer.flush(60) == 0
    report = new_run(topic, firn__batch__records="500", **JSON).run()
    assert report.batches == 2
    assert landed(settings, topic) == [(p, n) for p in range(topic.partitions) for n in range(3)]


def test_values_of_16_megabytes_land_whole(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "huge", partitions=1, config={"max.message.bytes": str(20 * MEGABYTE)})
    size = 16 * 1024 * 1024 - 100
    topic.send([json.dumps("ö" * 10).encode(), json.dumps("x" * size).encode(), b"3"])
    new_run(topic, **JSON).run()
    rows = sql(settings, f"SELECT RECORD_CONTENT FROM {topic.table} ORDER BY RECORD_METADATA:offset")
    assert [row["RECORD_CONTENT"] for row in rows] == ["ö" * 10, "x" * size, 3]


@pytest.mark.both_methods
def test_a_topic_that_matches_later_is_read_from_its_beginning(settings: Settings, new_run: NewRun) -> None:
    first = Topic(settings, "regex")
    stop = threading.Event()
    run = new_run(
        first,
        once=False,
        stop=stop,
        buffer__count__records="1",
        firn__topics__refresh__seconds="1",
        topics=None,
        topics__regex=f"{first.name}.*",
        snowflake__topic2table__map=f"{first.name}.*:{first.table}",
        **JSON,
    )
    with ThreadPoolExecutor() as pool:
        done = pool.submit(run.run)
        try:
            first.send(numbers(2))
            wait_until(lambda: run.report.records == 2, what="the first topic")
            later = Topic(settings, first.name, partitions=1)
            later.send(numbers(3))
            wait_until(lambda: run.report.records == 5, what="the topic that came later")
            assert committed(settings, later) == {0: 3}
        finally:
            stop.set()
        assert sorted(done.result(60).tables) == [first.name, later.name]


@pytest.mark.both_methods
def test_an_expression_that_matches_nothing_waits_for_a_topic(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "nothing")
    topic.delete()
    latest = {"consumer__override__auto__offset__reset": "latest"}  # a first start is now, not when a topic appears
    expression = {"topics": None, "topics__regex": topic.name, **JSON, **latest}
    with pytest.raises(ConfigError, match="No topic matches"):
        new_run(topic, **expression).run()
    stop = threading.Event()
    extra = {"buffer__count__records": "1", "firn__topics__refresh__seconds": "1"}
    run = new_run(topic, once=False, stop=stop, **expression, **extra)
    with ThreadPoolExecutor() as pool:
        done = pool.submit(run.run)
        try:
            wait_until(lambda: run.report.epoch > 0, what="the sink waits")
            wait_until(topic.try_make, what="the topic is made again")
            topic.send(numbers(4))
            wait_until(lambda: run.report.records == 4, what="its records")
        finally:
            stop.set()
        assert done.result(60).records == 4


@pytest.mark.both_methods
def test_a_topic_made_again_while_it_is_read_is_never_taken_for_the_old_one(
    settings: Settings, new_run: NewRun
) -> None:
    topic = Topic(settings, "swap", partitions=1)
    stop = threading.Event()
    # So seldom a look that only the check before a commit can notice.
    seldom = {"firn__trigger__interval__seconds": "5", "firn__topics__refresh__seconds": "3600"}
    run = new_run(topic, once=False, stop=stop, buffer__count__records="1", **seldom, **JSON)
    with ThreadPoolExecutor() as pool:
        done = pool.submit(run.run)
        try:
            topic.send(numbers(2))
            wait_until(lambda: run.report.records == 2, what="the old topic's records")
            topic.delete()
            wait_until(topic.try_make, what="the topic is made again")
            topic.send(numbers(9))
            with pytest.raises(LostPositionError, match="deleted and made again"):
                done.result(90)
        finally:
            stop.set()
    assert landed(settings, topic) == [(0, 0), (0, 1)]
    owner = sql(settings, f"SELECT RUN_ID FROM FIRN_OFFSETS WHERE SINK = 's_{topic.table}' AND TOPIC = ''")
    assert owner == [{"RUN_ID": ""}]  # nobody runs it: a reset need not wait
