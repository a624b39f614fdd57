"""A consumer group as a small table in Kafka: texts beside offsets, and what Kafka says where it takes none."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaOffset

from firn.errors import AuthenticationError, ConfigError, FirnError, PrivilegeError, TransientError
from firn.kafka import cluster
from firn.kafka.client import kafka_client
from firn.kafka.faults import ConnectionFaults
from firn.kafka.group_documents import (
    LIMIT,
    MOMENT_SECONDS,
    GroupDocuments,
    GroupInUseError,
    GroupMovingError,
    PartitionGoneError,
)
from firn.kafka.partitions import TopicPartition
from firn.secrets import KafkaSecret
from firn.settings import Settings
from tests.support.kafka import Topic
from tests.support.proxies import closed_port
from tests.support.sinks import wait_until


@pytest.fixture
def topic(settings: Settings) -> Topic:
    return Topic(settings, "documents")


@pytest.fixture
def group(topic: Topic) -> str:
    """A name that nobody has used, once its broker takes offsets."""
    name = f"firn-test-{uuid.uuid4().hex[:8]}"
    wait_until(lambda: topic.is_coordinated(name), what=f"the coordinator of {name}")
    return name


@pytest.fixture
def with_member(topic: Topic, group: str) -> Iterator[Consumer]:
    """A consumer in the group."""
    consumer = Consumer(topic.client.librdkafka() | {"group.id": group})
    consumer.subscribe([topic.name])
    wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), what="joined")
    yield consumer
    consumer.close()


@pytest.mark.stack
def test_what_one_client_wrote_every_other_one_reads(topic: Topic, group: str) -> None:
    first, second = TopicPartition(topic.name, 0), TopicPartition(topic.name, 1)
    assert GroupDocuments(topic.client, group).read() == {}  # there is no such group yet
    GroupDocuments(topic.client, group).write({first: (7, '{"n": 1}')})
    GroupDocuments(topic.client, group).write({second: (0, "ünd")})
    GroupDocuments(topic.client, group).write({first: (3, "")})  # lower is as good
    assert GroupDocuments(topic.client, group).read() == {first: (3, ""), second: (0, "ünd")}
    assert topic.admin.client.describe_consumer_groups([group])[group].result(15).members == []


@pytest.mark.stack
def test_the_newest_of_several_offers_is_what_stays(topic: Topic, group: str) -> None:
    where, documents = TopicPartition(topic.name, 0), GroupDocuments(topic.client, group)
    for number in range(20):
        documents.offer({where: (number, f"n{number}")}, 0)
    assert documents.close()
    assert documents.read() == {where: (19, "n19")}


@pytest.mark.stack
def test_a_text_has_a_limit_and_the_error_names_the_brokers_setting(topic: Topic, group: str) -> None:
    first, second = TopicPartition(topic.name, 0), TopicPartition(topic.name, 1)
    documents = GroupDocuments(topic.client, group)
    documents.write({first: (1, "x" * LIMIT)})
    with pytest.raises(ConfigError, match=r"offset\.metadata\.max\.bytes"):
        documents.write({first: (2, "x" * (LIMIT + 100)), second: (5, "short")})
    assert documents.read() == {first: (1, "x" * LIMIT), second: (5, "short")}
    documents.write({first: (3, "short again")})  # what was refused does not come back
    assert documents.read()[first] == (3, "short again")


@pytest.mark.stack
def test_a_group_with_consumers_takes_no_document_until_they_have_left(
    topic: Topic, group: str, with_member: Consumer
) -> None:
    where, documents = TopicPartition(topic.name, 1), GroupDocuments(topic.client, group)
    assert not documents.offer({where: (1, "kept")}, 10)
    assert isinstance(documents.fault, GroupInUseError)
    assert group in documents.fault.what
    with_member.close()
    assert documents.offer({}, 10)  # what was offered waits for the next call
    assert documents.read() == {where: (1, "kept")}


@pytest.mark.stack
def test_a_topic_that_is_gone_is_dropped_and_the_others_are_written(topic: Topic, group: str) -> None:
    where, documents = TopicPartition(topic.name, 0), GroupDocuments(topic.client, group)
    assert not documents.offer({where: (1, "there"), TopicPartition(topic.name, 77): (1, "gone")}, 10)
    assert isinstance(documents.fault, PartitionGoneError)
    assert documents.read() == {where: (1, "there")}
    assert documents.offer({where: (2, "later")}, 10)  # nothing is left of the one that is gone


def of(brokers: str) -> GroupDocuments:
    settings = Settings(_env_file=None, kafka_security_protocol="PLAINTEXT")  # type: ignore[call-arg]
    secret = KafkaSecret(bootstrap_servers=brokers, api_key="u", api_secret="p")
    return GroupDocuments(kafka_client(settings, secret), "firn-test")


def test_without_a_broker_an_offer_waits_for_a_moment_only() -> None:
    documents, begun = of(f"127.0.0.1:{closed_port()}"), time.monotonic()
    assert not documents.offer({TopicPartition("t", 0): (1, "a")})
    assert not documents.offer({TopicPartition("t", 0): (2, "b")})
    assert time.monotonic() - begun < 2 * MOMENT_SECONDS + 1


def test_without_a_broker_a_read_and_a_write_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "REQUEST_SECONDS", 2.0)
    port = closed_port()
    for ask in (lambda each: each.read(2.0), lambda each: each.write({TopicPartition("t", 0): (1, "a")})):
        with pytest.raises(TransientError) as caught:
            ask(of(f"127.0.0.1:{port}"))
        assert str(port) in caught.value.where


@pytest.mark.stack
def test_a_refused_login_is_said_by_read_and_write(settings: Settings) -> None:
    secret = KafkaSecret(bootstrap_servers=_brokers(settings), api_key="nobody", api_secret="wrong")
    documents = GroupDocuments(kafka_client(settings, secret), "firn-test")
    begun = time.monotonic()
    with pytest.raises(AuthenticationError):
        documents.write({TopicPartition("t", 0): (1, "a")})
    with pytest.raises(AuthenticationError):
        documents.read()
    assert time.monotonic() - begun < cluster.REQUEST_SECONDS


def _brokers(settings: Settings) -> str:
    from firn.kafka.client import client_from_settings

    return client_from_settings(settings).brokers


class AnsweringAdmin:
    """An admin client that answers each request with the next of `answers`; after the last it takes everything.

    An answer is a code for the request as a whole, or one for each of its partitions.
    """

    def __init__(self, *answers: int | dict[int, int]) -> None:
        self.client, self.faults, self._answers = self, ConnectionFaults("broker"), list(answers)
        self.held: dict[TopicPartition, tuple[int, str]] = {}
        self.moves = False

    def describe_consumer_groups(self, groups: list[str], **_: Any) -> dict[str, Future[Any]]:
        answer: Future[Any] = Future()
        if self.moves:
            answer.set_exception(KafkaException(KafkaError(KafkaError.NOT_COORDINATOR)))
        else:
            answer.set_result("a description")
        return {groups[0]: answer}

    def alter_consumer_group_offsets(self, requests: Any, **_: Any) -> dict[str, Future[Any]]:
        answer: Future[Any] = Future()
        refusal = self._answers.pop(0) if self._answers else {}
        if isinstance(refusal, int):
            answer.set_exception(KafkaException(KafkaError(refusal)))
            return {requests[0].group_id: answer}
        answered = []
        for each in requests[0].topic_partitions:
            code = refusal.get(each.partition)
            answered.append(Answered(each, KafkaError(code) if code else None))
            if not code:
                self.held[TopicPartition(each.topic, each.partition)] = (each.offset, each.metadata)
        answer.set_result(Partitions(answered))
        return {requests[0].group_id: answer}

    def list_consumer_group_offsets(self, requests: Any, **_: Any) -> dict[str, Future[Any]]:
        answer: Future[Any] = Future()
        refusal = self._answers.pop(0)
        assert isinstance(refusal, int)
        answer.set_exception(KafkaException(KafkaError(refusal)))
        return {requests[0].group_id: answer}

    def wait(self, futures: Any, _doing: str) -> dict[str, Any]:
        return {group: f.exception().args[0] if f.exception() else f.result() for group, f in futures.items()}

    def poll(self, _seconds: float) -> None:
        """Nothing is heard."""


class Partitions:
    def __init__(self, topic_partitions: list[Answered]) -> None:
        self.topic_partitions = topic_partitions


class Answered:
    def __init__(self, asked: KafkaOffset, error: KafkaError | None) -> None:
        self.topic, self.partition, self.error = asked.topic, asked.partition, error


Documents = Callable[..., tuple[GroupDocuments, AnsweringAdmin]]


@pytest.fixture
def documents(monkeypatch: pytest.MonkeyPatch) -> Documents:
    def made(*answers: int | dict[int, int]) -> tuple[GroupDocuments, AnsweringAdmin]:
        admin = AnsweringAdmin(*answers)
        monkeypatch.setattr(cluster, "admin_client", lambda _client: admin)
        return GroupDocuments(None, "firn-sign-x"), admin  # type: ignore[arg-type]

    return made


@pytest.mark.parametrize("code", [KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_group_that_moves_takes_the_document_at_the_next_offer(documents: Documents, code: int) -> None:
    group, admin = documents(code)
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    assert not group.offer({first: (1, "a")})
    assert isinstance(group.fault, GroupMovingError)
    assert group.offer({second: (2, "b")})
    assert admin.held == {first: (1, "a"), second: (2, "b")}


def test_a_group_that_moves_at_the_end_is_asked_again(documents: Documents) -> None:
    group, admin = documents(KafkaError.NOT_COORDINATOR)
    group.offer({TopicPartition("t", 0): (1, "a")})
    assert group.close()
    assert admin.held == {TopicPartition("t", 0): (1, "a")}


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "READ on group firn-sign-x"),
        ({0: KafkaError.GROUP_AUTHORIZATION_FAILED}, "READ on group firn-sign-x"),
        ({0: KafkaError.TOPIC_AUTHORIZATION_FAILED}, "READ on the topics whose offsets group firn-sign-x holds"),
    ],
)
def test_an_absent_right_is_named(documents: Documents, answer: int | dict[int, int], right: str) -> None:
    group, _ = documents(answer)
    with pytest.raises(PrivilegeError) as caught:
        group.write({TopicPartition("t", 0): (1, "a")})
    assert right in caught.value.next_step


def test_a_read_without_a_right_is_an_error_and_never_an_empty_group(documents: Documents) -> None:
    group, _ = documents(KafkaError.GROUP_AUTHORIZATION_FAILED)
    with pytest.raises(PrivilegeError, match="read the offsets of group firn-sign-x"):
        group.read()


def test_a_group_that_moves_is_not_asked_for_its_offsets(documents: Documents) -> None:
    """librdkafka would end the process where Kafka answers that (https://github.com/confluentinc/librdkafka/issues/5040)."""
    group, admin = documents()  # no answer for a request of its offsets
    admin.moves = True
    with pytest.raises(GroupMovingError, match="moves between brokers"):
        group.read()


def test_a_refusal_is_over_once_kafka_takes_a_document(documents: Documents) -> None:
    group, admin = documents({0: KafkaError.TOPIC_AUTHORIZATION_FAILED})
    where = TopicPartition("t", 0)
    assert not group.offer({where: (1, "a")})
    assert isinstance(group.fault, FirnError)
    assert group.offer({where: (2, "b")})
    assert group.fault is None
    assert admin.held == {where: (2, "b")}
