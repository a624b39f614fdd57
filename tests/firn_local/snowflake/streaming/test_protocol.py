"""The streaming protocol below the SDK: logins, channels, continuation tokens, statuses, as any client sees them."""

from __future__ import annotations

import time

import jwt
import pytest

from tests.firn_local.snowflake.streaming.streaming_server import PipeClient, Streaming

ROW = {"A": 1}


@pytest.fixture
def pipe(streaming: Streaming) -> PipeClient:
    streaming.sql("CREATE OR REPLACE TABLE T (A NUMBER)")
    return streaming.client().pipe()


def rows(streaming: Streaming) -> list[int]:
    return [int(a) for (a,) in streaming.sql("SELECT A FROM T ORDER BY A")]


def test_host_and_token_are_bare_text(streaming: Streaming) -> None:
    client = streaming.client()
    assert client.text("GET", "/v2/streaming/hostname") == "127.0.0.1"
    claims = jwt.decode(client.text("POST", "/oauth/token"), options={"verify_signature": False})
    assert claims["exp"] > time.time() + 3000


def test_a_token_that_is_not_ours_or_has_expired_is_refused(streaming: Streaming, pipe: PipeClient) -> None:
    streaming.endpoint.administration.set(token_seconds=-1)
    client = streaming.client()
    assert (answer := client.pipe().open("c")).status == 401
    assert answer["code"] == "390318"
    client.scoped = client.login
    assert client.pipe().open("c")["code"] == "390303"


def test_uploads_go_to_this_server_and_nowhere_else(streaming: Streaming, pipe: PipeClient) -> None:
    info = pipe.info()
    places = [info["rowset_stage_location"], info["durable_stage_location"]]
    assert {place["storage_endpoint"] for place in places} == {f"127.0.0.1:{streaming.endpoint.port}"}
    assert pipe.info()["rowset_stage_location"]["path_prefix"] != places[0]["path_prefix"]
    refused = streaming.client().ask("PUT", "/firn-local-streaming/guessed/0.ndjson", b"x")
    assert refused.status == 403


def test_rows_are_taken_then_committed_with_their_token(streaming: Streaming, pipe: PipeClient) -> None:
    opened = pipe.open("c1")
    assert opened["channel_status"]["last_committed_offset_token"] is None
    assert opened["channel_status"]["channel_status_code"] == "SUCCESS"
    streaming.endpoint.administration.set(commit_paused=True)
    channel = pipe.channel("c1")
    assert channel.append({"A": 1}, {"A": 2}, end="7").status == 200
    assert rows(streaming) == []
    assert channel.status()["last_committed_offset_token"] is None
    streaming.endpoint.administration.set(commit_paused=False)
    streaming.settle()
    status = channel.status()
    assert (status["last_committed_offset_token"], status["rows_inserted"], status["rows_parsed"]) == ("7", 2, 2)
    assert rows(streaming) == [1, 2]


def test_blank_lines_are_no_rows(streaming: Streaming, pipe: PipeClient) -> None:
    token = pipe.open("blank")["next_continuation_token"]
    assert pipe.append("blank", token, b'\n{"A":1}\n\n\r\n{"A":2}\n\n', "x").status == 200
    streaming.settle()
    assert (rows(streaming), pipe.status("blank")["rows_parsed"]) == ([1, 2], 2)


def test_a_repeated_request_is_taken_once(streaming: Streaming, pipe: PipeClient) -> None:
    token = str(pipe.open("c2")["next_continuation_token"])
    answers = [pipe.append("c2", token, [ROW], "1", request_id="same") for _ in range(3)]
    assert len({answer["next_continuation_token"] for answer in answers}) == 1
    assert pipe.append("c2", token, [ROW], "1", request_id="another")["code"] == "STALE_CONTINUATION_TOKEN_SEQUENCER"
    streaming.settle()
    assert rows(streaming) == [1]


def test_the_second_opener_fences_the_first(streaming: Streaming, pipe: PipeClient) -> None:
    first = pipe.channel("c3")
    first.commit(ROW)
    second = streaming.client().pipe().channel("c3")
    refused = first.append(ROW)
    assert (refused.status, refused["code"]) == (400, "STALE_CONTINUATION_TOKEN_SEQUENCER")
    assert second.commit(ROW)["rows_inserted"] == 2
    assert rows(streaming) == [1, 1]


