"""What a Spark Python worker keeps between an export's tasks: a Snowflake session, registry clients, serializers.

A worker runs one task at a time, so nothing here is shared between threads. Logging in costs more than a small batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

from snowflake.connector import SnowflakeConnection

from firn.errors import AuthenticationError, TransientError
from firn.exports import names
from firn.exports.columns import ColumnVersions
from firn.exports.context import ExportContext
from firn.exports.source import Source
from firn.registry.login import RegistryLogin, registry_client
from firn.snowflake.connection import SnowflakeLogin, close_quietly, open_connection
from spark_jobs.export.messages.serializer import Registries, Serializer

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

_KEPT = 64
_sessions: dict[tuple[SnowflakeLogin, str], SnowflakeConnection] = {}
_serializers: dict[tuple[str, str], tuple[ExportContext, Source, ColumnVersions, Serializer]] = {}


@contextmanager
def session(context: ExportContext) -> Iterator[SnowflakeConnection]:
    """This worker's session; one that died or was revoked is replaced at the next call."""
    key = (context.login, context.config.name)
    if key not in _sessions:
        while _sessions:
            close_quietly(_sessions.popitem()[1])
        _sessions[key] = open_connection(context.login, query_tag=names.query_tag(context.config.name))
    try:
        yield _sessions[key]
    except (TransientError, AuthenticationError):
        if (lost := _sessions.pop(key, None)) is not None:
            close_quietly(lost)
        raise


def serializer_for(context: ExportContext, source: Source, versions: ColumnVersions) -> Serializer:
    """The serializer of a source, made again once anything of it has changed."""
    key = (source.export, source.name)
    known = _serializers.get(key)
    if known is not None and known[:3] == (context, source, versions):
        return known[3]
    if len(_serializers) >= _KEPT:
        _serializers.clear()
    registries = Registries(_client(context.key_registry), _client(context.value_registry))
    made = Serializer(source, context.config, versions, registries)
    _serializers[key] = (context, source, versions, made)
    return made


@lru_cache(maxsize=8)
def _client(login: RegistryLogin | None) -> SchemaRegistryClient | None:
    return None if login is None else registry_client(login)


def close() -> None:
    """End what this process keeps."""
    while _sessions:
        close_quietly(_sessions.popitem()[1])
    _serializers.clear()
