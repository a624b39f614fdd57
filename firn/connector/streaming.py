"""The parameters of SNOWPIPE_STREAMING: which of them count here, and the `StreamingConfig` that comes of them.

The official connector gives its client properties in two ways: by parameters of their own, which win, and by
snowflake.streaming.client.provider.override.map, whose names are taken in any case. The classic connector's client has
other names than that of version 4 (`snowpipe-streaming` 1.9, whose configuration names these). Not for the client
itself (`firn.channels`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from firn.connector.check import Check
from firn.connector.config import Method, StreamingConfig

LAG = "snowflake.streaming.max.client.lag"
MEMORY = "snowflake.streaming.max.memory.limit.bytes"
MAP = "snowflake.streaming.client.provider.override.map"
OPTIMIZATION = "enable.streaming.client.optimization"

_NUMBER = re.compile(r"[0-9]{1,15}(\.[0-9]{1,9})?")
_BOOLEAN = re.compile(r"true|false")
_LAG_OF_CLIENT = "max_append_request_buffer_duration_ms"
_LAG_OF_CLASSIC, _MEMORY_OF_CLASSIC = "max_client_lag", "max_memory_limit_in_bytes"
_RETRIES = ("initial_backoff_seconds", "backoff_multiplier", "max_backoff_seconds", "total_backoff_seconds")
_SWITCHES = (
    *("mem_throttle_by_process", "mem_throttle_by_system", "mem_throttle_by_pod", "ignore_switch_to_file_mode"),
    *("enable_rowset_compression", "treat_misclassified_404_as_500", "enable_telemetry_reporting"),
    "http11_disable_connection_reuse",
)
_NUMBERS = (
    *("mgmt_http_timeout_seconds", "data_http_timeout_seconds", "mgmt_retry_jitter_ratio", "data_retry_jitter_ratio"),
    *(f"{kind}_retry_{part}" for kind in ("mgmt", "data", "open_channel_409") for part in _RETRIES),
    *("mem_throttle_threshold_percentage", "mem_throttle_threshold_mb_by_process", "skip_mem_throttle_if_available_mb"),
    *("per_file_upload_timeout_seconds", "file_upload_initial_backoff_seconds", "file_upload_max_backoff_seconds"),
    *("file_upload_total_backoff_seconds", "file_upload_max_retry_count", "gcs_streaming_chunk_size_bytes"),
    *("max_buffered_kb_for_rowset_mode", "target_rowset_payload_size_mb", "max_rowset_payload_size_mb"),
    *("target_buffer_file_size_mb", "num_failure_before_forcing_file_mode", "force_file_mode_seconds"),
    *("max_append_request_size_mb", "max_outstanding_snowflake_requests", "max_inflight_rows_per_channel"),
    *("max_inflight_megabytes_per_channel", _LAG_OF_CLIENT, "channel_status_cache_refresh_interval_seconds"),
    *("pipe_info_refresh_buffer_duration_seconds", "auth_refresh_buffer_duration_seconds"),
)
_TUNING: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(_NUMBERS, _NUMBER),
    **dict.fromkeys(_SWITCHES, _BOOLEAN),
}
_LOGIN = (
    *("account", "user", "role", "url", "host", "port", "scheme", "ssl", "private_key", "private_key_passphrase"),
    *("authorization_type", "personal_access_token", "application", "file_upload_endpoint", "data_header_overrides"),
    *("oauth_client_id", "oauth_client_secret", "oauth_refresh_token", "oauth_token_endpoint", "oauth_scope"),
)
_OF_CLASSIC = (
    *("max_channel_size_in_bytes", "max_chunk_size_in_bytes", "max_allowed_row_size_in_bytes", "io_time_cpu_ratio"),
    *("insert_throttle_interval_in_millis", "insert_throttle_threshold_in_percentage", "blob_upload_max_retry_count"),
    *("insert_throttle_threshold_in_bytes", "max_client_lag_enabled", "bdec_parquet_compression_algorithm"),
    *("buffer_flush_interval_in_millis", "buffer_flush_check_interval_in_millis", "blob_format_version"),
    *("enable_snowpipe_streaming_metrics", "max_chunks_in_blob", "max_chunks_in_blob_and_registration_request"),
)


def check_streaming(check: Check) -> None:
    """What is wrong with the properties of the client, and which of them have no effect."""
    given = _properties(check)
    for name, text in given.items():
        pattern = _TUNING.get(name, _NUMBER if name in (_LAG_OF_CLASSIC, _MEMORY_OF_CLASSIC) else None)
        if pattern and not pattern.fullmatch(text):
            check.fault(MAP, f"{name}: the value is not {'true or false' if pattern is _BOOLEAN else 'a number'}")
    for reason in _without_effect(check, given):
        check.warn(MAP, reason)


def streaming_config(check: Check) -> StreamingConfig:
    """The parameters of the method, of a file without faults; with SNOWPIPE the defaults."""
    if check.method is Method.SNOWPIPE:
        return StreamingConfig()
    given = _properties(check)
    memory = int(check.get(MEMORY) if check.has(MEMORY) else given.get(_MEMORY_OF_CLASSIC, "-1"))
    return StreamingConfig(
        client_lag_seconds=_lag(check, given),
        memory_bytes=memory if memory > 0 else None,
        client_properties=tuple((name, given[name]) for name in given if name in _TUNING and name != _LAG_OF_CLIENT),
        ledger_seconds=check.get("firn.ledger.seconds"),
        idle_seconds=check.get("firn.streaming.idle.seconds"),
    )


def _lag(check: Check, given: Mapping[str, str]) -> float:
    """The longest that the client keeps rows, in seconds: the parameter's own, else the map's, else the default."""
    if not check.has(LAG) and _LAG_OF_CLIENT in given:
        return float(given[_LAG_OF_CLIENT]) / 1000
    if not check.has(LAG) and _LAG_OF_CLASSIC in given:
        return float(given[_LAG_OF_CLASSIC])
    return float(check.get(LAG))


def _properties(check: Check) -> dict[str, str]:
    """The properties of the map by their names in lower case, as the official connector reads it."""
    if not check.has(MAP) or check.given[MAP].value is None:
        return {}
    return {name.lower(): text.strip().lower() for name, text in check.given[MAP].value.get_secret_value()}


def _without_effect(check: Check, given: Mapping[str, str]) -> Iterator[str]:
    """Sentences about properties that change nothing. An unknown name is not shown: it may be a misplaced secret."""
    if login := _listed(given, _LOGIN):
        yield f"{login}: has no effect: the sink's own login and address are used."
    if older := _listed(given, _OF_CLASSIC):
        yield f"{older}: has no effect: it belongs to the classic connector's client, whose buffers Firn does not have."
    for parameter, names in ((LAG, (_LAG_OF_CLIENT, _LAG_OF_CLASSIC)), (MEMORY, (_MEMORY_OF_CLASSIC,))):
        if check.has(parameter) and (second := _listed(given, names)):
            yield f"{second}: has no effect beside {parameter}, which wins."
    known = {*_TUNING, *_LOGIN, *_OF_CLASSIC, _LAG_OF_CLASSIC, _MEMORY_OF_CLASSIC}
    if unknown := sum(name not in known for name in given):
        yield f"has {unknown} without effect: the client (snowpipe-streaming 1.9) has no property of that name."


def _listed(given: Mapping[str, str], names: tuple[str, ...]) -> str:
    return ", ".join(name for name in names if name in given)
