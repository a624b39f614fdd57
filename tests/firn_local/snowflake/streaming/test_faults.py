"""Faults that tests may ask for, in process and over HTTP: what a client sees, and that nothing is lost or doubled."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.request
from typing import Any

import pytest

from firn_local.snowflake.streaming.faults import (
    FOREVER,
    Fault,
    cut_connection,
    lost_answer,
    slow,
    stale_token,
    throttled,
    unavailable,
)
from firn_local.snowflake.streaming.row_loader import Rejection
from tests.firn_local.snowflake.streaming.streaming_server import PipeClient, Streaming


@pytest.fixture
def pipe(streaming: Streaming) -> PipeClient:
    streaming.sql("CREATE OR REPLACE TABLE T (A NUMBER)")
    return streaming.client().pipe()


def count(streaming: Streaming) -> int:
    return int(streaming.sql("SELECT COUNT(*) FROM T")[0][0])


def test_faults_happen_as_often_as_asked_and_are_counted(streaming: Streaming, pipe: PipeClient) -> None:
    faults = streaming.endpoint.faults
    before = faults.fired["append"]
    channel = pipe.channel("c")
    faults.add(throttled(2), unavailable(status=502))
    assert [channel.append({"a": 1}).status for _ in range(4)] == [429, 429, 502, 200]
    assert faults.fired["append"] - before == 3
    streaming.settle()
    assert count(streaming) == 1


def test_a_fault_may_wait_and_be_for_one_channel(streaming: Streaming, pipe: PipeClient) -> None:
    one, other = pipe.channel("one"), pipe.channel("other")
    streaming.endpoint.faults.add(Fault("rows", FOREVER, after=1, status=400, code="X", channel="ONE"))
    assert [one.append({"a": 1}).status, one.append({"a": 1}).status] == [200, 400]
    assert other.append({"a": 1}).status == 200


def test_faults_and_rejections_of_a_pipe_strike_no_other_one_and_end_apart(streaming: Streaming) -> None:
    streaming.sql("CREATE OR REPLACE TABLE ONE (A NUMBER)", "CREATE OR REPLACE TABLE OTHER (A NUMBER)")
    one, other = (streaming.client().pipe(f"{name}-STREAMING").channel(f"of {name}") for name in ("ONE", "OTHER"))
    faults = streaming.endpoint.faults
    faults.add(Fault(status=503, pipe="one-streaming"))
    faults.reject(Rejection("$.a", ("1",), pipe="ONE-STREAMING"))
    assert (other.append({"a": 1}).status, one.append({"a": 1}).status) == (200, 503)
    assert other.commit({"a": 1})["rows_error_count"] == 0
    assert one.commit({"a": 1})["rows_error_count"] == 1
    faults.clear("OTHER-STREAMING")
    assert one.commit({"a": 1})["rows_error_count"] == 2
    faults.clear("ONE-STREAMING")
    assert one.commit({"a": 1})["rows_error_count"] == 2


def test_other_requests_can_fail_too(streaming: Streaming, pipe: PipeClient) -> None:
    for api, ask in [("open", lambda: pipe.open("c")), ("pipe-info", pipe.info), ("drop", lambda: pipe.drop("c"))]:
        streaming.endpoint.faults.add(unavailable(api=api))
        assert ask().status == 503
    assert pipe.open("c").status == 200
    with pytest.raises(ValueError, match="api is one of"):
        Fault("append rows")


def test_a_lost_answer_is_a_request_that_was_done(streaming: Streaming, pipe: PipeClient) -> None:
    token = str(pipe.open("c")["next_continuation_token"])
    streaming.endpoint.faults.add(lost_answer())
    with pytest.raises((http.client.HTTPException, OSError)):
        pipe.append("c", token, [{"a": 1}], "1", request_id="same")
    again = streaming.client().pipe()
    assert again.append("c", token, [{"a": 1}], "1", request_id="same").status == 200
    streaming.settle()
    assert count(streaming) == 1


def test_a_connection_that_is_cut_is_a_request_that_was_not_done(streaming: Streaming, pipe: PipeClient) -> None:
    token = str(pipe.open("c")["next_continuation_token"])
    streaming.endpoint.faults.add(cut_connection())
    with pytest.raises((http.client.HTTPException, OSError)):
        pipe.append("c", token, [{"a": 1}], "1")
    streaming.settle()
    assert count(streaming) == 0


def test_stale_and_slow_answers(streaming: Streaming, pipe: PipeClient) -> None:
    channel = pipe.channel("c")
    streaming.endpoint.faults.add(slow(0.01), stale_token())
    assert channel.append({"a": 1}).status == 200
    assert channel.append({"a": 1})["code"] == "STALE_CONTINUATION_TOKEN_SEQUENCER"


def test_an_invalidated_channel_loses_what_was_not_committed_and_must_be_reopened(
    streaming: Streaming, pipe: PipeClient
) -> None:
    channel = pipe.channel("c")
    committed = channel.commit({"a": 1})["last_committed_offset_token"]
    streaming.endpoint.administration.set(commit_paused=True)
    channel.append({"a": 2})
    assert streaming.endpoint.channels.invalidate("c") == 1
    streaming.endpoint.administration.set(commit_paused=False)
    assert channel.append({"a": 3})["code"] == "ERR_CHANNEL_MUST_BE_REOPENED"
    assert channel.status()["channel_status_code"] == "ERR_CHANNEL_MUST_BE_REOPENED"
    again = pipe.channel("c")
    assert again.status()["last_committed_offset_token"] == committed
    again.commit({"a": 2})
    assert count(streaming) == 2


def test_the_same_over_http(streaming: Streaming, pipe: PipeClient) -> None:
    context = ssl.create_default_context(cafile=streaming.endpoint.ca_file)

    def ask(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{streaming.endpoint.url}/_admin/{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=10, context=context) as answer:
            return json.load(answer)

    channel = pipe.channel("c")
    ask("POST", "faults", {"api": "rows", "status": 503, "times": 2})
    assert [channel.append({"a": 1}).status for _ in range(3)] == [503, 503, 200]
    streaming.settle()
    ask("POST", "settings", {"commit_delay": 60})
    channel.append({"a": 2})
    state = ask("GET", "state")
    assert (state["uncommitted_requests"], state["requests"]["rows"] >= 4) == (1, True)
    assert ask("POST", "invalidate", {"channel": "C"}) == {"channels": 1}
    assert channel.append({"a": 3}).status == 400
    ask("POST", "settings", {"commit_delay": 0})
    ask("POST", "rejections", {"path": "$.a", "values": [7]})
    assert pipe.channel("c").commit({"a": 7}, {"a": 8})["rows_error_count"] == 1
    ask("DELETE", "faults")
    with pytest.raises(urllib.error.HTTPError, match="400"):
        ask("POST", "faults", {"no": "field"})
