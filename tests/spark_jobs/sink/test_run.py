"""What lands in a table when a sink runs, on the embedded stack, in one Spark session."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from firn.errors import BadRecordError, ConfigError, FencedError, TransientError
from firn.ledger.positions import LostPositionError
from firn.operations.run_report import RunReport
from firn.retry import RETRIES
from firn.secrets import KafkaSecret, RegistrySecret, read_secret
from firn.settings import Settings
from spark_jobs.sink.run import SinkRun
from tests.support.kafka import Topic, framed
from tests.support.sinks import committed, landed, sql, wait_until

pytestmark = pytest.mark.stack

V1 = {"type": "record", "name": "Item", "fields": [{"name": "id", "type": "long"}]}
V2 = {**V1, "fields": [*V1["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
NewRun = Callable[..., SinkRun]


def items(topic: Topic, count: int, first: int = 0) -> list[bytes]:
    return framed(topic.register(V1), V1, ({"id": number} for number in range(first, first + count)))


@contextmanager
def running(run: SinkRun, stop: threading.Event) -> Iterator[Future[RunReport]]:
    """The run in a thread, stopped at the end of the block whatever happens in it."""
    with ThreadPoolExecutor() as pool:
        try:
            yield pool.submit(run.run)
        finally:
            stop.set()


@pytest.mark.both_methods(quick=True)
def test_rows_carry_content_and_metadata(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "meta")
    schema_id = topic.register(V1)
    topic.send(items(topic, 1), keys=["k1"], headers=[("trace", b"a-b"), ("n", b"5")], partition=1)
    topic.send([None], keys=["k2"])
    topic.send(items(topic, 1), keys=[None])
    new_run(topic).run()
    rows = sql(settings, f"SELECT * FROM {topic.table} ORDER BY RECORD_METADATA:partition, RECORD_METADATA:offset")
    tombstone, unkeyed, keyed = (row["RECORD_METADATA"] for row in rows)
    assert [row["RECORD_CONTENT"] for row in rows] == [{}, {"id": 0}, {"id": 0}]
    assert (keyed["topic"], keyed["partition"], keyed["offset"], keyed["key"]) == (topic.name, 1, 0, "k1")
    assert keyed["schema_id"] == schema_id
    assert keyed["headers"] == {"trace": "a-b", "n": 5}
    assert abs(keyed["SnowflakeConnectorPushTime"] - keyed["CreateTime"]) < 600_000
    assert (tombstone["schema_id"], tombstone["key"]) == (0, "k2")
    assert "key" not in unkeyed
    assert "headers" not in unkeyed


@pytest.mark.both_methods(quick=True)
def test_running_again_adds_exactly_the_new_records(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "again")
    topic.send(items(topic, 30))
    assert new_run(topic).run().records == 30
    idle = new_run(topic).run()
    assert (idle.records, idle.batches) == (0, 0)
    topic.send(items(topic, 5), partition=1)
    report = new_run(topic).run()
    assert report.records == 5
    assert [(p.partition, p.next_offset, p.lag) for p in report.partitions] == [(0, 30, 0), (1, 5, 0)]
    assert landed(settings, topic) == [(0, n) for n in range(30)] + [(1, n) for n in range(5)]
    assert totals_of(settings, topic)["records"] == 35


def totals_of(settings: Settings, topic: Topic) -> dict[str, int]:
    """What the ledger says the topic's sink has brought over all its runs."""
    statement = f"SELECT DOCUMENT FROM FIRN_OFFSETS WHERE SINK = 's_{topic.table}' AND TOPIC = ''"
    found: dict[str, int] = sql(settings, statement)[0]["DOCUMENT"]["totals"]
    return found


def test_many_batches_and_files_land_every_record_once(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "many")
    topic.send(items(topic, 95))
    topic.send(items(topic, 45), partition=1)
    report = new_run(topic, firn__batch__records="40", buffer__count__records="7").run()
    assert report.batches >= 4
    assert report.files >= 140 / 7
    assert landed(settings, topic) == [(0, n) for n in range(95)] + [(1, n) for n in range(45)]
    assert sql(settings, f"LIST @FIRN_STAGE/s_{topic.table}/") == []


@pytest.mark.both_methods
def test_a_new_schema_id_in_mid_stream_needs_no_restart(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "evolve")
    topic.send(items(topic, 3))
    stop = threading.Event()
    run = new_run(topic, once=False, stop=stop, buffer__count__records="1")
    with running(run, stop) as done:
        wait_until(lambda: run.report.records == 3, what="first schema committed")
        epoch = run.report.epoch
        topic.send(framed(topic.register(V2), V2, [{"id": 7, "note": "new"}]))
        wait_until(lambda: run.report.records == 4, what="second schema committed")
        stop.set()
        assert done.result(60).epoch == epoch
    rows = sql(settings, f"SELECT RECORD_CONTENT FROM {topic.table} WHERE RECORD_METADATA:offset = 3")
    assert rows == [{"RECORD_CONTENT": {"id": 7, "note": "new"}}]


