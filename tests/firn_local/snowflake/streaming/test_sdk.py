"""The official SDK against the endpoint: rowset and file mode, fencing, repeated requests, wrong keys."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import SecretStr

from firn_local.servers.seed import public_key
from firn_local.snowflake.streaming.faults import lost_answer, throttled, unavailable
from tests.firn_local.snowflake.streaming.streaming_server import KEY, Streaming, wait_until

_QUICK = {
    "channel_status_cache_refresh_interval_seconds": "0",
    "data_retry_initial_backoff_seconds": "1",
    "data_retry_max_backoff_seconds": "1",
    "mgmt_retry_initial_backoff_seconds": "1",
    "mgmt_retry_total_backoff_seconds": "3",
}
Open = Callable[..., Any]


@pytest.fixture
def client(streaming: Streaming, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Makes SDK clients: client(pipe, property=...)."""
    monkeypatch.setenv("SS_LOG_LEVEL", "error")
    monkeypatch.setenv("SS_LOG_TARGET", "stderr")
    monkeypatch.setenv("SSL_CERT_FILE", str(streaming.endpoint.ca_file))
    from snowflake.ingest.streaming import StreamingIngestClient

    opened = []

    def make(pipe: str = "T-STREAMING", **more: str) -> Any:
        properties = {"account": "acct", "user": "me", "url": streaming.endpoint.url, "private_key": KEY}
        fixed = {"enable_telemetry_reporting": "false", "mem_throttle_by_process": "false"}
        made = StreamingIngestClient(
            f"c{len(opened)}", "D", "PUBLIC", pipe, properties=properties | fixed | _QUICK | more
        )
        opened.append(made)
        return made

    streaming.sql("CREATE OR REPLACE TABLE T (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)")
    yield make
    for each in opened:
        each.close()


def rows(first: int, last: int, padding: str = "") -> list[dict[str, Any]]:
    return [
        {"RECORD_METADATA": {"offset": at}, "RECORD_CONTENT": {"id": at, "p": padding}} for at in range(first, last + 1)
    ]


def append(channel: Any, first: int, last: int, padding: str = "") -> None:
    channel.append_rows(rows(first, last, padding), str(first), str(last))


def committed(channel: Any, token: int) -> None:
    wait_until(lambda: int(channel.get_latest_committed_offset_token() or -1) >= token, seconds=30)


def offsets(streaming: Streaming) -> list[int]:
    return [int(at) for (at,) in streaming.sql("SELECT RECORD_METADATA:offset::INT FROM T ORDER BY 1")]


def test_rows_and_files_arrive_and_a_reopened_channel_knows_its_token(streaming: Streaming, client: Open) -> None:
    requests = streaming.endpoint.faults.requests
    first = client()
    channel, status = first.open_channel("c")
    assert (status.latest_committed_offset_token, status.status_code) == (None, "SUCCESS")
    append(channel, 0, 99)
    committed(channel, 99)
    assert (requests["rows"] > 0, requests["filebuffer"]) == (True, 0)
    append(channel, 100, 8099, os.urandom(100).hex())
    committed(channel, 8099)
    assert requests["filebuffer"] > 0
    assert requests["upload"] == requests["filebuffer"]
    assert offsets(streaming) == list(range(8100))
    _, again = client().open_channel("c")
    assert again.latest_committed_offset_token == "8099"
    assert (again.rows_inserted_count, again.rows_error_count) == (8100, 0)


def test_throttled_unavailable_and_lost_answers_double_nothing(streaming: Streaming, client: Open) -> None:
    channel, _ = client().open_channel("r")
    streaming.endpoint.faults.add(throttled(), unavailable(), lost_answer())
    append(channel, 0, 9)
    committed(channel, 9)
    assert offsets(streaming) == list(range(10))


def test_a_second_client_fences_the_first(streaming: Streaming, client: Open) -> None:
    from snowflake.ingest.streaming import StreamingIngestError

    old, _ = client().open_channel("f")
    append(old, 0, 4)
    committed(old, 4)
    new, status = client().open_channel("f")
    assert status.latest_committed_offset_token == "4"
    append(old, 5, 9)
    with pytest.raises(StreamingIngestError, match="STALE_CONTINUATION_TOKEN_SEQUENCER"):
        old.wait_for_flush(10)
    append(new, 5, 6)
    committed(new, 6)
    assert offsets(streaming) == list(range(7))


def test_rejected_rows_are_counted_and_the_token_passes_them(streaming: Streaming, client: Open) -> None:
    streaming.sql("CREATE OR REPLACE TABLE E (A NUMBER NOT NULL)")
    channel, _ = client("E-STREAMING").open_channel("e")
    channel.append_rows([{"a": 1}, {"a": "x"}, {"b": 1}], "0", "2")
    committed(channel, 2)
    status = channel.get_channel_status()
    assert (status.rows_parsed_count, status.rows_inserted_count, status.rows_error_count) == (3, 1, 2)
    assert status.last_error_offset_token_upper_bound == "2"
    assert status.last_error_message


def test_a_channel_can_be_dropped(streaming: Streaming, client: Open) -> None:
    opened = client()
    channel, _ = opened.open_channel("d")
    append(channel, 0, 1)
    committed(channel, 1)
    channel.close(drop=True)
    assert streaming.sql("SHOW CHANNELS LIKE 'd'") == []


def test_a_user_logs_in_with_its_key(streaming: Streaming, client: Open) -> None:
    """The SDK's JWT has its times in milliseconds; who has the wrong key is refused (`test_access`)."""
    streaming.sql(f"CREATE USER KEYED RSA_PUBLIC_KEY = '{public_key(SecretStr(KEY))}' DEFAULT_ROLE = ACCOUNTADMIN")
    streaming.sql("GRANT ROLE ACCOUNTADMIN TO USER KEYED")
    try:
        channel, _ = client(user="keyed", role="ACCOUNTADMIN").open_channel("k")
        append(channel, 0, 1)
        committed(channel, 1)
    finally:
        streaming.sql("DROP USER KEYED")
