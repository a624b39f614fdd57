"""Dead letters against the embedded Kafka: byte for byte, exactly once, whatever happens between two tries."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError
from confluent_kafka import Message as DeadLetter
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.connector.config import ErrorsConfig, SinkConfig
from firn.dead_letters import offset_list
from firn.dead_letters.envelope import NAMES, without_envelope
from firn.dead_letters.offset_list import LIMIT, GrowingList, UnreadableError, read_list, write_list
from firn.dead_letters.published import PartitionLetters, forget_published, published_letters
from firn.dead_letters.queue import REMEDIES, DeadLetterQueue, dead_letter_topic, queue_of
from firn.dead_letters.topic import ensure_topic
from firn.errors import ConfigError, FirnError, PrivilegeError, TerminalError, TransientError
from firn.kafka import cluster
from firn.kafka.faults import ConnectionFaults
from firn.kafka.message_columns import RECORDS
from firn.kafka.partitions import TopicPartition as Where
from firn.kafka.producer_faults import ProducerFaults
from firn.kafka.transactional_producer import CommittedOffset, TransactionalProducer
from firn.settings import PROJECT_ROOT
from spark_jobs.sink.dead_letters.writer import DeadLetterWriter
from spark_jobs.sink.values.bad_records import MALFORMED_AVRO, WRONG_MAGIC, BadRecord
from tests.support.kafka import Topic
from tests.support.sinks import wait_until

pytestmark = pytest.mark.stack

TOPIC_ID, LEDGER = "AAAAAAAAAAAAAAAAAAAA_-", "0a1b2c3d4e5f"


@pytest.fixture
def source(stack) -> Topic:
    return Topic(stack.settings, "dead-source", partitions=1)


@pytest.fixture
def letters(stack) -> Topic:
    return Topic(stack.settings, "dead-letters", partitions=1)


@pytest.fixture
def queue(source: Topic, letters: Topic) -> DeadLetterQueue:
    config = SinkConfig(f"sink-{uuid.uuid4().hex[:8]}", topics=(source.name,))
    errors = ErrorsConfig("all", dead_letter_topic=letters.name, dead_letter_headers=True)
    made = queue_of(replace(config, errors=errors), source.client, LEDGER)
    assert made is not None
    return made


def records(offsets: Iterable[int], **columns: object) -> pa.RecordBatch:
    """Records as the reader gives them out; `columns` gives all of them another key, value, ..."""
    own = {"timestamp": 1_700_000_000_123, "timestamp_type": 0, "key": b"k", "value": b"v", "headers": None} | columns
    return pa.RecordBatch.from_pylist([own | {"offset": offset} for offset in offsets], schema=RECORDS)


def all_bad(count: int) -> list[BadRecord]:
    return [BadRecord(row, WRONG_MAGIC, "first byte 1") for row in range(count)]


def boxed(
    queue: DeadLetterQueue, source: Topic, seen: PartitionLetters, folder: Path, *offsets: int
) -> DeadLetterWriter:
    box = DeadLetterWriter(queue, Where(source.name, 0), TOPIC_ID, seen, folder)
    box.add(records(offsets), all_bad(len(offsets)))
    return box


def out(queue: DeadLetterQueue, source: Topic, next_offset: int = 0) -> PartitionLetters:
    """What the driver finds after a claim at `next_offset`."""
    where = Where(source.name, 0)
    return published_letters(queue.client, queue.ledger_id, queue.sink, {where: (TOPIC_ID, next_offset)})[where]


def offsets_of(found: Iterable[DeadLetter]) -> list[int]:
    """The source offsets that letters name."""
    return [int(dict(letter.headers() or [])["__connect.errors.offset"]) for letter in found]


@given(st.sets(st.integers(0, 2**62) | st.integers(0, 500), max_size=60))
@settings(max_examples=60, deadline=None)
def test_a_list_of_offsets_survives_its_text(offsets: set[int]) -> None:
    topic_id, found = read_list(write_list(TOPIC_ID, offsets))
    assert (topic_id, found.tolist()) == (TOPIC_ID, sorted(offsets))


@pytest.mark.parametrize("text", ["", "1", "1:id:", "2:id:eJwDAAAAAAE=", "1:id:not base64", "1:id:AAAA", "café"])
def test_what_is_no_list_is_unreadable(text: str) -> None:
    with pytest.raises(UnreadableError):
        read_list(text)


def test_a_list_that_was_cut_off_is_unreadable() -> None:
    whole = write_list(TOPIC_ID, range(0, 90_000, 77))
    with pytest.raises(UnreadableError):
        read_list(whole[: len(whole) // 8 * 4])


@given(st.lists(st.integers(1, 5000), min_size=1, max_size=6000), st.integers(0, 2**40))
@settings(max_examples=15, deadline=None)
def test_room_is_what_the_group_can_still_list(steps: list[int], first: int) -> None:
    offsets = [first]
    for step in steps:
        offsets.append(offsets[-1] + step)
    queue = DeadLetterQueue(LEDGER, "s", "t", True, None, "v", "k")  # type: ignore[arg-type] - nothing is sent
    room = DeadLetterWriter(queue, Where("t", 0), TOPIC_ID, PartitionLetters(-1, frozenset()), Path()).room(offsets)
    assert room >= 1
    assert len(write_list(TOPIC_ID, offsets[:room])) <= LIMIT
    if room < len(offsets):
        assert len(write_list(TOPIC_ID, offsets[: room + 40])) > LIMIT - 40


BROKERS_LIMIT = 4096


def nowhere(seen: PartitionLetters, folder: Path) -> DeadLetterWriter:
    """A box whose letters are not sent."""
    queue = DeadLetterQueue(LEDGER, "s", "t", True, None, "v", "k")  # type: ignore[arg-type]
    return DeadLetterWriter(queue, Where("t", 0), TOPIC_ID, seen, folder)


steps = st.lists(st.integers(1, 3) | st.integers(1, 10**6), max_size=900)


@given(steps, st.lists(steps, max_size=6))
@settings(max_examples=25, deadline=None)
def test_a_list_that_grew_is_the_list_of_all_and_its_room_is_used(earlier: list[int], batches: list[list[int]]) -> None:
    """Whatever was out before, and in whichever batches the rest comes: the broker takes the list, and it is full."""
    before = set(np.cumsum(earlier, dtype=np.int64).tolist())
    box, last, mine = nowhere(PartitionLetters(-1, frozenset(before)), Path(tempfile.gettempdir())), -1, set()
    for batch in batches:
        offsets = [offset for offset in (last + np.cumsum(batch, dtype=np.int64)).tolist() if offset not in before]
        room = box.room(offsets)
        assert room == len(offsets) or len(write_list(TOPIC_ID, {*before, *mine, *offsets[: room + 40]})) > LIMIT - 60
        box.add(records(offsets[:room]), all_bad(room))
        mine.update(offsets[:room])
        last = max([last, *offsets[:room]])
        assert len(box._list.text()) <= max(LIMIT, len(write_list(TOPIC_ID, before)) + 16) or len(mine) == 1
        if room < len(offsets):
            break
    assert read_list(box._list.text())[1].tolist() == sorted(before | mine)


def test_a_topic_of_nothing_but_junk_costs_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """500,000 bad records in batches of 1,000: each is packed twice (is there room, and then for good), no more."""
    packed: list[int] = []
    varints = offset_list._varints
    monkeypatch.setattr(offset_list, "_varints", lambda numbers: packed.append(len(numbers)) or varints(numbers))
    grown = GrowingList(TOPIC_ID)
    for first in range(0, 500_000, 1000):
        assert len(grown.text(range(first, first + 1000))) <= LIMIT
        grown.add(range(first, first + 1000))
    assert sum(packed) == 2 * 500_000
    assert read_list(grown.text())[1].tolist() == list(range(500_000))


def test_offsets_that_fall_are_no_list() -> None:
    grown = GrowingList(TOPIC_ID)
    grown.add([5, 9])
    with pytest.raises(ValueError, match="7 comes after 9"):
        grown.add([7])


def test_a_full_list_still_takes_one_letter(tmp_path: Path) -> None:
    """Otherwise a range whose first record is newly bad could never pass."""
    many = sorted(random.Random(4).sample(range(10_000, 10**9), 3000))
    queue = DeadLetterQueue(LEDGER, "s", "t", True, None, "v", "k")  # type: ignore[arg-type]
    where = Where("t", 0)
    full = many[: DeadLetterWriter(queue, where, TOPIC_ID, PartitionLetters(-1, frozenset()), tmp_path).room(many)]
    assert 100 < len(full) < len(many)
    box = DeadLetterWriter(queue, where, TOPIC_ID, PartitionLetters(full[-1] + 1, frozenset(full)), tmp_path)
    newly_bad = [3, 77, 800, 9000]
    assert 1 <= box.room(newly_bad) < 4
    box.add(records(newly_bad[:3]), all_bad(3))
    assert box.room([9_500]) == 0


def test_letters_are_their_records_byte_for_byte(queue, source: Topic, letters: Topic, tmp_path: Path) -> None:
    own = [{"key": "a", "value": b"\x00\xff"}, {"key": "a", "value": None}, {"key": "é", "value": b""}]
    box = DeadLetterWriter(queue, Where(source.name, 0), TOPIC_ID, PartitionLetters(-1, frozenset()), tmp_path)
    box.add(records([5], key=None, value=b"\x00\xfe" * 3, headers=own), [BadRecord(0, MALFORMED_AVRO, "ends early")])
    box.add(records([7, 8], key=b"", value=None, timestamp=0), [BadRecord(1, WRONG_MAGIC, "first byte 7", in_key=True)])
    assert box.publish(9)[:2] == (2, 9)
    first, second = letters.read()
    assert (first.key(), first.value(), first.timestamp()[1]) == (None, b"\x00\xfe" * 3, 1_700_000_000_123)
    assert first.headers()[:3] == [("a", b"\x00\xff"), ("a", None), ("é", b"")]
    assert without_envelope(first.headers()) == first.headers()[:3]
    assert (second.key(), second.value(), second.timestamp()[1]) == (b"", None, 1)  # librdkafka cannot send 0
    assert [name for name, _ in second.headers()] == list(NAMES)
    assert dict(first.headers()[3:]) == {
        "__connect.errors.topic": source.name.encode(),
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"5",
        "__connect.errors.connector.name": queue.sink.encode(),
        "__connect.errors.task.id": b"0",
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.class.name": b"io.confluent.connect.avro.AvroConverter",
        "__connect.errors.exception.class.name": b"org.apache.kafka.connect.errors.DataException",
        "__connect.errors.exception.message": b"malformed_avro: ends early",
        "__connect.errors.exception.stacktrace": (
            b"org.apache.kafka.connect.errors.DataException: malformed_avro: ends early"
        ),
    }
    context = dict(second.headers())
    assert context["__connect.errors.stage"] == b"KEY_CONVERTER"
    assert context["__connect.errors.class.name"] == b"org.apache.kafka.connect.storage.StringConverter"


def test_without_context_headers_a_letter_is_the_record_alone(queue, source, letters, tmp_path: Path) -> None:
    plain = replace(queue, context_headers=False)
    boxed(plain, source, PartitionLetters(-1, frozenset()), tmp_path, 3).publish(4)
    assert [(letter.key(), letter.value(), letter.headers()) for letter in letters.read()] == [(b"k", b"v", None)]


def test_a_letter_of_a_letter_keeps_the_first_ones_headers(queue, source, letters, tmp_path: Path) -> None:
    old = [{"key": name, "value": b"old"} for name in NAMES]
    box = DeadLetterWriter(queue, Where(source.name, 0), TOPIC_ID, PartitionLetters(-1, frozenset()), tmp_path)
    box.add(records([3], headers=old), all_bad(1))
    box.publish(4)
    headers = letters.read()[0].headers()
    assert headers[: len(NAMES)] == [(name, b"old") for name in NAMES]
    assert dict(headers)["__connect.errors.offset"] == b"3"
    assert without_envelope(headers) == [(name, b"old") for name in NAMES]


def test_a_replayed_range_publishes_only_what_is_newly_bad(queue, source, letters, tmp_path: Path) -> None:
    """Offset 11 was judged late: good at first, bad the second time; 10 and 12 the other way round change nothing."""
    assert out(queue, source) == PartitionLetters(-1, frozenset(), "")
    boxed(queue, source, out(queue, source), tmp_path, 10, 12).publish(20)
    replayed = out(queue, source, next_offset=5)
    assert (replayed.group_offset, replayed.published) == (20, {10, 12})
    assert boxed(queue, source, replayed, tmp_path, 10, 11).publish(12) == (1, 20, [11])
    again = out(queue, source, next_offset=5)
    assert (again.group_offset, again.published) == (20, {10, 11, 12})
    assert out(queue, source, next_offset=11).published == {11, 12}
    assert boxed(queue, source, again, tmp_path).publish(20) == (0, 20, [])
    assert offsets_of(letters.read()) == [10, 12, 11]


def test_batches_of_one_epoch_follow_each_other_without_asking_again(queue, source, letters, tmp_path: Path) -> None:
    boxed(queue, source, out(queue, source), tmp_path, 1).publish(2)
    boxed(queue, source, PartitionLetters(2, frozenset()), tmp_path, 6).publish(7)
    assert offsets_of(letters.read()) == [1, 6]
    assert out(queue, source, 2) == replace(out(queue, source, 2), group_offset=7, published=frozenset({6}))


def test_who_planned_with_an_older_picture_publishes_nothing(queue, source, letters, tmp_path: Path) -> None:
    seen = out(queue, source)
    boxed(queue, source, seen, tmp_path, 4).publish(9)
    with pytest.raises(TransientError):
        boxed(queue, source, seen, tmp_path, 4).publish(9)
    replayed = out(queue, source)
    boxed(queue, source, replayed, tmp_path, 5).publish(9)
    with pytest.raises(TransientError):  # the same offset, another list
        boxed(queue, source, replayed, tmp_path, 6).publish(9)
    assert offsets_of(letters.read()) == [4, 5]


def test_a_run_that_lost_the_sink_publishes_nothing(queue, source, letters, tmp_path: Path) -> None:
    def lost() -> None:
        raise TerminalError("a newer run has claimed")

    with pytest.raises(TerminalError):
        boxed(queue, source, out(queue, source), tmp_path, 4).publish(9, lost)
    assert letters.read() == []
    assert out(queue, source) == PartitionLetters(-1, frozenset(), "")


def test_a_claim_ends_the_transaction_of_a_zombie(queue, source, letters, tmp_path: Path) -> None:
    """The zombie stands between its last request and its commit when the newer run claims."""
    found: list[PartitionLetters] = []

    def claimed_meanwhile() -> None:
        found.append(out(queue, source))

    with pytest.raises(TransientError):
        boxed(queue, source, out(queue, source), tmp_path, 4).publish(9, claimed_meanwhile)
    assert found == [PartitionLetters(-1, frozenset(), "")]
    boxed(queue, source, found[0], tmp_path, 4).publish(9)
    assert offsets_of(letters.read()) == [4]


KILLED = """
import pickle, sys
from pathlib import Path
from spark_jobs.sink.dead_letters.writer import DeadLetterWriter
from firn.dead_letters.published import PartitionLetters
from firn.kafka.partitions import TopicPartition
from tests.firn.dead_letters.test_dead_letters import TOPIC_ID, all_bad, records