@pytest.mark.both_methods
@pytest.mark.parametrize(
    ("bad", "reason"),
    [(b"\x01\x00\x00\x00\x01x", "magic"), (b"\x00\x00\x0f\x42\x40\x02", "1000000"), (b"\x00\x00", "short")],
    ids=["wrong-magic", "unknown-schema-id", "too-short"],
)
def test_a_bad_record_stops_the_sink_right_before_it(
    settings: Settings, new_run: NewRun, bad: bytes, reason: str
) -> None:
    topic = Topic(settings, "bad")
    topic.send([*items(topic, 4), bad, *items(topic, 2, first=4)])
    topic.send(items(topic, 3), partition=1)
    with pytest.raises(BadRecordError, match=reason) as raised:
        new_run(topic).run()
    assert f"{topic.name}-0 offset 4" in str(raised.value)
    assert landed(settings, topic) == [(0, n) for n in range(4)] + [(1, n) for n in range(3)]
    assert committed(settings, topic) == {0: 4, 1: 3}


@pytest.mark.both_methods
def test_a_truncated_record_is_never_a_row_of_nulls(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "cut")
    good = items(topic, 1, first=10_000)[0]
    topic.send([good, good[:-1]])
    with pytest.raises(BadRecordError, match="offset 1"):
        new_run(topic).run()
    assert landed(settings, topic) == [(0, 0)]


@pytest.mark.both_methods(quick=True)
def test_the_newer_of_two_runs_wins_for_good(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "fenced")
    topic.send(items(topic, 2))
    stop = threading.Event()
    older = new_run(topic, once=False, stop=stop, buffer__count__records="1")
    with running(older, stop) as done:
        wait_until(lambda: older.report.records == 2, what="older run committed")
        assert new_run(topic).run().epoch == older.report.epoch + 1
        topic.send(items(topic, 2, first=2))
        with pytest.raises(FencedError):
            done.result(60)
    assert landed(settings, topic) == [(0, 0), (0, 1)]
    new_run(topic).run()
    assert landed(settings, topic) == [(0, n) for n in range(4)]


@pytest.mark.both_methods
def test_a_recreated_topic_stops_the_sink_with_its_name(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "reborn")
    topic.send(items(topic, 3))
    new_run(topic).run()
    topic.delete()
    wait_until(topic.try_make, what="topic made again")
    topic.send(items(topic, 9))
    with pytest.raises(LostPositionError, match=f"{topic.name}-0: the topic was deleted and made again"):
        new_run(topic).run()


def test_a_topic_that_matches_nothing_says_what_to_do(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "gone")
    topic.delete()
    with pytest.raises(ConfigError, match="firn provision --topic"):
        new_run(topic).run()


@pytest.mark.both_methods
def test_a_table_that_cannot_take_the_records_is_refused(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "narrow")
    sql(settings, f"CREATE TABLE {topic.table} (RECORD_METADATA VARIANT, EXTRA VARCHAR NOT NULL)")
    topic.send(items(topic, 1))
    with pytest.raises(ConfigError, match="RECORD_CONTENT: is missing") as raised:
        new_run(topic).run()
    assert "EXTRA: has type VARCHAR(16777216) and is NOT NULL" in str(raised.value)


@pytest.mark.both_methods
def test_a_registry_outage_is_transient_and_loses_nothing(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "outage")
    topic.send(items(topic, 2))
    run = new_run(topic)
    down = dataclasses.replace(run._context.value_registry, urls=("http://127.0.0.1:9/apis/ccompat/v7",))
    run._context = dataclasses.replace(run._context, value_registry=down)
    run._deadline.seconds = 2.0
    before = RETRIES.counts().get("TransientError", 0)
    with pytest.raises(TransientError, match="egistry"):
        run.run()
    assert RETRIES.counts()["TransientError"] > before  # those of the task: the driver itself had no time left
    assert new_run(topic).run().records == 2


def said_by_processes(name: str) -> Iterator[str]:
    """A file of each process in /proc (cmdline, environ), as far as it can be read."""
    for file in Path("/proc").glob(f"[0-9]*/{name}"):
        with suppress(OSError):  # it ended just now
            yield file.read_text(errors="replace")


@pytest.mark.both_methods
def test_no_credential_reaches_a_log_a_file_of_spark_a_command_line_or_an_environment(
    settings: Settings, new_run: NewRun
) -> None:
    topic = Topic(settings, "quiet")
    topic.send([*items(topic, 1), b"x"])
    run = new_run(topic)
    with pytest.raises(BadRecordError):
        run.run()
    context = run._context
    key = context.login.private_key.get_secret_value().splitlines()[1]
    kafka = read_secret(settings, settings.kafka_secret_id, KafkaSecret)
    registry = read_secret(settings, settings.registry_secret_id, RegistrySecret)
    secrets = [kafka.api_secret.get_secret_value(), registry.api_secret.get_secret_value(), key]
    written = [path for name in ("logs", "spark") for path in (settings.home / name).rglob("*") if path.is_file()]
    assert written
    leaks: list[object] = [path for path in written for secret in secrets if secret.encode() in path.read_bytes()]
    lines, environments = list(said_by_processes("cmdline")), list(said_by_processes("environ"))
    assert any("org.apache.spark.deploy.SparkSubmit" in line for line in lines)
    leaks += [text for text in [*lines, *environments] if any(secret in text for secret in secrets)]
    assert leaks == []
    assert not any(secret in repr(context) for secret in secrets)
