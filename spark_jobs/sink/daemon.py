"""The process that Spark forks its Python workers from, with imports and logging done once instead of in each worker.

Named by `spark.python.daemon.module`. No connection may be opened before a fork. Its
standard error is the executor's: the driver's own with a local master.
"""

import zipimport

from pyspark.daemon import manager

import spark_jobs.sink.ship  # noqa: F401
from firn.logs import configure_logging

if __name__ == "__main__":
    # Spark invalidates Python's import caches before every task, which reads the directory of each archive on the
    # path again: a tenth of a second. Its archives do not change while a worker lives.
    zipimport.zipimporter.invalidate_caches = lambda _self: None  # type: ignore[method-assign, assignment]
    configure_logging()
    manager()  # type: ignore[no-untyped-call]
