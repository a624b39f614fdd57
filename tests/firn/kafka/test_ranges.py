"""Ranges of offsets as Arrow batches: exact whatever the log holds, and a typed error where they cannot be read."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka import TopicPartition as KafkaOffset
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from firn.errors import AuthenticationError, PrivilegeError, TransientError
from firn.kafka import cluster, fetching, message_columns, ranges
from firn.kafka.client import KafkaClient
from firn.kafka.fetching import GoneRangeError
from firn.kafka.message_columns import RECORDS, binary_array
from firn.kafka.partitions import OffsetRange
from firn.kafka.properties import KafkaProperty
from firn.kafka.ranges import RangeReader, StalledRangeError
from firn.settings import Settings
from tests.e2e.test_wrong_input import closed_port
from tests.support.kafka import Topic
from tests.support.sinks import wait_until


@pytest.fixture(scope="session")
def settings(stack) -> Settings:
    return stack.settings


def with_properties(client: KafkaClient, **values: str) -> KafkaClient:
    """The client with other values for some properties (Java names, `_` for a dot)."""
    own = {name.replace("_", "."): value for name, value in values.items()}
    kept = [each for each in client.properties if each.name not in own]
    return KafkaClient((*kept, *(KafkaProperty(name, SecretStr(value)) for name, value in own.items())))


def plain_client(brokers: str) -> KafkaClient:
    """A client without a login."""
    values = {"bootstrap.servers": brokers, "security.protocol": "PLAINTEXT"}
    return KafkaClient(tuple(KafkaProperty(name, SecretStr(value)) for name, value in values.items()))


def read(topic: Topic, start: int, end: int, client: KafkaClient | None = None, **options: Any) -> pa.Table:
    """A range of partition 0 as one table."""
    reader = RangeReader(client or topic.client, patience=options.pop("patience", 20.0))
    try:
        batches = list(reader.read(OffsetRange(topic.name, 0, start, end), **options))
    finally:
        reader.close()
    return pa.Table.from_batches(batches, RECORDS)


def offsets(table: pa.Table) -> list[int]:
    return table.column("offset").to_pylist()


@pytest.mark.stack
def test_a_range_is_read_from_its_first_offset_to_its_end_and_no_further(settings: Settings) -> None:
    topic = Topic(settings, "range", partitions=1)
    topic.send([b"%d" % number for number in range(50)], timestamp=1_760_000_000_123)
    table = read(topic, 10, 30)
    assert offsets(table) == list(range(10, 30))
    assert table.column("value").to_pylist() == [b"%d" % number for number in range(10, 30)]
    assert table.column("key").to_pylist() == [b"k%d" % number for number in range(10, 30)]
    assert set(table.column("timestamp").to_pylist()) == {1_760_000_000_123}
    assert set(table.column("timestamp_type").to_pylist()) == {0}
    assert table.column("headers").null_count == 20
    assert offsets(read(topic, 5, 5)) == []


@pytest.mark.stack
def test_one_reader_reads_range_after_range(settings: Settings) -> None:
    topic = Topic(settings, "again", partitions=1)
    topic.send([b"x"] * 40)
    reader = RangeReader(topic.client)
    found = []
    for start, end in ((30, 40), (0, 10), (10, 20), (15, 16)):
        batches = list(reader.read(OffsetRange(topic.name, 0, start, end)))
        found.append([at for batch in batches for at in batch.column("offset").to_pylist()])
    abandoned = reader.read(OffsetRange(topic.name, 0, 0, 40), records=3)
    assert next(abandoned).num_rows == 3
    abandoned.close()
    found.append([batch.num_rows for batch in reader.read(OffsetRange(topic.name, 0, 20, 25))])  # type: ignore[arg-type]
    reader.close()
    assert found == [list(range(30, 40)), list(range(10)), list(range(10, 20)), [15], [5]]


@pytest.mark.stack
def test_batches_are_bounded_by_records_and_by_bytes(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = Topic(settings, "bounded", partitions=1, config={"max.message.bytes": "20000000"})
    topic.send([b"x" * 1_000_000] * 12, headers=[("h", b"y" * 500_000)])
    reader = RangeReader(topic.client)
    wanted = OffsetRange(topic.name, 0, 0, 12)
    assert max(batch.num_rows for batch in reader.read(wanted, records=5)) <= 5
    monkeypatch.setattr(fetching, "FIRST_RECORDS", 2)
    sizes = [batch.num_rows for batch in reader.read(wanted, size=3_000_000)]
    reader.close()
    assert sum(sizes) == 12
    assert max(sizes) <= 3


@pytest.mark.stack
def test_values_keys_and_headers_may_be_absent_empty_or_any_bytes(settings: Settings) -> None:
    topic = Topic(settings, "fields", partitions=1)
    producer = Producer(topic.client.librdkafka())
    sent: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]] | None]] = [
        (None, None, None),
        (b"", b"", []),
        (b"\x00\xff", b"\xfe", [("a", None), ("a", b""), ("\N{GREEK SMALL LETTER ALPHA}", b"\xff\x00")]),
        (b"v", None, [("b", b"1")]),
    ]
    for value, key, headers in sent:
        producer.produce(topic.name, value, key, 0, headers=headers or [])
    assert producer.flush(30) == 0
    table = read(topic, 0, 4)
    assert table.column("value").to_pylist() == [value for value, *_ in sent]
    assert table.column("key").to_pylist() == [key for _, key, _ in sent]
    found = [headers and [(each["key"], each["value"]) for each in headers] for headers in table["headers"].to_pylist()]
    assert [each or [] for each in found] == [headers or [] for *_, headers in sent]


@pytest.mark.stack
@pytest.mark.parametrize("timestamp", [1, 1_760_000_000_123_456_789, 2**63 - 1], ids=["1970", "nanoseconds", "largest"])
def test_any_timestamp_that_kafka_takes_is_read(settings: Settings, timestamp: int) -> None:
    config = {"message.timestamp.after.max.ms": str(2**63 - 1)}
    topic = Topic(settings, "times", partitions=1, config=config)
    topic.send([b"x"], timestamp=timestamp)
    assert read(topic, 0, 1).column("timestamp").to_pylist() == [timestamp]


@pytest.mark.stack
def test_the_time_of_the_log_is_told_from_that_of_the_record(settings: Settings) -> None:
    topic = Topic(settings, "appended", partitions=1, config={"message.timestamp.type": "LogAppendTime"})
    topic.send([b"x"], timestamp=5)
    table = read(topic, 0, 1)
    assert table.column("timestamp_type").to_pylist() == [1]
    assert abs(table.column("timestamp")[0].as_py() - time.time() * 1000) < 600_000


@pytest.fixture
def transactions(settings: Settings) -> Iterator[Any]:
    """A topic with offsets 0 1 (marker 2), aborted 3 4 (5), and an open transaction at 6 7."""
    topic = Topic(settings, "open", partitions=1)
    producer = Producer(topic.client.librdkafka() | {"transactional.id": topic.name})
    producer.init_transactions(30)
    for count, end in ((2, producer.commit_transaction), (2, producer.abort_transaction), (2, None)):
        producer.begin_transaction()
        for _ in range(count):
            producer.produce(topic.name, b"x", partition=0)
        assert producer.flush(30) == 0
        if end:
            end(30)
    yield SimpleNamespace(topic=topic, producer=producer)
    producer.abort_transaction(30)


@pytest.mark.stack
def test_a_range_ends_at_its_end_also_where_only_markers_and_aborted_records_are_left(transactions: Any) -> None:
    topic = transactions.topic
    committed = with_properties(topic.client, isolation_level="read_committed")
    begun = time.monotonic()
    assert offsets(read(topic, 0, 6, committed)) == [0, 1]
    assert offsets(read(topic, 2, 6, committed)) == []
    assert offsets(read(topic, 2, 5, committed)) == []  # behind it there is more of the same
    assert time.monotonic() - begun < 15
    assert offsets(read(topic, 0, 8)) == [0, 1, 3, 4, 6, 7]


@pytest.mark.stack
def test_behind_an_open_transaction_a_range_stalls_and_says_where(transactions: Any) -> None:
    committed = with_properties(transactions.topic.client, isolation_level="read_committed")
    with pytest.raises(StalledRangeError, match="Only offsets below 6 can be read"):
        read(transactions.topic, 0, 8, committed, patience=1.0)


@pytest.mark.stack
def test_a_range_waits_for_what_comes_within_its_patience(settings: Settings) -> None:
    topic = Topic(settings, "later", partitions=1)
    topic.send([b"1"])
    later = threading.Timer(1.0, lambda: topic.send([b"2"]))
    later.start()
    assert offsets(read(topic, 0, 2)) == [0, 1]
    later.join()


@pytest.mark.stack
def test_holes_of_compaction_are_no_fault(settings: Settings) -> None:
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "100",
        "delete.retention.ms": "0",
    }
    topic = Topic(settings, "holes", partitions=1, config=config)
    for number in range(20):
        topic.send([b"%d" % number], keys=["same"])

    def compacted() -> bool:
        topic.send([b"last"], keys=["same"])
        end = cluster.offsets(topic.admin, [(topic.name, 0)], "latest")[topic.name, 0]
        return len(offsets(read(topic, 0, end))) < end

    wait_until(compacted, seconds=60, what="the broker compacts")
    end = cluster.offsets(topic.admin, [(topic.name, 0)], "latest")[topic.name, 0]
    found = offsets(read(topic, 0, end))
    assert found[-1] == end - 1
    assert offsets(read(topic, 0, found[0])) == []  # a range that is nothing but a hole


@pytest.mark.stack
def test_offsets_that_expired_are_a_typed_error_at_once(settings: Settings) -> None:
    topic = Topic(settings, "expired", partitions=1)
    topic.send([b"x"] * 10)
    topic.admin.client.delete_records([KafkaOffset(topic.name, 0, 5)])[KafkaOffset(topic.name, 0, 5)].result(30)
    with pytest.raises(GoneRangeError, match="offset 2 of"):
        read(topic, 2, 10)
    with pytest.raises(GoneRangeError, match="offset 40 of"):  # above the end, as in a topic that was made again
        read(topic, 40, 50)
    assert offsets(read(topic, 5, 10)) == [5, 6, 7, 8, 9]


@pytest.mark.stack
@pytest.mark.parametrize(("name", "partition"), [("range-no-such-topic", 0), (None, 7)], ids=["topic", "partition"])
def test_what_does_not_exist_is_told_within_patience(settings: Settings, name: str | None, partition: int) -> None:
    topic = Topic(settings, "absent", partitions=1)
    reader = RangeReader(topic.client, patience=2.0)
    with pytest.raises(TransientError, match=r"[Uu]nknown (topic or )?partition|There is no such partition"):
        list(reader.read(OffsetRange(name or topic.name, partition, 0, 5)))
    reader.close()


@pytest.mark.stack
def test_a_refused_login_is_told_at_once(settings: Settings) -> None:
    topic = Topic(settings, "login", partitions=1)
    wrong = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="nobody" password="wrong";'
    begun = time.monotonic()
    with pytest.raises(AuthenticationError):
        read(topic, 0, 1, with_properties(topic.client, sasl_jaas_config=wrong), patience=60.0)
    assert time.monotonic() - begun < 30


def test_brokers_that_do_not_answer_are_named_within_patience() -> None:
    port = closed_port()
    reader = RangeReader(plain_client(f"127.0.0.1:{port}"), patience=1.0)
    with pytest.raises(StalledRangeError, match=r"Connection refused|Connect to") as raised:
        list(reader.read(OffsetRange("t", 0, 0, 1)))
    assert str(port) in str(raised.value)
    assert raised.value.seconds == 1.0
    reader.close()


class Consumer:
    """Gives out what a test says, and then nothing."""

    def __init__(self, *answers: list[Any], partition: Any = None) -> None:
        self._answers = list(answers)
        self._partition = partition

    def consume(self, most: int, _seconds: float) -> list[Any]:
        answer = self._answers.pop(0) if self._answers else []
        assert len(answer) <= most, "more was asked for than the range has"
        return answer

    def assign(self, _partitions: object) -> None: ...
    def unassign(self) -> None: ...

    def list_topics(self, topic: str, timeout: float) -> Any:
        partitions = {0: self._partition} if self._partition else {}
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=partitions)})


def reader_of(monkeypatch: pytest.MonkeyPatch, consumer: Consumer) -> RangeReader:
    monkeypatch.setattr(fetching, "Consumer", lambda _config: consumer)
    client = KafkaClient(
        (
            KafkaProperty("bootstrap.servers", SecretStr("b:9092")),
            KafkaProperty("security.protocol", SecretStr("PLAINTEXT")),
        )
    )
    return RangeReader(client, patience=0.2)


def test_a_partition_without_a_leader_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(monkeypatch, Consumer(partition=SimpleNamespace(leader=-1)))
    with pytest.raises(StalledRangeError, match="The partition has no leader"):
        list(reader.read(OffsetRange("t", 0, 0, 5)))


def test_a_right_that_is_missing_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    denied = Message(topic="t", partition=0, offset=0, error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    reader = reader_of(monkeypatch, Consumer([denied]))
    with pytest.raises(PrivilegeError, match="t-0 offsets 0 to 4"):
        list(reader.read(OffsetRange("t", 0, 0, 5)))


def test_rights_on_groups_are_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka asks for the coordinator of the group that nobody joins, and gives out what it hears."""
    of_the_group = Message(error=KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    record = Message(topic="t", partition=0, offset=0, key=b"k", value=b"v", timestamp=(1, 5))
    reader = reader_of(monkeypatch, Consumer([of_the_group], [record]))
    assert [batch["value"].to_pylist() for batch in reader.read(OffsetRange("t", 0, 0, 1))] == [[b"v"]]


def test_what_librdkafka_leaves_out_itself_is_no_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Aborted records: only the statistics tell that they were passed."""

    class Passing(Consumer):
        def consume(self, most: int, seconds: float) -> list[Any]:
            if seconds:
                polls.append(len(polls))
                partition = {"next_offset": min(len(polls), 5)}
                statistics = {"topics": {"t": {"partitions": {"0": partition, "-1": {"next_offset": -1001}}}}}
                reader._note_fetched(json.dumps(statistics))
                time.sleep(0.1)
            return super().consume(most, seconds)

    polls: list[int] = []
    reader = reader_of(monkeypatch, Passing())
    with pytest.raises(StalledRangeError):
        list(reader.read(OffsetRange("t", 0, 0, 1_000)))
    assert len(polls) >= 7  # five times further, and then for as long as its patience


class Named:
    """A message whose header names are bytes; librdkafka's Python client fails as this does for what is not UTF-8."""

    def __init__(self, offset: int, name: bytes) -> None:
        self._offset, self._name, self._asked = offset, name, False

    def headers(self) -> list[tuple[str, bytes]]:
        assert not self._asked, "the second answer has a hole in memory"
        self._asked = True
        try:
            return [(self._name.decode(), b"1")]
        except UnicodeDecodeError as error:
            raise SystemError("returned a result with an exception set") from error

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return b"v"

    def timestamp(self) -> tuple[int, int]:
        return 1, 5

    def error(self) -> None:
        return None


def test_a_header_name_that_is_not_utf8_is_a_fault_of_its_record_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "Message", Named)
    monkeypatch.setattr(message_columns, "Message", Named)
    names = [b"good", b"caf\xe9", b"good"]
    reader = reader_of(monkeypatch, Consumer([Named(offset, name) for offset, name in enumerate(names)]))
    (batch,) = reader.read(OffsetRange("t", 0, 0, 3))
    assert batch["fault"].to_pylist() == [None, "the name of a header is not UTF-8", None]
    assert batch["headers"].to_pylist() == [[{"key": "good", "value": b"1"}], None, [{"key": "good", "value": b"1"}]]
    assert batch["value"].to_pylist() == [b"v"] * 3


@given(st.lists(st.none() | st.binary(max_size=40), max_size=50))
def test_joined_bytes_are_the_same_array(values: list[bytes | None]) -> None:
    found = binary_array(values)
    found.validate(full=True)
    assert found.equals(pa.array(values, pa.binary()))
    assert found.null_count == values.count(None)


def test_more_bytes_than_an_array_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(np, "iinfo", lambda _type: SimpleNamespace(max=10))
    with pytest.raises(pa.ArrowCapacityError):
        binary_array([b"x" * 11])
