"""Looks at a sink from outside: lag in records and in seconds, a ledger past Kafka's end, and sides that are silent."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from pydantic import SecretStr

from firn.connector.parse import parse_sink_config
from firn.errors import TransientError
from firn.kafka import cluster, record_ages
from firn.kafka.client import KafkaClient
from firn.kafka.group_documents import GroupDocuments
from firn.kafka.partitions import TopicPartition as Where
from firn.kafka.properties import KafkaProperty
from firn.ledger.control import ControlTable
from firn.ledger.control_record import DesiredState, State
from firn.ledger.kafka_names import sign_group, task_group
from firn.ledger.positions import Move
from firn.ledger.table import LedgerTable
from firn.operations.observation import Depth
from firn.operations.observer import Observer
from firn.operations.state_request import controlled_sink, request_state
from firn.sinks.context import SinkContext, resolve
from firn.sinks.signs import SignWriter, TaskReport, report_document
from firn.sinks.topics import partitions_of
from firn.snowflake.connection import connect, execute
from firn.snowflake.transactions import transaction
from tests.support.kafka import Topic
from tests.support.proxies import closed_port
from tests.support.sinks import connector, forget, login_of, wait_until

pytestmark = pytest.mark.stack

HOUR_MS = 3_600_000


@pytest.fixture
def topic(stack) -> Topic:
    return Topic(stack.settings, "observed")


@pytest.fixture
def context(stack, topic: Topic) -> SinkContext:
    return resolve(parse_sink_config(connector(topic), where="test"), stack.settings)


@pytest.fixture
def new_observer() -> Iterator[Callable[[SinkContext], Observer]]:
    made: list[Observer] = []

    def make(context: SinkContext) -> Observer:
        made.append(Observer(context))
        return made[-1]

    yield make
    for each in made:
        each.close()


def claim(context: SinkContext, *moves: Move) -> None:
    """What a run leaves in the ledger that began, committed `moves` and lives."""
    table = LedgerTable(context.namespace, context.config.name, "a-run")
    admin = cluster.admin_client(context.kafka)
    with connect(context.login) as connection:
        table.ensure(connection)
        ledger = table.claim(connection, lambda: partitions_of(admin, context.config), "earliest", str.upper)
        with transaction(connection):
            table.move(connection, ledger.epoch, "b", moves)


def by_number(found) -> dict[int, object]:
    return {each.partition: each for each in found.partitions}


def test_before_its_first_start_a_sink_has_lag_and_no_owner(topic, context, new_observer) -> None:
    topic.send([b"x"] * 3)
    found = new_observer(context).look()
    assert (found.owner, found.record, found.desired, found.last_commit) == (None, None, DesiredState.RUNNING, None)
    first, second = found.partitions
    assert (first.table, first.next_offset, first.end_offset, first.lag, first.state) == (topic.table, 0, 3, 3, "new")
    assert (second.lag, second.lag_seconds) == (0, None)
    assert found.lag == 3


def test_lag_in_seconds_is_the_age_of_the_first_record_that_is_not_committed(topic, context, new_observer) -> None:
    now = int(time.time() * 1000)
    topic.send([b"old", b"done"], timestamp=now - 5 * HOUR_MS)
    topic.send([b"waits"], timestamp=now - 2 * HOUR_MS)
    topic.send([b"new"], timestamp=now)
    topic.send([b"one"], partition=1, timestamp=now - HOUR_MS)
    claim(context, Move(Where(topic.name, 0), 0, 2))
    observer = new_observer(context)
    found = observer.look()
    first, second = found.partitions
    assert (first.next_offset, first.end_offset, first.lag) == (2, 4, 2)
    assert first.lag_seconds == pytest.approx(2 * 3600, abs=60)
    assert second.lag_seconds == pytest.approx(3600, abs=60)
    assert found.lag_seconds == first.lag_seconds
    assert found.owner.runs(60)
    assert found.last_commit is not None

    claim(context, Move(Where(topic.name, 0), 2, 3))
    moved = by_number(observer.look())
    assert moved[0].lag_seconds < 60
    claim(context, Move(Where(topic.name, 0), 3, 4), Move(Where(topic.name, 1), 0, 1))
    assert [each.lag_seconds for each in observer.look().partitions] == [None, None]


def test_kafka_alone_is_asked_where_the_ledger_costs_money(topic, context, new_observer) -> None:
    claim(context)
    observer = new_observer(context)
    observer.look()
    topic.send([b"x"] * 2)
    claim(context, Move(Where(topic.name, 0), 0, 1))
    observer._session.close()  # a statement would fail
    found = observer.look(Depth.KAFKA)
    assert (by_number(found)[0].next_offset, found.lag, found.depth) == (0, 2, Depth.KAFKA)
    with pytest.raises(TransientError):
        observer.look()
    assert by_number(observer.look())[0].next_offset == 1


def sign_of(context: SinkContext) -> SignWriter:
    """What the run writes its signs with."""
    return SignWriter(context.kafka, sign_group(ledger_id(context), context.config.name))


def ledger_id(context: SinkContext) -> str:
    with connect(context.login) as connection:
        return LedgerTable(context.namespace, context.config.name).ledger_id(connection) or ""


def test_signs_in_kafka_are_life_and_say_when_the_ledger_is_to_be_asked(topic, context, new_observer) -> None:
    where, clock = Where(topic.name, 0), [0.0]
    claim(context)
    observer = Observer(context, lambda: clock[0])
    try:
        epoch = observer.look().owner.epoch
        writer = sign_of(context)
        writer.write(where, epoch, moves=0)
        assert observer.look(Depth.KAFKA).depth is Depth.LEDGER  # the first sign of a run
        for _ in range(3):
            clock[0] += 300
            assert not observer.look(Depth.KAFKA).owner.runs(90)
            writer.write(where, epoch, moves=0)
            found = observer.look(Depth.KAFKA)
            assert found.owner.runs(90)
            assert found.depth is Depth.KAFKA
        writer.write(where, epoch, moves=1)  # it committed
        assert observer.look(Depth.KAFKA).depth is Depth.LEDGER
        assert observer.look(Depth.KAFKA).depth is Depth.KAFKA
        clock[0] += 61  # perhaps Kafka refuses its signs, and it says in the ledger that it lives
        assert observer.look(Depth.REQUESTS).depth is Depth.LEDGER
        claim(context)
        sign_of(context).write(where, epoch + 1, moves=0)
        found = observer.look(Depth.KAFKA)
        assert (found.depth, found.owner.epoch) == (Depth.LEDGER, epoch + 1)
    finally:
        observer.close()


def test_a_run_without_signs_is_looked_for_in_the_ledger(context, new_observer) -> None:
    claim(context)
    observer = new_observer(context)
    observer.look()
    assert observer.look(Depth.KAFKA).depth is Depth.KAFKA
    assert observer.look(Depth.REQUESTS).depth is Depth.LEDGER


def test_positions_of_a_continuous_run_are_those_of_its_tasks(topic, context, new_observer) -> None:
    topic.send([b"x"] * 5)
    claim(context)
    observer = new_observer(context)
    epoch = observer.look().owner.epoch
    group = task_group(ledger_id(context), context.config.name)
    where, tasks = Where(topic.name, 0), GroupDocuments(context.kafka, group)
    for durable in (3, 5):
        tasks.write({where: report_document(TaskReport(epoch, durable, durable))})
        found = observer.look(Depth.KAFKA)
        assert (by_number(found)[0].next_offset, found.lag, found.reported) == (durable, 5 - durable, True)
    assert found.at - found.last_commit < timedelta(seconds=60)


def test_a_request_is_announced_in_kafka(stack, topic, context, new_observer) -> None:
    claim(context)
    observer = new_observer(context)
    observer.look()
    try:
        request_state(controlled_sink(context, new_observer(context)), "pause", "s.json")
        found = observer.look(Depth.KAFKA)
        assert (found.depth, found.desired) == (Depth.REQUESTS, DesiredState.PAUSED)
        assert observer.look(Depth.KAFKA).depth is Depth.KAFKA
    finally:
        forget(stack.settings, context.config.name)


def test_what_is_wanted_comes_with_the_look(stack, context, new_observer) -> None:
    records = ControlTable(context.namespace, context.config.name)
    with connect(context.login) as connection:
        records.ensure(connection)
        records.report(connection, State.STALLED, reason="no offset moved")
        records.request(connection, DesiredState.PAUSED, "anna")
    try:
        found = new_observer(context).look()
    finally:
        forget(stack.settings, context.config.name)
    assert (found.desired, found.record.state) == (DesiredState.PAUSED, State.STALLED)


def test_a_position_past_the_end_is_ahead_and_a_topic_made_again_is_told(topic, context, new_observer) -> None:
    topic.send([b"x"] * 4)
    claim(context, Move(Where(topic.name, 0), 0, 4))
    with connect(context.login) as connection:
        statement = f"UPDATE FIRN_OFFSETS SET NEXT_OFFSET = 9 WHERE TOPIC = '{topic.name}' AND PARTITION = 0"
        execute(connection, statement)
    observer = new_observer(context)
    first = by_number(observer.look())[0]
    assert (first.ahead, first.lag, first.state, first.next_offset) == (True, 0, "ahead", 9)

    topic.delete()
    wait_until(topic.try_make, what="the topic can be made again")
    topic.send([b"y"] * 2)
    first = by_number(observer.look())[0]
    assert (first.ahead, first.lag, first.state) == (True, 2, "recreated")


def test_a_topic_that_is_gone_has_no_lag(topic, context, new_observer) -> None:
    claim(context)
    observer = new_observer(context)
    topic.delete()
    wait_until(lambda: not cluster.find_topics(topic.admin, [topic.name]), what="the topic is gone")
    found = observer.look()
    assert {(each.state, each.end_offset, each.lag) for each in found.partitions} == {("gone", None, None)}
    assert found.lag == 0


def test_only_so_many_partitions_are_read_and_those_far_behind_first(topic, context, new_observer, monkeypatch) -> None:
    monkeypatch.setattr(record_ages, "PARTITIONS", 1)
    topic.send([b"x"])
    topic.send([b"x"] * 5, partition=1)
    observer = new_observer(context)
    seen = by_number(observer.look())
    assert seen[0].lag_seconds is None
    assert seen[1].lag_seconds is not None
    assert None not in {each.lag_seconds for each in observer.look().partitions}  # the other one's is known by now


def test_brokers_that_do_not_answer_are_a_transient_fault_and_bounded(context, new_observer, monkeypatch) -> None:
    monkeypatch.setattr(cluster, "REQUEST_SECONDS", 1.0)
    nobody = KafkaProperty("bootstrap.servers", SecretStr(f"127.0.0.1:{closed_port()}"))
    others = [each for each in context.kafka.properties if each.name != "bootstrap.servers"]
    observer = new_observer(replace(context, kafka=KafkaClient((*others, nobody))))
    begun = time.monotonic()
    with pytest.raises(TransientError, match="Kafka does not answer"):
        observer.look()
    assert time.monotonic() - begun < 30


def test_a_snowflake_that_does_not_answer_is_a_transient_fault(stack, context, new_observer, monkeypatch) -> None:
    monkeypatch.setattr("firn.snowflake.connection.LOGIN_TIMEOUT_SECONDS", 2)
    observer = new_observer(replace(context, login=replace(login_of(stack.settings), port=closed_port())))
    with pytest.raises(TransientError, match="Snowflake does not answer"):
        observer.look()