queue, topic = pickle.load(sys.stdin.buffer)
box = DeadLetterWriter(queue, TopicPartition(topic, 0), TOPIC_ID, PartitionLetters(-1, frozenset()), Path(sys.argv[1]))
box.add(records(range(500)), all_bad(500))

def wait_for_the_kill():
    Path(sys.argv[1], "ready").touch()
    sys.stdin.buffer.read()
    import signal
    signal.pause()

box.publish(500, wait_for_the_kill)
"""


def test_a_task_that_is_killed_before_its_commit_leaves_nothing(queue, source, letters, tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", KILLED, tmp_path], cwd=PROJECT_ROOT, stdin=subprocess.PIPE)
    try:
        assert child.stdin is not None
        child.stdin.write(pickle.dumps((queue, source.name)))
        child.stdin.close()
        wait_until((tmp_path / "ready").exists, what="the child has produced")
        os.kill(child.pid, signal.SIGKILL)
    finally:
        child.kill()
        child.wait(10)
    assert letters.read() == []
    assert out(queue, source) == PartitionLetters(-1, frozenset(), "")
    boxed(queue, source, out(queue, source), tmp_path, 4).publish(9)
    assert offsets_of(letters.read()) == [4]


def test_metadata_of_a_topic_that_was_made_again_is_nothing(queue, source, letters, tmp_path: Path) -> None:
    boxed(queue, source, out(queue, source), tmp_path, 4).publish(9)
    where = Where(source.name, 0)
    found = published_letters(queue.client, queue.ledger_id, queue.sink, {where: ("another-topic-id", 0)})[where]
    assert (found.group_offset, found.published) == (9, frozenset())
    DeadLetterWriter(queue, where, "another-topic-id", found, tmp_path)


def change(queue: DeadLetterQueue, source: Topic, offset: int, metadata: str) -> None:
    where = (source.name, 0)
    with TransactionalProducer(source.client, "somebody-else", queue.group, where, queue.topic) as transactions:
        transactions.send([], CommittedOffset(offset, metadata), lambda: None)


def test_metadata_that_nobody_can_read_stops_the_sink(queue, source: Topic) -> None:
    change(queue, source, 30, "who knows")
    with pytest.raises(TerminalError) as stopped:
        out(queue, source, next_offset=20)
    assert queue.group in stopped.value.where
    assert "--reset" in stopped.value.next_step
    assert out(queue, source, next_offset=30).published == frozenset()
    forget_published(source.client, queue.ledger_id, queue.sink, {Where(source.name, 0): 20})
    assert out(queue, source, next_offset=20) == PartitionLetters(20, frozenset(), "")


def test_a_reset_of_a_sink_without_letters_changes_no_group(queue, source: Topic) -> None:
    forget_published(source.client, queue.ledger_id, queue.sink, {Where(source.name, 0): 20})
    assert out(queue, source) == PartitionLetters(-1, frozenset(), "")


def test_many_letters_are_one_transaction(queue, source, letters, tmp_path: Path) -> None:
    box = DeadLetterWriter(queue, Where(source.name, 0), TOPIC_ID, out(queue, source), tmp_path)
    for first in range(0, 6000, 2000):
        offsets = range(first, first + 2000)
        assert box.room(offsets) == 2000
        box.add(records(offsets, value=b"x" * 200), all_bad(2000))
    assert box.publish(6000) == (6000, 6000, list(range(6000)))
    assert offsets_of(letters.read()) == list(range(6000))
    assert len(out(queue, source).published) == 6000


def test_a_record_too_large_for_the_topic_names_the_parameter(queue, source, letters, tmp_path: Path) -> None:
    box = DeadLetterWriter(queue, Where(source.name, 0), TOPIC_ID, out(queue, source), tmp_path)
    box.add(records([3], value=os.urandom(2_000_000)), all_bad(1))
    with pytest.raises(ConfigError) as refused:
        box.publish(4)
    assert "max.message.bytes" in refused.value.next_step
    assert "offset 3" in refused.value.what
    assert letters.read() == []
    assert out(queue, source) == PartitionLetters(-1, frozenset(), "")


@pytest.fixture
def absent(queue: DeadLetterQueue, letters: Topic) -> Iterator[DeadLetterQueue]:
    """A queue whose topic does not exist."""
    named = replace(queue, topic=letters.name + "-absent")
    yield named
    if cluster.find_topics(letters.admin, [named.topic]):
        letters.admin.client.delete_topics([named.topic])[named.topic].result(30)


def test_the_topic_is_made_for_records_as_large_and_old_as_the_sources(absent, stack, tmp_path: Path) -> None:
    config = {"max.message.bytes": "3000000", "retention.ms": "9000000000"}
    large = Topic(stack.settings, "dead-large", partitions=1, config=config)
    ensure_topic(large.admin, absent.sink, absent.topic, -1, [large.name])
    ensure_topic(large.admin, absent.sink, absent.topic, 3, [large.name])  # it exists: nothing is asked for
    made = cluster.find_topics(large.admin, [absent.topic])[absent.topic]
    assert (made.partitions, made.replication_factor) == (1, 1)
    box = DeadLetterWriter(absent, Where(large.name, 0), TOPIC_ID, PartitionLetters(-1, frozenset()), tmp_path)
    box.add(records([3], value=os.urandom(2_900_000), timestamp=1_000), all_bad(1))
    assert box.publish(4) == (1, 4, [3])


def test_more_replicas_than_brokers_name_the_parameter(absent, source: Topic) -> None:
    with pytest.raises(ConfigError) as refused:
        ensure_topic(source.admin, absent.sink, absent.topic, 3, [source.name])
    assert "errors.deadletterqueue.topic.replication.factor" in refused.value.where


@pytest.mark.parametrize("sources", [{"topics": ("orders", "dlq")}, {"topics_regex": "d.*"}])
def test_a_sink_never_reads_its_own_letters(sources: dict) -> None:
    config = SinkConfig("s", errors=ErrorsConfig("all", dead_letter_topic="dlq"), **sources)
    with pytest.raises(ConfigError):
        dead_letter_topic(config)


@pytest.mark.parametrize("errors", [ErrorsConfig("none", dead_letter_topic="dlq"), ErrorsConfig("all")])
def test_without_tolerance_or_topic_there_is_no_queue(source: Topic, errors: ErrorsConfig) -> None:
    assert queue_of(SinkConfig("s", topics=("t",), errors=errors), source.client, LEDGER) is None


def test_sinks_of_one_name_in_two_ledgers_do_not_meet(queue: DeadLetterQueue, source: Topic, tmp_path: Path) -> None:
    """Two accounts may share a cluster: neither knows the other's letters, nor ends its transactions."""
    other = replace(queue, ledger_id="f5e4d3c2b1a0")
    assert boxed(queue, source, out(queue, source), tmp_path, 3, 5).publish(6).letters == 2
    assert out(other, source) == PartitionLetters(metadata="")
    assert boxed(other, source, out(other, source), tmp_path, 4).publish(5).letters == 1
    assert (out(queue, source).published, out(other, source).published) == ({3, 5}, {4})
    forget_published(source.client, other.ledger_id, other.sink, {Where(source.name, 0): 0})
    assert out(queue, source).published == {3, 5}


