"""Where records come from: Spark's own Kafka source, and which topics and partitions a sink reads.

Reading stays apart from decoding, so that another source can take its place: the rest of the sink sees Arrow columns
(`COLUMNS`) only. Options: Spark's Structured Streaming + Kafka integration guide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from firn.connector.config import BufferConfig, SinkConfig
from firn.errors import ConfigError
from firn.kafka import cluster
from firn.kafka.client import KafkaClient
from spark_jobs.sink.ledger import KafkaPartition, Ledger, TopicPartition
from spark_jobs.sink.limits import BatchLimit

if TYPE_CHECKING:  # who only asks for topics needs no Spark
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


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
    return [name for name in cluster.topic_names(admin) if re.fullmatch(expression, name)]


def partitions_of(admin: cluster.KafkaAdmin, config: SinkConfig) -> dict[TopicPartition, KafkaPartition]:
    """Every partition the sink reads, with the offsets it holds. Raises as `topics_of` does."""
    return partitions_in(admin, topics_of(admin, config))


def partitions_in(
    admin: cluster.KafkaAdmin, topics: Mapping[str, cluster.TopicInfo]
) -> dict[TopicPartition, KafkaPartition]:
    """Every partition of these topics, with the offsets it holds."""
    found = [TopicPartition(topic.name, p) for topic in topics.values() for p in range(topic.partitions)]
    earliest, latest = cluster.offsets(admin, found, "earliest"), cluster.offsets(admin, found, "latest")
    return {w: KafkaPartition(topics[w.topic].topic_id, earliest[w], latest[w]) for w in found}


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


def open_stream(
    spark: SparkSession, client: KafkaClient, ledger: Ledger, limit: BatchLimit, buffer: BufferConfig | None
) -> DataFrame:
    """A streaming frame that begins exactly at the ledger's positions.

    A batch has `limit.records` records at most. With a buffer it waits for `limit.waiting` records, or the buffer's
    seconds; without one nothing waits (AvailableNow would leave a tail unread).
    """
    starting: dict[str, dict[str, int]] = {}
    for where, offset in ledger.committed.items():
        starting.setdefault(where.topic, {})[str(where.partition)] = offset
    options = {
        **{f"kafka.{name}": value for name, value in client.jvm_options().items()},
        # The claimed topics, also for topics.regex: Spark would read the expression in Java's dialect.
        "subscribe": ",".join(sorted({where.topic for where in ledger.committed})),
        "startingOffsets": json.dumps(starting),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(limit.records),
    }
    if buffer:
        options |= {"minOffsetsPerTrigger": str(limit.waiting), "maxTriggerDelay": f"{buffer.seconds}s"}
    return spark.readStream.format("kafka").options(**options).load().select(*COLUMNS)
