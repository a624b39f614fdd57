"""What a configuration says about the streaming client reaches the properties of Snowflake's SDK."""

from __future__ import annotations

from pydantic import SecretStr

from firn.channels.client import ClientOptions, client_properties
from firn.connector.config import StreamingConfig
from firn.settings import Settings
from firn.sinks.channel_options import client_options
from firn.snowflake.connection import SnowflakeLogin
from spark_jobs.sink.methods.streaming.method import ROW_BYTES
from tests.support.connectors import private_key

LAG, MEMORY = "max_append_request_buffer_duration_ms", "max_inflight_megabytes_per_channel"


def test_without_parameters_the_client_is_as_firn_has_it() -> None:
    assert client_options(StreamingConfig()) == ClientOptions()


def test_parameters_become_properties_of_the_client() -> None:
    streaming = StreamingConfig(0.0335, 42_000_000, (("data_retry_total_backoff_seconds", "7"), (MEMORY, "64")))
    options = client_options(streaming)
    assert (options.lag_ms, options.memory_mb) == (34, 41)
    properties = client_properties(_login(), Settings(), options)
    assert (properties[LAG], properties["data_retry_total_backoff_seconds"], properties[MEMORY]) == ("34", "7", "64")


def test_the_largest_row_always_fits_into_the_client() -> None:
    assert client_options(StreamingConfig(memory_bytes=1)).memory_mb * 1_000_000 > ROW_BYTES


def _login() -> SnowflakeLogin:
    names = ("a", "U", "R", "W", "D", "S", "a.b.example.com")
    return SnowflakeLogin(*names, 443, "https", SecretStr(private_key()))
