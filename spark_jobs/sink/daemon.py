"""The process that Spark forks its Python workers from, with the sink's imports done once instead of in each worker.

Named by `spark.python.daemon.module`. Imports only: no connection may be opened before a fork.
"""

from pyspark.daemon import manager

import spark_jobs.sink.ship  # noqa: F401

if __name__ == "__main__":
    manager()  # type: ignore[no-untyped-call]
