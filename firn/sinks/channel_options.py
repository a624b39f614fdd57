"""How the streaming client of a sink behaves, as its configuration says: `StreamingConfig` as `ClientOptions`."""

from __future__ import annotations

from firn.channels.client import ClientOptions
from firn.connector.config import StreamingConfig

_MEGABYTE = 1024 * 1024
LEAST_MEMORY_MB = 20
"""A client takes no row that is larger than its memory: the largest row of the method, 16 MB, must fit in."""


def client_options(streaming: StreamingConfig) -> ClientOptions:
    """The options of every client of the sink, in whole milliseconds and megabytes (LEAST_MEMORY_MB or more)."""
    usual = ClientOptions()
    memory = usual.memory_mb if streaming.memory_bytes is None else -(-streaming.memory_bytes // _MEGABYTE)
    lag_ms, memory_mb = round(streaming.client_lag_seconds * 1000), max(LEAST_MEMORY_MB, memory)
    return ClientOptions(lag_ms=lag_ms, memory_mb=memory_mb, properties=streaming.client_properties)
