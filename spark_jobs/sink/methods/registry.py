"""Which ingestion method a configuration names: the only module that knows the modules of all methods."""

from __future__ import annotations

from firn.connector.config import Method
from spark_jobs.sink.methods.base import IngestionMethod
from spark_jobs.sink.methods.snowpipe.method import Snowpipe
from spark_jobs.sink.methods.streaming.method import Streaming

_METHODS: dict[Method, IngestionMethod] = {Method.SNOWPIPE: Snowpipe(), Method.SNOWPIPE_STREAMING: Streaming()}


def known() -> tuple[IngestionMethod, ...]:
    """All methods, also those that a configuration does not name: a sink may have had another method before."""
    return tuple(_METHODS.values())


def of(method: Method) -> IngestionMethod:
    """The implementation of a method."""
    return _METHODS[method]
