"""A key is rotated while a sink runs: it reads the secret again and goes on, or stops and says so."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from firn.connector.parse import parse_sink_config
from firn.errors import AuthenticationError
from firn.settings import Settings
from firn.sinks.context import resolve
from spark_jobs.sink.run import SinkRun
from spark_jobs.spark.engine import Engine
from tests.support.faults_checks import AT_ONCE, exactly_once
from tests.support.kafka import Topic
from tests.support.sinks import JSON, connector, landed, wait_until
from tests.support.snowflake import WRITER, OwnUser, drop_schema, make_schema, own_user

pytestmark = pytest.mark.stack

RECORDS = 20


@pytest.fixture
def user(settings: Settings) -> Iterator[OwnUser]:
    """A service user of the test's own, so that nobody else is locked out."""
    with own_user(settings, f"GRANT ROLE {WRITER} TO ROLE {{role}}") as made:
        make_schema(settings, made.name)
        yield made
        drop_schema(settings, made.name)


@pytest.fixture
def own(user: OwnUser) -> Settings:
    """Settings of that user, in a schema of its own. A PUT whose session ends half-way tries on for half a minute."""
    return user.settings.model_copy(update={"snowflake_schema": user.name, "sink_patience_seconds": 60.0})


def run_of(topic: Topic, settings: Settings, spark: Engine, stop: threading.Event) -> SinkRun:
    config = parse_sink_config(connector(topic, **AT_ONCE, **JSON), where="test")
    return SinkRun(resolve(config, settings), spark, once=False, stop=stop, reload=lambda: resolve(config, settings))


def send(topic: Topic, first: int) -> None:
    for partition in range(topic.partitions):
        topic.send((b'{"n": %d}' % n for n in range(first, first + RECORDS)), partition=partition)


@pytest.mark.both_methods
def test_records_flow_through_a_rotation_each_once(user: OwnUser, own: Settings, spark: Engine) -> None:
    topic, stop = Topic(own, "rotation"), threading.Event()
    send(topic, 0)
    run = run_of(topic, own, spark, stop)
    with ThreadPoolExecutor() as pool:
        done = pool.submit(run.run)
        try:
            wait_until(lambda: done.done() or run.report.records >= 2 * RECORDS, what="the first records")
            user.new_key()
            user.set_second_key()
            send(topic, RECORDS)  # both keys open: nothing happens yet
            user.put_secret()
            user.unset_first()
            user.end_sessions()  # or the old ones would live on, and no key be asked for
            send(topic, 2 * RECORDS)
            wait_until(lambda: done.done() or run.report.records >= 6 * RECORDS, what="the records after the rotation")
        finally:
            stop.set()
        report = done.result(60)
    assert report.records == 6 * RECORDS
    exactly_once(own, topic, dict.fromkeys(range(topic.partitions), 3 * RECORDS))


@pytest.mark.both_methods
def test_a_key_removed_before_the_secret_knows_the_new_one_stops_the_sink(
    user: OwnUser, own: Settings, spark: Engine
) -> None:
    topic, stop = Topic(own, "rotation-late"), threading.Event()
    send(topic, 0)
    run = run_of(topic, own, spark, stop)
    with ThreadPoolExecutor() as pool:
        done = pool.submit(run.run)
        try:
            wait_until(lambda: done.done() or run.report.records >= 2 * RECORDS, what="the first records")
            user.new_key()
            user.set_second_key()
            user.unset_first()
            user.end_sessions()
            send(topic, RECORDS)
            with pytest.raises(AuthenticationError, match="Authentication failed") as raised:
                done.result(60)
        finally:
            stop.set()
    assert "private_key" in raised.value.next_step
    user.put_secret()
    stopped = threading.Event()
    with ThreadPoolExecutor() as pool:  # with the secret mended it goes on where it was
        again = run_of(topic, own, spark, stopped)
        done = pool.submit(again.run)
        wait_until(lambda: done.done() or again.report.records >= 2 * RECORDS, what="the records that waited")
        stopped.set()
        done.result(60)
    assert landed(own, topic) == [(p, n) for p in range(topic.partitions) for n in range(2 * RECORDS)]
