"""A continuous run as a whole, on the embedded stack: exactly once through kills, faults, and changes of any kind."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest
from confluent_kafka.admin import NewPartitions

from firn.errors import BadRecordError, FencedError
from firn.kafka.partitions import TopicPartition
from firn.ledger.positions import LostPositionError, Position
from firn.ledger.table import LedgerTable
from firn.settings import Settings
from firn.sinks.channel_folding import ChannelFolder
from firn.sinks.context import SinkContext
from firn.snowflake.connection import connect
from spark_jobs.sink.run import SinkRun
from tests.spark_jobs.sink.test_run import running
from tests.support.kafka import Topic
from tests.support.sinks import JSON, committed, landed, sql, wait_until
from tests.support.streaming_faults import StreamingFaults

pytestmark = pytest.mark.stack

DAEMON = "spark_jobs.sink.task.daemon"
NewRun = Callable[..., SinkRun]
FaultsOf = Callable[[Topic], StreamingFaults]
LETTERS = {
    "errors__tolerance": "all",
    "errors__deadletterqueue__topic__replication__factor": "1",
    "errors__deadletterqueue__context__headers__enable": "true",
}


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [json.dumps({"id": number}).encode() for number in range(first, first + count)]


@pytest.fixture
def new_stream(new_run: NewRun) -> NewRun:
    """Runs of the method, of JSON values."""

    def make(topic: Topic, **parameters: object) -> SinkRun:
        return new_run(topic, **{"snowflake__ingestion__method": "SNOWPIPE_STREAMING", **JSON, **parameters})

    return make


@pytest.fixture
def faults_of(settings: Settings) -> Iterator[FaultsOf]:
    """Faults of one topic's pipe."""
    made: list[StreamingFaults] = []

    def of(topic: Topic) -> StreamingFaults:
        made.append(StreamingFaults(settings, f"{topic.table}-STREAMING"))
        return made[-1]

    yield of
    for each in made:
        each.clear()
        each.set(commit_delay=0.0)


@contextmanager
def following(new_stream: NewRun, topic: Topic, **parameters: object) -> Iterator[SinkRun]:
    """A run that goes on, stopped at the end of the block."""
    stop = threading.Event()
    run = new_stream(topic, once=False, stop=stop, **parameters)
    with running(run, stop) as done:
        yield run
        stop.set()
        done.result(60)


def all_of(count: int, partition: int = 0) -> list[tuple[int, int]]:
    return [(partition, number) for number in range(count)]


def python_processes() -> tuple[list[psutil.Process], list[psutil.Process]]:
    """(the daemons of Spark's Python workers, the workers), of this process's Spark."""
    daemons, workers = list[psutil.Process](), list[psutil.Process]()
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it ended just now
            if DAEMON in each.cmdline():
                (workers if DAEMON in psutil.Process(each.ppid()).cmdline() else daemons).append(each)
    return daemons, workers


def set_back(context: SinkContext, where: TopicPartition, offset: int) -> None:
    """A reset of one partition, as `firn sink offsets` does it."""
    ledger = LedgerTable(context.namespace, context.config.name)
    with connect(context.login) as connection:
        fold = ChannelFolder(context, ledger.ledger_id(connection) or "")
        position = Position(offset, ledger.positions(connection)[where].topic_id)
        ledger.reset(connection, {where: position}, running_within=0, fold=fold)


def kill_tasks() -> None:
    """SIGKILL to the workers; their daemon lives."""
    for worker in python_processes()[1]:
        worker.kill()


def kill_daemon() -> None:
    """SIGKILL to the daemon, and wait until its workers have ended: nobody else ends them."""
    daemons, workers = python_processes()
    for each in daemons:
        each.kill()
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert not alive


def test_what_is_available_is_taken_once_and_the_ledger_stands_there(settings: Settings, new_stream: NewRun) -> None:
    topic = Topic(settings, "stream", partitions=3)
    topic.send(numbers(100))
    topic.send([b"1", None, b"3"], partition=1)
    assert new_stream(topic).run().records == 103
    assert landed(settings, topic) == [*all_of(100), *all_of(3, 1)]
    assert committed(settings, topic) == {0: 100, 1: 3, 2: 0}
    again = new_stream(topic).run()
    assert (again.records, again.batches) == (0, 0)
    assert [each.lag for each in again.partitions] == [0, 0, 0]


