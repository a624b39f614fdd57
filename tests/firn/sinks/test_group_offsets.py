"""What ordinary lag tools see of a sink: its positions as a group's offsets, and nothing that disturbs a commit."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaOffset

from firn.connector.parse import parse_sink_config
from firn.kafka import cluster
from firn.kafka.client import kafka_client
from firn.kafka.faults import ConnectionFaults
from firn.kafka.group_documents import MOMENT_SECONDS
from firn.kafka.partitions import TopicPartition
from firn.secrets import KafkaSecret
from firn.settings import Settings
from firn.sinks.group_offsets import GroupOffsets, group_of
from tests.support.connectors import MINIMAL
from tests.support.kafka import Topic
from tests.support.proxies import closed_port
from tests.support.sinks import wait_until

GROUPS = logging.getLogger("firn.sinks.group_offsets").name


@pytest.fixture
def topic(settings: Settings) -> Topic:
    return Topic(settings, "lag")


@pytest.fixture
def member(topic: Topic) -> Iterator[tuple[str, Consumer]]:
    """A group with a consumer in it."""
    group = f"connect-{uuid.uuid4().hex[:8]}"
    consumer = Consumer(topic.client.librdkafka() | {"group.id": group})
    consumer.subscribe([topic.name])
    wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), what="joined")
    yield group, consumer
    consumer.close()


def coordinated(topic: Topic, group: str) -> str:
    """The group, once its broker takes offsets: a publish waits for a moment only."""
    wait_until(lambda: topic.is_coordinated(group), what=f"the coordinator of {group}")
    return group


def published(topic: Topic, group: str) -> dict[int, int]:
    """What `kafka-consumer-groups --describe` would show, by partition."""
    asked = ConsumerGroupTopicPartitions(group, [KafkaOffset(topic.name, p) for p in range(topic.partitions)])
    (answer,) = topic.admin.client.list_consumer_group_offsets([asked]).values()
    return {p.partition: p.offset for p in answer.result(15).topic_partitions if p.offset >= 0}


@pytest.mark.parametrize(
    ("parameters", "group"),
    [
        ({}, "connect-orders"),
        ({"consumer.override.group.id": "lag-of-orders"}, "lag-of-orders"),
        ({"kafka.group.id": " lag-of-orders "}, "lag-of-orders"),
    ],
)
def test_the_group_is_named_as_kafka_connect_does_unless_it_is_given(parameters: dict[str, str], group: str) -> None:
    assert group_of(parse_sink_config(MINIMAL | parameters, where="test")) == group


@pytest.mark.stack
def test_positions_are_the_groups_offsets_and_nobody_is_in_it(topic: Topic) -> None:
    group = coordinated(topic, f"connect-{topic.name}")
    offsets = GroupOffsets(topic.client, group)
    offsets.publish({TopicPartition(topic.name, 0): 7, TopicPartition(topic.name, 1): 0})
    assert published(topic, group) == {0: 7, 1: 0}
    offsets.publish({TopicPartition(topic.name, 0): 3})  # after a reset
    offsets.close()
    assert published(topic, group) == {0: 3, 1: 0}
    assert topic.admin.client.describe_consumer_groups([group])[group].result(15).members == []


@pytest.mark.stack
def test_a_group_with_consumers_is_one_warning_until_it_works_again(
    topic: Topic, member: tuple[str, Consumer], caplog: pytest.LogCaptureFixture
) -> None:
    group, consumer = member
    offsets = GroupOffsets(topic.client, group)
    caplog.set_level(logging.INFO, GROUPS)
    offsets.publish({TopicPartition(topic.name, 0): 1})
    offsets.publish({TopicPartition(topic.name, 1): 2})
    assert [r.levelname for r in caplog.records] == ["WARNING"]
    assert group in caplog.text
    assert "consumer.override.group.id" in caplog.text
    consumer.close()
    offsets.publish({TopicPartition(topic.name, 1): 3})
    offsets.close()
    assert published(topic, group) == {0: 1, 1: 3}  # the newest of each, also of what failed
    assert [r.getMessage().endswith("again.") for r in caplog.records] == [False, True]


@pytest.mark.stack
def test_a_topic_that_is_gone_holds_the_others_up_neither_now_nor_later(
    topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    group = coordinated(topic, f"connect-{topic.name}")
    offsets = GroupOffsets(topic.client, group)
    offsets.publish({TopicPartition(topic.name, 0): 1, TopicPartition(topic.name, 77): 1})
    assert published(topic, group) == {0: 1}
    assert "is gone" in caplog.text
    caplog.clear()
    offsets.publish({TopicPartition(topic.name, 0): 2})
    assert caplog.text.endswith("again.\n")


def test_without_a_broker_a_commit_waits_for_a_moment_only(caplog: pytest.LogCaptureFixture) -> None:
    secret = KafkaSecret(bootstrap_servers=f"127.0.0.1:{closed_port()}", api_key="u", api_secret="p")
    settings = Settings(_env_file=None, kafka_security_protocol="PLAINTEXT")  # type: ignore[call-arg]
    offsets = GroupOffsets(kafka_client(settings, secret), "connect-nobody")
    begun = time.monotonic()
    offsets.publish({TopicPartition("t", 0): 1})
    offsets.publish({TopicPartition("t", 0): 2})
    assert time.monotonic() - begun < 2 * MOMENT_SECONDS + 1
    offsets.close()
    assert time.monotonic() - begun < 10
    assert [r.levelname for r in caplog.records if r.name == GROUPS] == ["WARNING"]


class MovingGroup:
    """An admin client whose first `refusals` requests find the group on its way to another broker."""

    def __init__(self, refusals: int) -> None:
        self.client, self.faults, self._refusals = self, ConnectionFaults("broker"), refusals
        self.published: dict[TopicPartition, int] = {}

    def alter_consumer_group_offsets(self, requests: Any, **_: Any) -> dict[str, Future[Any]]:
        answer: Future[Any] = Future()
        if self._refusals:
            self._refusals -= 1
            answer.set_exception(KafkaException(KafkaError(KafkaError.NOT_COORDINATOR)))
        else:
            self.published |= {TopicPartition(p.topic, p.partition): p.offset for p in requests[0].topic_partitions}
            answer.set_result(requests[0])
        return {"group": answer}

    def poll(self, _seconds: float) -> None:
        """Nothing is heard."""


@pytest.mark.parametrize(("refusals", "warnings"), [(1, 0), (2, 1)])
def test_a_group_that_moves_is_no_warning_at_first(
    refusals: int, warnings: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    group = MovingGroup(refusals)
    monkeypatch.setattr(cluster, "admin_client", lambda _client: group)
    offsets = GroupOffsets(None, "connect-moving")
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    offsets.publish({first: 1})
    offsets.publish({second: 2})
    assert len([r for r in caplog.records if r.levelname == "WARNING"]) == warnings
    offsets.publish({second: 3})
    assert group.published == {first: 1, second: 3}


def test_a_group_that_moves_at_the_end_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    group = MovingGroup(1)
    monkeypatch.setattr(cluster, "admin_client", lambda _client: group)
    offsets = GroupOffsets(None, "connect-moving")
    offsets.publish({TopicPartition("t", 0): 1})
    offsets.close()
    assert group.published == {TopicPartition("t", 0): 1}