def test_rows_that_skip_a_request_are_refused(pipe: PipeClient) -> None:
    channel = pipe.channel("c4")
    client, _, row = channel.continuation.partition("_")
    answer = pipe.append("c4", f"{client}_{int(row) + 1}", [ROW], "1")
    assert (answer.status, answer["code"]) == (400, "ERR_CHANNEL_MUST_BE_REOPENED_DUE_TO_ROW_SEQ_GAP")
    assert pipe.append("c4", "no token", [ROW], "1").status == 400


def test_a_channel_with_uncommitted_rows_opens_only_by_force_which_discards_them(
    streaming: Streaming, pipe: PipeClient
) -> None:
    channel = pipe.channel("c5")
    channel.commit({"A": 1})
    token = channel.status()["last_committed_offset_token"]
    streaming.endpoint.administration.set(commit_paused=True)
    channel.append({"A": 2})
    refused = pipe.open("c5")
    assert (refused.status, refused["code"]) == (409, "ERR_CHANNEL_HAS_UNCOMMITTED_DATA")
    forced = pipe.open("c5", fail=False)
    assert forced["channel_status"]["last_committed_offset_token"] == token
    streaming.endpoint.administration.set(commit_paused=False)
    streaming.settle()
    assert rows(streaming) == [1]


def test_an_offset_token_can_be_given_when_opening(pipe: PipeClient) -> None:
    assert pipe.open("c6", offset_token="77")["channel_status"]["last_committed_offset_token"] == "77"
    assert pipe.open("c6")["channel_status"]["last_committed_offset_token"] == "77"


def test_statuses_leave_out_what_does_not_exist(pipe: PipeClient) -> None:
    pipe.open("c7")
    assert list(pipe.statuses("c7", "nobody")) == ["c7"]


def test_a_dropped_channel_is_gone_and_comes_back_new(streaming: Streaming, pipe: PipeClient) -> None:
    channel = pipe.channel("c8")
    before = channel.commit(ROW)
    assert pipe.drop("c8")["last_committed_offset_token"] == before["last_committed_offset_token"]
    assert pipe.drop("c8").status == 404
    assert channel.append(ROW)["code"] == "ERR_CHANNEL_DOES_NOT_EXIST_OR_IS_NOT_AUTHORIZED"
    again = pipe.open("c8")["channel_status"]
    assert (again["last_committed_offset_token"], again["rows_inserted"]) == (None, 0)
    assert again["created_on_ms"] >= before["created_on_ms"]


def test_names_are_found_in_any_case(streaming: Streaming, pipe: PipeClient) -> None:
    pipe.channel("Mixed").commit(ROW)
    other = streaming.client().pipe("t-streaming", "d", "public")
    assert other.status("mIXED")["rows_inserted"] == 1


def test_unknown_pipes_and_channels_are_told_apart(streaming: Streaming, pipe: PipeClient) -> None:
    nowhere = streaming.client().pipe("NOPE-STREAMING")
    assert nowhere.info()["code"] == nowhere.open("c")["code"] == "ERR_PIPE_DOES_NOT_EXIST_OR_NOT_AUTHORIZED"
    assert nowhere.info().status == 404
    assert pipe.append("nobody", "0_1", [ROW], "1")["code"] == "ERR_CHANNEL_DOES_NOT_EXIST_OR_IS_NOT_AUTHORIZED"
    assert streaming.client().ask("GET", "/v2/streaming/unknown").status == 404


def test_a_request_of_more_than_16_mb_is_refused(pipe: PipeClient) -> None:
    token = str(pipe.open("c9")["next_continuation_token"])
    assert pipe.append("c9", token, b'{"A":1}\n' + b" " * 17_000_000, "1").status == 413


@pytest.mark.parametrize(
    "change",
    ["CREATE OR REPLACE TABLE T (A NUMBER)", "DROP TABLE T; CREATE TABLE T (A NUMBER)"],
)
def test_the_channels_of_a_table_go_with_it(streaming: Streaming, pipe: PipeClient, change: str) -> None:
    channel = pipe.channel("c10")
    channel.commit(ROW)
    streaming.endpoint.administration.set(commit_paused=True)
    channel.append(ROW)
    streaming.sql(*change.split("; "))
    streaming.endpoint.administration.set(commit_paused=False)
    streaming.settle()
    assert rows(streaming) == []
    assert pipe.statuses("c10") == {}
    assert channel.append(ROW).status in (400, 404)
    assert pipe.open("c10")["channel_status"]["rows_inserted"] == 0
