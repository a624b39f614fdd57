"""Which topics and partitions a sink reads, and what Kafka holds of them. Not for their records (`firn.kafka`)."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import IsolationLevel

from firn.connector.config import SinkConfig
from firn.errors import ConfigError
from firn.java_regex import matches
from firn.kafka import cluster
from firn.kafka.partitions import KafkaPartition, TopicPartition


class NoTopicError(ConfigError):
    """`topics.regex` matches no topic now; one that appears later would be read from its beginning."""


def topics_of(admin: cluster.KafkaAdmin, config: SinkConfig) -> dict[str, cluster.TopicInfo]:
    """The topics the sink reads, as the brokers see them now.

    Raises ConfigError for a topic that does not exist, NoTopicError for a regular expression that matches none.
    """
    if config.topics_regex is None:
        return cluster.describe_topics(admin, config.topics)
    names = matching_topics(admin, config.topics_regex)
    if not names:
        raise NoTopicError(
            f"No topic matches {config.topics_regex!r}.",
            where="topics.regex",
            next_step="Create the topic, or correct the expression.",
        )
    return cluster.find_topics(admin, names)


def matching_topics(admin: cluster.KafkaAdmin, expression: str) -> list[str]:
    """The topics whose whole name matches; internal ones never do."""
    return [name for name in cluster.topic_names(admin) if matches(expression, name)]


def partitions_of(admin: cluster.KafkaAdmin, config: SinkConfig) -> dict[TopicPartition, KafkaPartition]:
    """Every partition the sink reads, with the offsets it holds. Raises as `topics_of` does."""
    return partitions_in(admin, topics_of(admin, config))


def partitions_in(
    admin: cluster.KafkaAdmin, topics: Mapping[str, cluster.TopicInfo]
) -> dict[TopicPartition, KafkaPartition]:
    """Every partition of these topics, with the offsets it holds."""
    found = [TopicPartition(topic.name, p) for topic in topics.values() for p in range(topic.partitions)]
    earliest, latest = cluster.offsets(admin, found, "earliest"), cluster.offsets(admin, found, "high_watermark")
    stable: Mapping[tuple[str, int], int] = {}
    if admin.isolation is IsolationLevel.READ_COMMITTED:
        stable = cluster.offsets(admin, found, "latest")
    return {w: KafkaPartition(topics[w.topic].topic_id, earliest[w], latest[w], stable.get(w)) for w in found}


def changed_partitions(
    admin: cluster.KafkaAdmin, config: SinkConfig, claimed: Mapping[TopicPartition, KafkaPartition]
) -> bool:
    """Whether there is a topic or partition that was not claimed, or a claimed topic was made again.

    Where no topic is left there is nothing to claim, so nothing has changed.
    """
    try:
        topics = topics_of(admin, config).values()
    except NoTopicError:
        return False
    now = {TopicPartition(topic.name, number): topic.topic_id for topic in topics for number in range(topic.partitions)}
    return any(where not in claimed or claimed[where].topic_id != topic_id for where, topic_id in now.items())
