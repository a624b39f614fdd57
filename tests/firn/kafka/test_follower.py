"""Many partitions followed by one consumer: exact whatever the log holds, paused and resumed, bounded in memory."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka import TopicPartition as KafkaOffset

from firn.errors import AuthenticationError, PrivilegeError
from firn.kafka import cluster, fetching
from firn.kafka.fetching import GoneRangeError
from firn.kafka.follower import FollowedBatch, Follower
from firn.kafka.partitions import TopicPartition
from firn.settings import Settings
from tests.firn.kafka.test_ranges import plain_client, with_properties
from tests.support.kafka import Topic
from tests.support.sinks import wait_until

SECONDS = 30.0


@pytest.fixture(scope="session")
def settings(stack) -> Settings:
    return stack.settings


class Followed:
    """A follower and all that it gave out."""

    def __init__(self, follower: Follower) -> None:
        self.follower = follower
        self.values: dict[TopicPartition, list[bytes]] = {}
        self.offsets: dict[TopicPartition, list[int]] = {}
        self.positions: dict[TopicPartition, int] = {}

    def poll(self, seconds: float = 0.2) -> list[FollowedBatch]:
        batches = self.follower.poll(seconds)
        for where, batch, position in batches:
            if batch is not None:
                self.values.setdefault(where, []).extend(batch["value"].to_pylist())
                self.offsets.setdefault(where, []).extend(batch["offset"].to_pylist())
            self.positions[where] = position
        return batches

    def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + SECONDS
        while not condition():
            assert time.monotonic() < deadline, (self.positions, self.offsets)
            self.poll()


@pytest.fixture
def follow() -> Iterator[Callable[..., Followed]]:
    made: list[Follower] = []

    def make(topic: Topic, positions: dict[TopicPartition, int], client: Any = None, **options: int) -> Followed:
        follower = Follower(client or topic.client, **options)
        made.append(follower)
        follower.assign(positions)
        return Followed(follower)

    yield make
    for each in made:
        each.close()


@pytest.mark.stack
def test_partitions_are_followed_from_their_offsets_and_what_comes_later_comes(settings: Settings, follow: Any) -> None:
    topic = Topic(settings, "follow", partitions=3)
    first, second, third = (TopicPartition(topic.name, number) for number in range(3))
    topic.send([b"a0", b"a1", b"a2"], partition=0)
    topic.send([b"b0"], partition=1)
    followed = follow(topic, {first: 1, second: 0, third: 0})
    followed.until(lambda: len(followed.offsets) == 2)
    topic.send([b"a3"], partition=0)
    topic.send([b"c0"], partition=2)
    followed.until(lambda: followed.positions == {first: 4, second: 1, third: 1})
    assert followed.values == {first: [b"a1", b"a2", b"a3"], second: [b"b0"], third: [b"c0"]}
    assert followed.offsets == {first: [1, 2, 3], second: [0], third: [0]}


@pytest.mark.stack
def test_positions_pass_markers_and_aborted_records(settings: Settings, follow: Any) -> None:
    topic = Topic(settings, "markers", partitions=1)
    where = TopicPartition(topic.name, 0)
    producer = Producer(topic.client.librdkafka() | {"transactional.id": topic.name})
    producer.init_transactions(30)

    def transaction(end: Callable[[float], object] | None) -> None:
        producer.begin_transaction()
        for _ in range(2):
            producer.produce(topic.name, b"x", partition=0)
        assert producer.flush(30) == 0
        if end:
            end(30)

    committed = with_properties(topic.client, isolation_level="read_committed")
    followed = follow(topic, {where: 0}, committed)
    transaction(producer.commit_transaction)  # 0 1, marker 2
    followed.until(lambda: followed.positions.get(where) == 3)
    transaction(producer.abort_transaction)  # 3 4, marker 5: no record
    followed.until(lambda: followed.positions.get(where) == 6)
    transaction(None)  # 6 7 are open
    for _ in range(5):
        followed.poll()
    assert followed.positions == {where: 6}
    producer.commit_transaction(30)
    followed.until(lambda: followed.positions.get(where) == 9)
    assert followed.offsets == {where: [0, 1, 6, 7]}


@pytest.mark.stack
def test_positions_pass_holes_of_compaction(settings: Settings, follow: Any) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "100",
        "delete.retention.ms": "0",
    }
    topic = Topic(settings, "holed", partitions=1, config=config)
    where = TopicPartition(topic.name, 0)
    for number in range(20):
        topic.send([b"%d" % number], keys=["same"])

    def compacted() -> bool:
        topic.send([b"last"], keys=["same"])
        end = cluster.offsets(topic.admin, [where], "latest")[where]
        followed = follow(topic, {where: 0})
        followed.until(lambda: followed.positions.get(where, 0) >= end)
        return len(followed.offsets[where]) < end and followed.offsets[where][-1] == end - 1

    wait_until(compacted, seconds=60, what="the broker compacts")


@pytest.mark.stack
def test_a_paused_partition_rests_and_goes_on_where_it_was(settings: Settings, follow: Any) -> None:
    topic = Topic(settings, "pause", partitions=2)
    busy, other = (TopicPartition(topic.name, number) for number in range(2))
    topic.send([b"%d" % number for number in range(100)], partition=0)
    followed = follow(topic, {busy: 0, other: 0}, records=10)
    followed.until(lambda: followed.offsets.get(busy))
    followed.follower.pause([busy])
    stood = followed.positions[busy]
    topic.send([b"o"], partition=1)
    followed.until(lambda: followed.positions.get(other) == 1)
    for _ in range(5):
        followed.poll()
    assert followed.positions[busy] == stood
    followed.follower.assign({busy: stood, other: 1})  # an assignment leaves it paused
    for _ in range(5):
        followed.poll()
    assert followed.positions[busy] == stood
    followed.follower.resume([busy])
    followed.until(lambda: followed.positions[busy] == 100)
    assert followed.offsets[busy] == list(range(100))


@pytest.mark.stack
def test_a_partition_is_read_again_from_any_offset(settings: Settings, follow: Any) -> None:
    topic = Topic(settings, "seek", partitions=2)
    first, second = (TopicPartition(topic.name, number) for number in range(2))
    for number in range(2):
        topic.send([b"%d" % at for at in range(50)], partition=number)
    followed = follow(topic, {first: 0, second: 0}, records=30)
    followed.until(lambda: followed.positions.get(first, 0) >= 20)
    followed.offsets.clear()
    stood = followed.positions.get(second, 0)
    followed.follower.seek(first, 5)
    followed.until(lambda: followed.positions == {first: 50, second: 50})
    assert followed.offsets[first] == list(range(5, 50))
    assert followed.offsets.get(second, []) == list(range(stood, 50))


@pytest.mark.stack
def test_a_poll_is_bounded_by_records_and_by_bytes(settings: Settings, follow: Any) -> None:
    topic = Topic(settings, "bounds", partitions=2, config={"max.message.bytes": "2000000"})
    wheres = [TopicPartition(topic.name, number) for number in range(2)]
    for number in range(2):
        topic.send([b"x" * 500_000] * 20, partition=number)
    few = follow(topic, dict.fromkeys(wheres, 0), records=5)
    small = follow(topic, dict.fromkeys(wheres, 0), size=2_000_000)
    for followed, most in ((few, 5), (small, 6)):
        sizes = []
        deadline = time.monotonic() + SECONDS
        while sum(followed.positions.values()) < 40:
            assert time.monotonic() < deadline
            sizes.append(sum(each.batch.num_rows for each in followed.poll() if each.batch is not None))
        # Until a record's size is known, a few are taken.
        assert max(sizes[1:]) <= most, sizes


@pytest.mark.stack
def test_offsets_that_expired_are_a_typed_error(settings: Settings, follow: Any) -> None:
    topic = Topic(settings, "gone", partitions=2)
    where = TopicPartition(topic.name, 1)
    topic.send([b"x"] * 10, partition=1)
    at = KafkaOffset(topic.name, 1, 5)
    topic.admin.client.delete_records([at])[at].result(30)
    followed = follow(topic, {TopicPartition(topic.name, 0): 0, where: 2})
    with pytest.raises(GoneRangeError, match=f"offset 2 of {where}"):
        followed.until(lambda: False)


@pytest.mark.stack
def test_a_refused_login_is_told(settings: Settings, follow: Any) -> None:
    topic = Topic(settings, "refused", partitions=1)
    wrong = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="nobody" password="wrong";'
    followed = follow(topic, {TopicPartition(topic.name, 0): 0}, with_properties(topic.client, sasl_jaas_config=wrong))
    with pytest.raises(AuthenticationError):
        followed.until(lambda: False)


_MEMORY = """
    import resource, sys, time
    from firn.kafka.client import client_from_settings
    from firn.kafka.follower import Follower
    from firn.kafka.partitions import TopicPartition
    from firn.settings import load_settings
    import pyarrow as pa
    pa.array([1]).to_pylist()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    follower = Follower(client_from_settings(load_settings()))
    follower.assign({TopicPartition(sys.argv[1], number): 0 for number in range(300)})
    left, deadline = int(sys.argv[2]), time.monotonic() + 100
    time.sleep(5)  # fetches all that it may
    while left:
        assert time.monotonic() < deadline
        left -= sum(each.batch.num_rows for each in follower.poll(1.0) if each.batch is not None)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.stack
