"""Spark's checkpoint: a plan of one epoch and nothing more. Any file system that Spark knows."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from firn.errors import TransientError
from spark_jobs.sink.ledger import TopicPartition
from spark_jobs.sink.spark_faults import translated


def new_checkpoint(spark: SparkSession, folder: str, epoch: int) -> str:
    """The checkpoint of a new epoch; those of older epochs, which nothing reads again, are removed.

    So is one that bears this epoch's own number (a copy, or of a ledger that was dropped): the ledger gives a number to
    one run only. Those of newer epochs stay: a newer run may be using one. Raises TransientError where the place fails.
    """
    with translated(folder):
        path, files = _open(spark, folder)
        for status in files.listStatus(path) if files.exists(path) else ():
            if (name := str(status.getPath().getName())).isdecimal() and int(name) <= epoch:
                files.delete(status.getPath(), True)
        own, _ = _open(spark, f"{folder}/{epoch}")
        left = files.exists(own)
    if left:  # Spark would go on with that plan, which may begin above the ledger
        raise TransientError(
            "The plan of another epoch of this number could not be removed.",
            where=f"{folder}/{epoch}",
            next_step="Remove this folder, or give the sink's user the right to.",
        )
    return f"{folder}/{epoch}"


def planned_ends(spark: SparkSession, checkpoint: str, batch_id: int) -> dict[TopicPartition, int]:
    """The end offsets (exclusive) of a batch, from the plan that Spark writes before it runs the batch.

    The frame that foreachBatch gets does not carry them, and a task without rows cannot name its partition. Raises
    TransientError where the plan cannot be read.
    """
    file = f"{checkpoint}/offsets/{batch_id}"
    with translated(file):
        lines = _read_text(spark, file).splitlines()
    if len(lines) < 3 or lines[0] != "v1":
        raise TransientError(
            f"Spark's plan of batch {batch_id} cannot be read.",
            where=file,
            next_step="Nothing to do: the next epoch makes a new checkpoint.",
        )
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, partitions in json.loads(lines[2]).items()
        for partition, offset in partitions.items()
    }


def _read_text(spark: SparkSession, file: str) -> str:
    path, files = _open(spark, file)
    stream = files.open(path)
    try:
        return bytes(_jvm(spark).org.apache.commons.io.IOUtils.toByteArray(stream)).decode()
    finally:
        stream.close()


def _open(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """A Hadoop path and its file system."""
    hadoop_path = _jvm(spark).org.apache.hadoop.fs.Path(path)
    return hadoop_path, hadoop_path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())


def _jvm(spark: SparkSession) -> Any:
    return spark.sparkContext._jvm
