"""What happens to topics, partitions and offsets: while a sink runs, and while none does."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import NewPartitions

from firn.errors import FirnError
from firn.ledger.positions import LostPositionError
from firn.settings import Settings
from tests.support.faults import Interruption, Step
from tests.support.faults_checks import NewRun, exactly_once, going_on, until_records
from tests.support.faults_hooks import armed
from tests.support.kafka import Topic
from tests.support.sinks import JSON, committed, landed, wait_until

pytestmark = pytest.mark.stack

LATEST = {"consumer__override__auto__offset__reset": "latest"}
"""A first start begins at the end. Nothing that comes later may be taken for a first start."""
COMMITTED_ONLY = {"consumer__override__isolation__level": "read_committed"}


def grow(topic: Topic, partitions: int) -> None:
    topic.admin.client.create_partitions([NewPartitions(topic.name, partitions)])[topic.name].result(30)


def expire(topic: Topic, before: int) -> None:
    """Remove the records of partition 0 below `before`, as retention does."""
    where = TopicPartition(topic.name, 0, before)
    for future in topic.admin.client.delete_records([where]).values():
        future.result(30)


def transactional(topic: Topic, values: list[bytes], *, commit: bool) -> None:
    """Produce one transaction to partition 0, which ends with a marker that takes an offset."""
    producer = Producer(topic.client.librdkafka() | {"transactional.id": topic.name})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic.name, value, partition=0)
    assert producer.flush(30) == 0
    producer.commit_transaction(30) if commit else producer.abort_transaction(30)


@pytest.mark.both_methods
def test_partitions_that_are_added_are_read_from_their_beginning(settings: Settings, new_run: NewRun) -> None:
    topic = Topic(settings, "grow", partitions=1)
    new_run(topic, **LATEST, **JSON).run()
    grow(topic, 2)
    topic.send([b"1"] * 5, partition=1)
    with going_on(new_run, topic, **LATEST, **JSON) as (run, done):
        until_records(run, done, 5)
        grow(topic, 3)
        topic.send([b"2"] * 3, partition=2)
        until_records(run, done, 8)
    exactly_once(settings, topic, {1: 5, 2: 3})


@pytest.mark.both_methods
def test_a_topic_that_begins_to_match_while_no_sink_runs_is_read_from_its_beginning(
    settings: Settings, new_run: NewRun
) -> None:
    first = Topic(settings, "match")
    matching: dict[str, Any] = {
        "topics": None,
        "topics__regex": f"{first.name}.*",
        "snowflake__topic2table__map": f"{first.name}.*:{first.table}",
    }
    new_run(first, **matching, **LATEST, **JSON).run()
    later = Topic(settings, first.name, partitions=1)
    later.send([b"1"] * 5)
    assert new_run(first, **matching, **LATEST, **JSON).run().records == 5
    assert committed(settings, later) == {0: 5}


@pytest.mark.both_methods
def test_a_topic_that_is_deleted_while_it_is_read_ends_the_sink_with_its_name(
    settings: Settings, new_run: NewRun
) -> None:
    topic = Topic(settings, "deleted", partitions=1)
    topic.send([b"1"] * 5)
    with going_on(new_run, topic, **JSON) as (run, done):
        until_records(run, done, 5)
        topic.delete()
        with pytest.raises(FirnError, match=topic.name) as raised:
            done.result(60)
    assert raised.value.exit_code == 3
    assert landed(settings, topic) == [(0, n) for n in range(5)]


@pytest.mark.both_methods
@pytest.mark.parametrize("running", [False, pytest.param(True, marks=pytest.mark.full)], ids=["down", "running"])
def test_offsets_that_expired_before_they_were_read_stop_the_sink(
    settings: Settings, new_run: NewRun, running: bool
) -> None:
    topic = Topic(settings, "expired", partitions=1)
    topic.send([b"1"] * 5)
    new_run(topic, **JSON).run()
    topic.send([b"2"] * 10)
    if running:
        faults = (Interruption(Step.CLAIMED, lambda: expire(topic, 8)),)
    else:
        expire(topic, 8)
        faults = ()
    with armed(*faults), pytest.raises(LostPositionError, match=f"{topic.name}-0: offsets 5 to 7 expired"):
        new_run(topic, **JSON).run()
    assert landed(settings, topic) == [(0, n) for n in range(5)]
    assert committed(settings, topic) == {0: 5}


@pytest.mark.both_methods
@pytest.mark.parametrize(
    ("parameters", "rows"),
    [pytest.param({}, [0, 1, 2, 4, 5], marks=pytest.mark.full), (COMMITTED_ONLY, [4, 5])],
    ids=["uncommitted", "committed"],
)
def test_markers_of_transactions_hold_nothing_back(
    settings: Settings, new_run: NewRun, parameters: dict[str, str], rows: list[int]
) -> None:
    topic = Topic(settings, "markers", partitions=1)
    transactional(topic, [b"1", b"2", b"3"], commit=False)
    transactional(topic, [b"4", b"5"], commit=True)
    report = new_run(topic, **parameters, **JSON).run()
    assert landed(settings, topic) == [(0, n) for n in rows]
    assert (committed(settings, topic), [p.lag for p in report.partitions]) == ({0: 7}, [0])
    transactional(topic, [], commit=True)
    transactional(topic, [b"6"], commit=False)  # for read_committed, a range without any record
    report = new_run(topic, **parameters, **JSON).run()
    assert (committed(settings, topic), [p.lag for p in report.partitions]) == ({0: 9}, [0])
    assert len(landed(settings, topic)) == len(rows) + (0 if parameters else 1)


@pytest.mark.both_methods
@pytest.mark.full
def test_gaps_of_compaction_are_no_loss(settings: Settings, new_run: NewRun) -> None:
    often = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"}
    topic = Topic(settings, "compact", partitions=1, config=often | {"max.compaction.lag.ms": "100"})

    def has_gaps() -> bool:
        """After one more record, which closes the segment that the cleaner may then compact."""
        topic.send([b"1"], keys=["k"])
        offsets = [message.offset() or 0 for message in topic.read()]
        return len(offsets) <= offsets[-1]

    topic.send([b"1"] * 10, keys=["k"] * 10)
    wait_until(has_gaps, seconds=120, what="the cleaner has run")
    new_run(topic, **JSON).run()
    rows = [offset for _, offset in landed(settings, topic)]
    end = committed(settings, topic)[0]
    assert {message.offset() for message in topic.read()} <= set(rows) <= set(range(end))
    assert len(rows) == len(set(rows)) < end
    assert rows[-1] == end - 1
