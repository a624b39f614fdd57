"""What a Spark Python worker keeps between tasks: its Snowflake session and its compiled schemas.

A worker runs one task at a time, so nothing here is shared between threads. Logging in costs about as much as a
small batch, and compiling a schema more than decoding one.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path

from snowflake.connector import SnowflakeConnection

from firn.errors import TransientError
from firn.registry import registry_client, schema_by_id
from firn.retry import with_retries
from firn.secrets import RegistrySecret
from firn.settings import Settings
from firn.snowflake import SnowflakeLogin, close_quietly, open_connection
from spark_jobs.sink.context import SinkContext
from spark_jobs.sink.decode import AvroValueDecoder
from spark_jobs.sink.stage import Stage

_sessions: dict[SnowflakeLogin, SnowflakeConnection] = {}


def now_ms() -> int:
    """The time of this worker's clock in Unix milliseconds."""
    return time.time_ns() // 1_000_000


def decoder_of(context: SinkContext) -> AvroValueDecoder:
    """The decoder of this worker for the registry of this sink."""
    return _decoder(context.registry, context.settings)


@lru_cache(maxsize=4)
def _decoder(secret: RegistrySecret, settings: Settings) -> AvroValueDecoder:
    client = registry_client(settings, secret)

    def schema_of(schema_id: int) -> str:
        return with_retries(settings.retry_deadline_seconds, schema_by_id, client, schema_id)

    return AvroValueDecoder(schema_of)


def upload(context: SinkContext, stage: Stage, file: Path, folder: str) -> None:
    """PUT one file; a session that died since the last task is replaced. Raises as `Stage.put` does."""

    def put() -> None:
        connection = _sessions.get(context.login)
        if connection is None:
            connection = _sessions[context.login] = open_connection(context.login)
        try:
            stage.put(connection, file, folder)
        except TransientError:
            _sessions.pop(context.login, None)
            close_quietly(connection)
            raise

    with_retries(context.settings.retry_deadline_seconds, put)
