"""Where records come from: Spark's own Kafka source, and the ranges that it plans.

Reading stays apart from decoding, so that another source can take its place: the rest of the sink sees Arrow columns
(`COLUMNS`) and planned end offsets only. Options: Spark's Structured Streaming + Kafka integration guide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from confluent_kafka.admin import AdminClient
from pyspark.sql import DataFrame, SparkSession

from firn import kafka
from firn.connector_config import SinkConfig
from firn.errors import ConfigError, TransientError
from spark_jobs.sink.ledger import KafkaPartition, Ledger, TopicPartition

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


def partitions_of(admin: AdminClient, config: SinkConfig) -> dict[TopicPartition, KafkaPartition]:
    """Every partition the sink reads, as the brokers see it now.

    Raises ConfigError for a topic that does not exist, or a regular expression that matches none.
    """
    names = config.topics or tuple(
        sorted(name for name in kafka.list_topics(admin) if re.fullmatch(config.topics_regex or "", name))
    )
    if not names:
        raise ConfigError(
            f"No topic matches {config.topics_regex!r}.",
            where="topics.regex",
            next_step="Create the topic, or correct the expression.",
        )
    topics = kafka.describe_topics(admin, names)
    found = [TopicPartition(topic.name, p) for topic in topics.values() for p in range(topic.partitions)]
    earliest, latest = (kafka.offsets(admin, found, which) for which in ("earliest", "latest"))
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
        **(
            {"subscribe": ",".join(config.topics)} if config.topics else {"subscribePattern": config.topics_regex or ""}
        ),
        "startingOffsets": json.dumps(starting),
        "failOnDataLoss": "true",
        "includeHeaders": "true",
        "maxOffsetsPerTrigger": str(config.batch_records),
    }
    if not once:
        # With AvailableNow these two would leave a tail unread.
        options |= {"minOffsetsPerTrigger": str(config.file_records), "maxTriggerDelay": f"{config.flush_seconds}s"}
    return spark.readStream.format("kafka").options(**options).load().select(*COLUMNS)


def planned_ends(spark: SparkSession, checkpoint: str, batch_id: int) -> dict[TopicPartition, int]:
    """The end offsets (exclusive) of a batch, from the plan that Spark writes before it runs the batch.

    The frame that foreachBatch gets does not carry them, and a task without rows cannot name its partition.
    """
    text = _read_text(spark, f"{checkpoint}/offsets/{batch_id}")
    lines = text.splitlines()
    if len(lines) < 3 or lines[0] != "v1":
        raise TransientError(
            f"Spark's plan of batch {batch_id} cannot be read.",
            where=f"{checkpoint}/offsets/{batch_id}",
            next_step="The next run makes a new checkpoint.",
        )
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in json.loads(lines[2]).items()
        for partition, offset in partitions.items()
    }


def _read_text(spark: SparkSession, path: str) -> str:
    """A small text file from any file system that Spark knows."""
    jvm: Any = spark.sparkContext._jvm
    hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
    stream = hadoop_path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()).open(hadoop_path)
    try:
        return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream)).decode()
    finally:
        stream.close()
