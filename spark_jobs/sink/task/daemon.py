"""The process that Spark forks its Python workers from, with imports and logging done once instead of in each worker.

Named by `spark.python.daemon.module`. No connection may be opened before a fork, and no thread be started: neither
lives on in a worker. Its standard error is the executor's: the driver's own with a local master.
"""

import gc
import zipimport

import snowflake.connector  # noqa: F401 - first uses that cost seconds, in one place instead of in each worker
from confluent_kafka.schema_registry import SchemaRegistryClient
from pyspark.daemon import manager

import spark_jobs.sink.methods.registry  # a task names its method, and unpickling imports it
import spark_jobs.sink.task.account_task
import spark_jobs.sink.task.group_task
import spark_jobs.sink.task.partition_task  # noqa: F401
from firn.connector.formats import Format
from firn.logs import configure_logging
from spark_jobs.sink.decode.converters import registered
from spark_jobs.sink.task.orphans import end_forks_with_this_process

if __name__ == "__main__":
    # Spark invalidates Python's import caches before every task, which reads the directory of each archive on the
    # path again: a tenth of a second. Its archives do not change while a worker lives.
    zipimport.zipimporter.invalidate_caches = lambda _self: None  # type: ignore[method-assign, assignment]
    configure_logging()
    for each in Format:
        registered(each)
    SchemaRegistryClient({"url": "http://localhost"})  # connects to nothing, and imports what the first use wants
    # Records come as millions of small objects without cycles, and each collection would look at all of them: half of
    # the time of reading. So a task collects once, at its end, and what was imported is left out.
    gc.collect()
    gc.freeze()
    gc.disable()
    end_forks_with_this_process()
    manager()