@pytest.mark.parametrize(
    ("code", "kind", "word"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, PrivilegeError, "WRITE and DESCRIBE on topic dlq"),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, PrivilegeError, "READ on group firn-dlq-s"),
        (KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, PrivilegeError, "begin with firn-dlq-s-"),
        (KafkaError._UNKNOWN_TOPIC, ConfigError, "Create the topic"),
        (KafkaError.OFFSET_METADATA_TOO_LARGE, ConfigError, "offset.metadata.max.bytes"),
        (KafkaError.INVALID_PRODUCER_EPOCH, TransientError, "the newer one goes on"),
        (KafkaError.COORDINATOR_NOT_AVAILABLE, TransientError, ""),
        (KafkaError.NOT_ENOUGH_REPLICAS, TransientError, ""),
    ],
)
def test_what_kafka_refuses_is_told_with_the_next_step(code: int, kind: type[FirnError], word: str) -> None:
    faults = ProducerFaults(ConnectionFaults("broker:9092"), "dlq", "firn-dlq-s", "firn-dlq-s-id-0")
    explained = faults.explain(KafkaError(code), "publish")
    assert isinstance(explained, kind)
    assert word in explained.next_step


def test_an_absent_dead_letter_topic_is_created_by_its_sink() -> None:
    faults = ProducerFaults(ConnectionFaults("broker:9092"), "dlq", "firn-dlq-s", "firn-dlq-s-id-0", REMEDIES)
    absent = faults.explain(KafkaError(KafkaError._UNKNOWN_TOPIC), "publish")
    assert "when it starts" in absent.next_step


def test_a_queue_travels_and_shows_no_credential(queue: DeadLetterQueue, source: Topic) -> None:
    assert pickle.loads(pickle.dumps(queue)) == queue
    assert source.client.librdkafka()["sasl.password"] not in repr(queue)
