"""Where records come from: Spark's own Kafka source.

Reading stays apart from decoding, so that another source can take its place: the rest of the sink sees Arrow columns
(`COLUMNS`) only. Options: Spark's Structured Streaming + Kafka integration guide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from firn import kafka
from firn.connector_config import SinkConfig
from firn.errors import ConfigError
from spark_jobs.sink.ledger import KafkaPartition, Ledger, TopicPartition

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


def partitions_of(admin: kafka.KafkaAdmin, config: SinkConfig) -> dict[TopicPartition, KafkaPartition]:
    """Every partition the sink reads, as the brokers see it now.

    Raises ConfigError for a topic that does not exist, or a regular expression that matches none.
    """
    names = config.topics or tuple(
        sorted(name for name in kafka.topic_names(admin) if re.fullmatch(config.topics_regex or "", name))
    )
    if not names:
        raise ConfigError(
            f"No topic matches {config.topics_regex!r}.",
            where="topics.regex",
            next_step="Create the topic, or correct the expression.",
        )
    topics = kafka.describe_topics(admin, names)
    found = [TopicPartition(topic.name, p) for topic in topics.values() for p in range(topic.partitions)]
    earliest, latest = kafka.offsets(admin, found, "earliest"), kafka.offsets(admin, found, "latest")
    return {w: KafkaPartition(topics[w.topic].topic_id, earliest[w], latest[w]) for w in found}


def open_stream(
    spark: SparkSession, config: SinkConfig, client: Mapping[str, str], ledger: Ledger, *, once: bool
) -> DataFrame:
    """A streaming frame that begins exactly at the ledger's positions. `client` holds Java client options."""
    starting: dict[str, dict[str, int]] = {}
    for where, offset in ledger.committed.items():
        starting.setdefault(where.topic, {})[str(where.partition)] = offset
    options = {
        **{f"kafka.{name}": value for name, value in client.items()},
        # The claimed topics, also for topics.regex: Spark would read the expression in Java's dialect.
        "subscribe": ",".join(sorted({where.topic for where in ledger.committed})),
        "startingOffsets": json.dumps(starting),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(config.batch_records),
    }
    if not once:
        # With AvailableNow these two would leave a tail unread.
        options |= {"minOffsetsPerTrigger": str(config.file_records), "maxTriggerDelay": f"{config.flush_seconds}s"}
    return spark.readStream.format("kafka").options(**options).load().select(*COLUMNS)
