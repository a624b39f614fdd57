"""Committed positions as a consumer group's offsets, so that ordinary lag tools show how far a sink is.

For information alone: the ledger is the truth, and nothing here is ever read back. Not for the group of the dead
letters (`dead_letters`), whose offsets are part of a protocol. Kafka's AdminClient.alterConsumerGroupOffsets writes
without joining the group, so the group is empty to Kafka and every tool can still describe it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, wait
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException
from confluent_kafka import TopicPartition as KafkaOffset

from firn.connector.config import SinkConfig
from firn.kafka import cluster
from firn.kafka.client import KafkaClient
from firn.kafka.partitions import TopicPartition
from firn.kafka.properties import spelled
from firn.kafka.property_table import GROUP

log = logging.getLogger(__name__)

MOMENT_SECONDS = 0.25
"""How long a commit waits for Kafka's answer; a broker in order needs a tenth of it."""
REQUEST_SECONDS = 30.0
CLOSE_SECONDS = 3.0

_HAS_MEMBERS = {KafkaError.UNKNOWN_MEMBER_ID, KafkaError.ILLEGAL_GENERATION, KafkaError.REBALANCE_IN_PROGRESS}
_MOVING = {
    KafkaError.NOT_COORDINATOR,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
}
_GONE = {KafkaError.UNKNOWN_TOPIC_OR_PART}


def group_of(config: SinkConfig) -> str:
    """The group under which a sink publishes: `group.id` of the connector, else as Kafka Connect names a sink's."""
    given = [p.value.get_secret_value() for p in config.kafka if p.name == GROUP]
    return (spelled(GROUP, given[-1]) if given else None) or f"connect-{config.name}"


class GroupOffsets:
    """Publishes positions of one group. Not for several threads at once.

    One request is under way at a time. What is not published yet waits for the next call; the newest position of each
    partition wins.
    """

    def __init__(self, client: KafkaClient, group: str) -> None:
        self._admin, self._group = cluster.admin_client(client), group
        self._waiting: dict[TopicPartition, int] = {}
        self._sent: dict[TopicPartition, int] = {}
        self._answer: Future[Any] | None = None
        self._failing = False
        self._moving = False

    def publish(self, positions: Mapping[TopicPartition, int]) -> None:
        """Publish the next offset of each of these partitions. Never raises: a failure is one warning until it works
        again, and no warning where the group only moves between brokers. Takes `MOMENT_SECONDS` at most; a later
        answer is looked at by the next call.
        """
        self._waiting.update(positions)
        self._look(0)
        self._send()
        self._look(MOMENT_SECONDS)

    def close(self) -> None:
        """Publish what is left, in `CLOSE_SECONDS` at most for what is under way, and again for what waits."""
        self._look(CLOSE_SECONDS)
        for _ in range(2):  # the first answer may be that the group moves
            if self._answer is None and not self._failing:
                self._send()
                self._look(CLOSE_SECONDS)
        if self._answer is not None:
            self._warn("Kafka did not answer before the sink's end")

    def _send(self) -> None:
        if self._answer is not None or not self._waiting:
            return
        self._sent, self._waiting = self._waiting, {}
        request = ConsumerGroupTopicPartitions(self._group, [KafkaOffset(*w, at) for w, at in self._sent.items()])
        try:
            answers = self._admin.client.alter_consumer_group_offsets([request], request_timeout=REQUEST_SECONDS)
        except KafkaException as error:
            self._failed(error.args[0], self._sent)
        else:
            (self._answer,) = answers.values()

    def _look(self, seconds: float) -> None:
        """Take the answer, if it comes within `seconds`."""
        if self._answer is None or not wait([self._answer], seconds).done:
            return
        answer, self._answer = self._answer, None
        self._admin.client.poll(0)  # hears why there is no connection
        fault = answer.exception()
        if fault is None:
            self._judge(answer.result().topic_partitions)
        elif isinstance(fault, KafkaException):
            self._failed(fault.args[0], self._sent)
        else:
            self._warn(str(fault))

    def _judge(self, partitions: Iterable[KafkaOffset]) -> None:
        refused = {TopicPartition(p.topic, p.partition): p.error for p in partitions if p.error is not None}
        if not refused:
            self._works()
            return
        # A topic that is gone stays gone; the rest is tried again with the next commit.
        again = {where: self._sent[where] for where, error in refused.items() if error.code() not in _GONE}
        self._failed(next(iter(refused.values())), again)

    def _works(self) -> None:
        self._admin.faults.clear()
        if self._failing:
            log.warning("The sink's positions are published to group %s again.", self._group)
        self._failing = self._moving = False

    def _failed(self, error: KafkaError, again: Mapping[TopicPartition, int]) -> None:
        self._waiting = {**again, **self._waiting}
        if error.code() in _MOVING and not self._moving:
            self._moving = True  # ordinary after a broker's start: the next publish asks again
        elif error.code() in _HAS_MEMBERS:
            self._warn(
                "it has consumers of its own, and Kafka lets nobody else write its offsets. Name another group with "
                "consumer.override.group.id, or stop these consumers"
            )
        elif error.code() in _GONE:
            self._warn("a topic or partition of it is gone")
        else:
            self._warn(self._admin.faults.explain(error, f"publish offsets of group {self._group}").what.rstrip("."))

    def _warn(self, why: str) -> None:
        if not self._failing:
            text = "The sink's positions cannot be published to group %s: %s. The sink goes on; only lag tools miss it."
            log.warning(text, self._group, why)
        self._failing = True
