"""Where records come from: Spark's own Kafka source, and which topics and partitions a sink reads.

Reading stays apart from decoding, so that another source can take its place: the rest of the sink sees Arrow columns
(`COLUMNS`) only. Options: Spark's Structured Streaming + Kafka integration guide.
"""

from __future__ import annotations

import json
import re

from pyspark.sql import DataFrame, SparkSession

from firn import kafka
from firn.connector.config import SinkConfig
from firn.errors import ConfigError
from firn.kafka_client import KafkaClient
from spark_jobs.sink.ledger import KafkaPartition, Ledger, TopicPartition

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


class NoTopicError(ConfigError):
    """`topics.regex` matches no topic now; one that appears later would be read from its beginning."""


def topics_of(admin: kafka.KafkaAdmin, config: SinkConfig) -> dict[str, kafka.TopicInfo]:
    """The topics the sink reads, as the brokers see them now.

    Raises ConfigError for a topic that does not exist, NoTopicError for a regular expression that matches none.
    """
    if config.topics_regex is None:
        return kafka.describe_topics(admin, config.topics)
    names = [name for name in kafka.topic_names(admin) if re.fullmatch(config.topics_regex, name)]
    if not names:
        raise NoTopicError(
            f"No topic matches {config.topics_regex!r}.",
            where="topics.regex",
            next_step="Create the topic, or correct the expression.",
        )
    return kafka.find_topics(admin, names)


def partitions_of(admin: kafka.KafkaAdmin, config: SinkConfig) -> dict[TopicPartition, KafkaPartition]:
    """Every partition the sink reads, with the offsets it holds. Raises as `topics_of` does."""
    topics = topics_of(admin, config)
    found = [TopicPartition(topic.name, p) for topic in topics.values() for p in range(topic.partitions)]
    earliest, latest = kafka.offsets(admin, found, "earliest"), kafka.offsets(admin, found, "latest")
    return {w: KafkaPartition(topics[w.topic].topic_id, earliest[w], latest[w]) for w in found}


def has_new_partitions(admin: kafka.KafkaAdmin, config: SinkConfig, ledger: Ledger) -> bool:
    """Whether there is a topic or a partition that this epoch has not claimed."""
    known = ledger.committed
    return any(
        TopicPartition(topic.name, number) not in known
        for topic in topics_of(admin, config).values()
        for number in range(topic.partitions)
    )


def open_stream(
    spark: SparkSession, config: SinkConfig, client: KafkaClient, ledger: Ledger, *, limit: int, once: bool
) -> DataFrame:
    """A streaming frame that begins exactly at the ledger's positions; a batch has `limit` records at most."""
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
        "maxOffsetsPerTrigger": str(limit),
    }
    if not once:
        # With AvailableNow these two would leave a tail unread.
        waiting, longest = min(config.buffer.records, limit), config.buffer.seconds
        options |= {"minOffsetsPerTrigger": str(waiting), "maxTriggerDelay": f"{longest}s"}
    return spark.readStream.format("kafka").options(**options).load().select(*COLUMNS)