def test_records_become_visible_while_the_run_lives_and_a_stop_takes_seconds(
    settings: Settings, new_stream: NewRun
) -> None:
    topic = Topic(settings, "live", partitions=1)
    topic.send(numbers(5))
    with following(new_stream, topic) as run:
        wait_until(lambda: run.report.records == 5, what="the first records")
        for first in range(5, 25, 5):
            begun = time.monotonic()
            topic.send(numbers(5, first))
            wait_until(lambda first=first: len(landed(settings, topic)) == first + 5, seconds=10)  # type: ignore[misc]
            assert time.monotonic() - begun < 8  # on a machine that others use as well
        wait_until(lambda: run.report.records == 25, what="their report")
        begun = time.monotonic()
    assert time.monotonic() - begun < 30
    assert committed(settings, topic) == {0: 25}
    assert landed(settings, topic) == all_of(25)


@pytest.mark.full
def test_a_killed_task_loses_and_doubles_nothing(settings: Settings, new_stream: NewRun, faults_of: FaultsOf) -> None:
    topic = Topic(settings, "killed", partitions=2)
    faults = faults_of(topic)
    topic.send(numbers(10))
    topic.send(numbers(10), partition=1)
    with following(new_stream, topic) as run:
        wait_until(lambda: run.report.records == 20, what="the first records")
        for round_, kill in enumerate([kill_tasks, kill_daemon], 1):
            faults.set(commit_delay=1.0)  # so that rows are on their way
            topic.send(numbers(200, 10))
            topic.send(numbers(50, 10), partition=1)
            time.sleep(0.3)
            kill()
            faults.set(commit_delay=0.0)
            expected = 20 + round_ * 250
            wait_until(lambda n=expected: len(landed(settings, topic)) >= n, seconds=90)  # type: ignore[misc]
    assert landed(settings, topic) == [*all_of(410), *all_of(110, 1)]
    assert committed(settings, topic) == {0: 410, 1: 110}


@pytest.mark.parametrize(
    "kind", ["lost answer", *(pytest.param(each, marks=pytest.mark.full) for each in ("stale", "429", "500", "cut"))]
)
def test_faults_of_the_service_lose_and_double_nothing(
    settings: Settings, new_stream: NewRun, faults_of: FaultsOf, kind: str
) -> None:
    fault = {
        "stale": {"status": 400, "code": "STALE_CONTINUATION_TOKEN_SEQUENCER", "times": 2},
        "429": {"status": 429, "times": 2},
        "500": {"status": 500, "times": 2},
        "cut": {"cut": True, "times": 2},
        "lost answer": {"cut": True, "apply": True, "times": 2},
    }[kind]
    topic = Topic(settings, "faulty", partitions=1)
    faults = faults_of(topic)
    topic.send(numbers(500))
    faults.add(api="append", **fault)
    before = faults.fired("append")
    assert new_stream(topic).run().partitions[0].lag == 0
    assert faults.fired("append") >= before + 1
    assert landed(settings, topic) == all_of(500)


def test_a_bad_record_stops_the_run_right_before_it(settings: Settings, new_stream: NewRun) -> None:
    topic = Topic(settings, "stops")
    topic.send([*numbers(4), b"{broken", *numbers(2)])
    topic.send(numbers(3), partition=1)
    with pytest.raises(BadRecordError, match=f"{topic.name}-0 offset 4: invalid_json"):
        new_stream(topic).run()
    assert landed(settings, topic) == [*all_of(4), *all_of(3, 1)]
    assert committed(settings, topic) == {0: 4, 1: 3}


@pytest.mark.full
def test_bad_records_become_letters_once_whatever_is_killed(
    settings: Settings, new_stream: NewRun, faults_of: FaultsOf
) -> None:
    topic, letters = Topic(settings, "letters", partitions=1), Topic(settings, "letters-dlq", partitions=1)
    faults = faults_of(topic)
    given = {**LETTERS, "errors__deadletterqueue__topic__name": letters.name}
    topic.send([*numbers(5), b"{bad 5", *numbers(4), b"{bad 10"])
    faults.set(commit_delay=2.0)
    with following(new_stream, topic, **given) as run:
        wait_until(lambda: len(letters.read()) == 2, what="letters")
        kill_tasks()  # published, and not all rows durable
        faults.set(commit_delay=0.0)
        topic.send([*numbers(2), b"{bad 13"])
        wait_until(lambda: len(landed(settings, topic)) == 11, seconds=90, what="rows")
        wait_until(lambda: run.report.dead_letters >= 1, what="the last letter's report")
    assert [offset for _, offset in landed(settings, topic)] == [0, 1, 2, 3, 4, 6, 7, 8, 9, 11, 12]
    assert [message.value() for message in letters.read()] == [b"{bad 5", b"{bad 10", b"{bad 13"]
    assert committed(settings, topic) == {0: 14}