@pytest.mark.full
def test_three_hundred_partitions_stay_within_some_hundred_megabytes(stack: Any) -> None:
    """300 MB lie ready, a megabyte a partition: far less is in memory at a time."""
    topic = Topic(stack.settings, "many", partitions=300, config={"max.message.bytes": "2000000"})
    producer = Producer(topic.client.librdkafka() | {"linger.ms": "5"})
    for number in range(300):
        for _ in range(100):
            producer.produce(topic.name, b"x" * 10_000, partition=number)
        producer.flush(30)
    program = [sys.executable, "-c", textwrap.dedent(_MEMORY), topic.name, "30000"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=200, check=False, env=stack.env)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 250 * 1024  # KiB


class Consumer:
    """Gives out what a test says, and then nothing."""

    def __init__(self, *answers: list[Message]) -> None:
        self._answers = list(answers)

    def consume(self, most: int, _seconds: float) -> list[Message]:
        answer = self._answers.pop(0) if self._answers else []
        assert len(answer) <= most
        return answer

    def assign(self, _partitions: object) -> None: ...


def follower_of(monkeypatch: pytest.MonkeyPatch, *answers: list[Message]) -> Follower:
    monkeypatch.setattr(fetching, "Consumer", lambda _config: Consumer(*answers))
    return Follower(plain_client("b:9092"))


