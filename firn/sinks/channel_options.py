"""How the streaming client of a sink behaves, as its configuration says: `StreamingConfig` as `ClientOptions`."""

from __future__ import annotations

from firn.channels.client import ClientOptions
from firn.connector.config import StreamingConfig

_MEGABYTE = 1024 * 1024


def client_options(streaming: StreamingConfig) -> ClientOptions:
    """The options of every client of the sink. Limits are whole milliseconds, and megabytes that are not cut short."""
    usual = ClientOptions()
    memory = usual.memory_mb if streaming.memory_bytes is None else -(-streaming.memory_bytes // _MEGABYTE)
    return ClientOptions(
        lag_ms=round(streaming.client_lag_seconds * 1000), memory_mb=memory, properties=streaming.client_properties
    )
