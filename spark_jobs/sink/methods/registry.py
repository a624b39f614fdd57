"""Which ingestion method a configuration names: the only module that knows the modules of all methods."""

from __future__ import annotations

from firn.connector.config import Method
from firn.errors import ConfigError
from spark_jobs.sink.methods.base import IngestionMethod
from spark_jobs.sink.methods.snowpipe.method import Snowpipe
from spark_jobs.sink.methods.streaming.method import Streaming

_METHODS: dict[Method, IngestionMethod] = {Method.SNOWPIPE: Snowpipe(), Method.SNOWPIPE_STREAMING: Streaming()}


def find(method: Method) -> IngestionMethod | None:
    """The implementation of a method; None for one that cannot run yet."""
    return _METHODS.get(method)


def known() -> tuple[IngestionMethod, ...]:
    """All that can run, also those that a configuration does not name: a sink may have had another method before."""
    return tuple(_METHODS.values())


def of(method: Method) -> IngestionMethod:
    """The implementation of a method. Raises ConfigError for one that cannot run yet."""
    if (found := find(method)) is None:
        raise ConfigError(
            f"Method {method} cannot be run yet.",
            where="snowflake.ingestion.method",
            next_step=f"Use one of: {', '.join(_METHODS)}.",
        )
    return found