def record(offset: int, topic: str = "t") -> Message:
    return Message(topic=topic, partition=0, offset=offset, key=b"k", value=b"v", timestamp=(1, 5))


def test_a_right_that_is_missing_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = Message(topic="t", partition=0, offset=0, error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    follower = follower_of(monkeypatch, [denied])
    follower.assign({TopicPartition("t", 0): 0})
    with pytest.raises(PrivilegeError, match="t-0"):
        follower.poll(0)


def test_rights_on_groups_are_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    of_the_group = Message(error=KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    follower = follower_of(monkeypatch, [of_the_group], [record(0)])
    follower.assign({TopicPartition("t", 0): 0})
    assert [batch.next_offset for batch in follower.poll(0)] == [1]


def test_what_a_fetch_of_before_brings_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records below the position, an end below it, and a partition that is not followed (any more)."""
    end = Message(topic="t", partition=0, offset=3, error=KafkaError(KafkaError._PARTITION_EOF))
    follower = follower_of(monkeypatch, [record(4)], [record(4), record(5), record(6, "u"), end])
    follower.assign({TopicPartition("t", 0): 5})
    ((where, batch, position),) = follower.poll(0)
    assert (where, position) == (TopicPartition("t", 0), 6)
    assert batch is not None
    assert batch["offset"].to_pylist() == [5]