def test_rows_that_snowflake_refuses_end_the_run_with_error_5030(
    settings: Settings, new_stream: NewRun, faults_of: FaultsOf
) -> None:
    topic = Topic(settings, "refused", partitions=1)
    faults = faults_of(topic)
    topic.send(numbers(10))
    faults.reject("$.RECORD_CONTENT.id", 4, message="the value does not fit")
    with pytest.raises(BadRecordError, match=r"ERROR_5030.*1 row of .*the value does not fit"):
        new_stream(topic).run()
    assert landed(settings, topic) == [(0, at) for at in range(10) if at != 4]
    assert committed(settings, topic) == {0: 0}


@pytest.mark.full
def test_refused_rows_that_ended_a_run_become_letters_of_the_next_one(
    settings: Settings, new_stream: NewRun, faults_of: FaultsOf
) -> None:
    """Their channel's token has passed them; the ledger has not, until they are accounted for."""
    topic = Topic(settings, "refused-before", partitions=1)
    faults = faults_of(topic)
    letters = Topic(settings, "refused-before-dlq", partitions=1)
    topic.send(numbers(30))
    faults.reject("$.RECORD_METADATA.offset", 3, 11, message="Numeric value is not recognized")
    with pytest.raises(BadRecordError, match="ERROR_5030"):
        new_stream(topic).run()
    faults.clear()
    report = new_stream(topic, errors__deadletterqueue__topic__name=letters.name, **LETTERS).run()
    assert (report.records, report.bad_records) == (28, 2)
    assert len(letters.read()) == 2
    assert landed(settings, topic) == [each for each in all_of(30) if each[1] not in (3, 11)]
    assert committed(settings, topic) == {0: 30}


@pytest.mark.full
def test_refused_rows_that_the_table_has_from_before_a_reset_are_no_letters(
    settings: Settings, new_stream: NewRun, faults_of: FaultsOf
) -> None:
    topic = Topic(settings, "refused-again", partitions=1)
    letters = Topic(settings, "refused-again-dlq", partitions=1)
    given = {**LETTERS, "errors__deadletterqueue__topic__name": letters.name}
    topic.send(numbers(10))
    assert new_stream(topic, **given).run().records == 10
    run = new_stream(topic, **given)
    set_back(run._context, TopicPartition(topic.name, 0), 5)
    topic.send(numbers(3, 10))
    faults_of(topic).reject("$.RECORD_CONTENT.id", 7, 11, message="the value does not fit")
    report = run.run()
    assert [message.value() for message in letters.read()] == [b'{"id": 11}'], "of 7 there is a row"
    assert landed(settings, topic) == sorted([*all_of(10), *((0, at) for at in (5, 6, 8, 9, 10, 12))])
    assert (report.records, report.bad_records) == (6, 1)
    assert committed(settings, topic) == {0: 13}
    assert new_stream(topic, **given).run().records == 0


def test_rows_that_snowflake_refuses_become_letters_once(
    settings: Settings, new_stream: NewRun, faults_of: FaultsOf
) -> None:
    topic, letters = Topic(settings, "rejected", partitions=2), Topic(settings, "rejected-dlq", partitions=1)
    faults = faults_of(topic)
    given = {**LETTERS, "errors__deadletterqueue__topic__name": letters.name}
    topic.send([*numbers(6), b"{bad 6", *numbers(3, 7)])
    topic.send(numbers(5, 100), partition=1)
    faults.reject("$.RECORD_CONTENT.id", 4, 8, message="the value does not fit")
    report = new_stream(topic, **given).run()
    assert landed(settings, topic) == [*((0, at) for at in range(10) if at not in (4, 6, 8)), *all_of(5, 1)]
    assert sorted(message.value() for message in letters.read()) == [b'{"id": 4}', b'{"id": 8}', b"{bad 6"]
    assert committed(settings, topic) == {0: 10, 1: 5}
    assert (report.bad_records, report.dead_letters) == (3, 3)
    assert report.reasons == {"invalid_json": 1, "rejected_by_snowflake": 2}
    assert report.records == 12
    topic.send(numbers(2, 20))  # the baseline is theirs: nothing is compared again
    assert new_stream(topic, **given).run().records == 2
    assert len(letters.read()) == 3


@pytest.mark.full
def test_an_idle_group_ends_and_starts_again(
    settings: Settings, new_stream: NewRun, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "spark_jobs.sink.continuous.run")
    topic = Topic(settings, "idle", partitions=1)
    topic.send(numbers(3))
    with following(new_stream, topic, firn__streaming__idle__seconds="1") as run:
        wait_until(lambda: "task 1 has ended" in caplog.text, what="the task ends")
        assert run.report.records == 3
        epoch = run.report.epoch
        topic.send(numbers(3, 3))
        wait_until(lambda: run.report.records == 6, what="its records")
        assert "task 2" in caplog.text
        assert run.report.epoch == epoch
    assert landed(settings, topic) == all_of(6)


@pytest.mark.full
def test_columns_are_added_while_the_run_lives(settings: Settings, new_stream: NewRun) -> None:
    topic = Topic(settings, "grows", partitions=2)
    topic.send([b'{"a": 1}', b'{"a": 2}'])
    with following(new_stream, topic, snowflake__enable__schematization="true") as run:
        wait_until(lambda: run.report.records == 2, what="the first columns")
        topic.send([b'{"a": 3, "b": "x"}', b'{"a": 4}'])
        topic.send([b'{"a": 5, "c": true}'], partition=1)
        wait_until(lambda: run.report.records == 5, what="more columns")
        assert run.report.schema_changes >= 3
    rows = sql(settings, f"SELECT A, B, C FROM {topic.table} ORDER BY A")
    assert [(row["A"], row["B"], row["C"]) for row in rows] == [
        (1, None, None), (2, None, None), (3, "x", None), (4, None, None), (5, None, True),
    ]  # fmt: skip


@pytest.mark.full
def test_new_partitions_are_followed(settings: Settings, new_stream: NewRun) -> None:
    topic = Topic(settings, "widened", partitions=1)
    topic.send(numbers(3))
    with following(new_stream, topic, firn__topics__refresh__seconds="1") as run:
        wait_until(lambda: run.report.records == 3, what="the first records")
        topic.admin.client.create_partitions([NewPartitions(topic.name, 2)])[topic.name].result(30)
        topic.send(numbers(4), partition=1)
        wait_until(lambda: run.report.records == 7, what="those of the new partition")
    assert landed(settings, topic) == [*all_of(3), *all_of(4, 1)]


@pytest.mark.full
def test_a_topic_made_again_while_it_is_followed_is_never_taken_for_the_old_one(
    settings: Settings, new_stream: NewRun
) -> None:
    topic = Topic(settings, "again", partitions=1)
    topic.send(numbers(2))
    stop = threading.Event()
    run = new_stream(topic, once=False, stop=stop, firn__topics__refresh__seconds="3600")
    with running(run, stop) as done:
        wait_until(lambda: run.report.records == 2, what="the old topic's records")
        topic.delete()
        wait_until(topic.try_make, what="the topic is made again")
        topic.send(numbers(9))
        with pytest.raises(LostPositionError, match="deleted and made again"):
            done.result(90)
    assert landed(settings, topic) == all_of(2)


@pytest.mark.full
def test_the_newer_of_two_runs_wins_for_good(settings: Settings, new_stream: NewRun) -> None:
    topic = Topic(settings, "fenced", partitions=1)
    topic.send(numbers(2))
    stop = threading.Event()
    older = new_stream(topic, once=False, stop=stop)
    with running(older, stop) as done:
        wait_until(lambda: older.report.records == 2, what="the older run's records")
        assert new_stream(topic).run().epoch == older.report.epoch + 1
        topic.send(numbers(2, 2))
        with pytest.raises(FencedError):
            done.result(90)
    assert landed(settings, topic) == all_of(2)
    new_stream(topic).run()
    assert landed(settings, topic) == all_of(4)


@pytest.mark.full
def test_three_hundred_partitions_go_through_two_slots(settings: Settings, new_stream: NewRun) -> None:
    topic = Topic(settings, "wide", partitions=300)
    for partition in range(300):
        topic.send(numbers(3), partition=partition)
    report = new_stream(topic).run()
    assert report.records == 900
    assert landed(settings, topic) == [(partition, at) for partition in range(300) for at in range(3)]
