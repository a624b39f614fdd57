"""The streaming client with the official SDK against the local service: what it takes, when it gives up, what it says.

Each property that the SDK is given has a test of what it does: unknown ones would be ignored silently.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from pydantic import SecretStr

from firn.channels.client import ChannelClient, ClientOptions, OpenChannel, client_properties
from firn.channels.faults import BackpressureError, ChannelInvalidError
from firn.channels.lines import Lines
from firn.channels.tokens import Token
from firn.errors import AuthenticationError, ConfigError, TransientError
from firn.snowflake.faults import MissingObjectError
from firn_local.snowflake.streaming.faults import FOREVER, Fault, slow, stale_token, throttled, unavailable
from tests.firn_local.snowflake.streaming.streaming_server import KEY, Streaming, wait_until
from tests.support.proxies import running_proxy
from tests.support.streaming import streaming_login, streaming_settings

QUICK = {"answer_seconds": 2, "retry_seconds": 2, "conflict_seconds": 2}
Open = Callable[..., ChannelClient]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Streaming]:
    server = Streaming(tmp_path_factory.mktemp("streaming") / "data")
    yield server
    server.close()


@pytest.fixture
def client(service: Streaming) -> Iterator[Open]:
    """Makes clients of the empty table T's default pipe: client(retry_seconds=1)."""
    service.sql("CREATE OR REPLACE TABLE T (RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)")
    settings = streaming_settings(service.endpoint.url, service.endpoint.ca_file)
    made: list[ChannelClient] = []

    def make(pipe: str = "T-STREAMING", login: dict[str, Any] | None = None, **options: Any) -> ChannelClient:
        given = streaming_login(KEY, **(login or {}))
        made.append(ChannelClient(given, settings, ("D", "PUBLIC", pipe), ClientOptions(**{**QUICK, **options})))
        return made[-1]

    yield make
    service.endpoint.faults.clear()
    service.endpoint.administration.set(commit_delay=0.02, commit_paused=False)
    for each in made:
        each.close(flush=False)


def append(channel: OpenChannel, first: int, last: int, padding: str = "") -> None:
    rows = [f'{{"RECORD_CONTENT":{{"n":{at},"p":"{padding}"}}}}' for at in range(first, last + 1)]
    channel.append(Lines("\n".join(rows).encode(), len(rows)), Token(1, first), Token(1, last))


def durable(channel: OpenChannel, token: str) -> None:
    wait_until(lambda: channel.status().token == token)


def numbers(service: Streaming) -> list[int]:
    return sorted(int(row[0]) for row in service.sql("SELECT RECORD_CONTENT:n::INT FROM T"))


def requests(service: Streaming, api: str) -> int:
    return service.endpoint.faults.requests[api]


def test_rows_are_durable_when_the_token_has_passed_them(client: Open, service: Streaming) -> None:
    channel = client().open("ch")
    assert channel.seen.token is None
    append(channel, 0, 9)
    channel.push()
    durable(channel, "1:9")
    assert numbers(service) == list(range(10))
    again = client().open("ch")
    assert (again.seen.token, again.seen.created_ms) == ("1:9", channel.seen.created_ms)
    assert again.seen == channel.status()


def test_an_append_beyond_the_size_of_a_request_arrives_too(client: Open, service: Streaming) -> None:
    channel = client().open("large")
    append(channel, 0, 1_999, "x" * 1_000)
    channel.flush(10)
    durable(channel, "1:1999")
    assert requests(service, "upload") > 0
    assert len(numbers(service)) == 2_000


def test_whoever_opens_a_channel_later_has_it(client: Open, service: Streaming) -> None:
    older, newer = client().open("ch2"), client().open("ch2")
    append(older, 0, 0)
    with pytest.raises(ChannelInvalidError) as raised:
        older.flush(5)
    assert raised.value.code == "STALE_CONTINUATION_TOKEN_SEQUENCER"
    with pytest.raises(ChannelInvalidError):
        older.status()
    older.close(flush=True)  # says nothing
    append(newer, 1, 1)
    newer.flush(5)
    durable(newer, "1:1")
    assert numbers(service) == [1]


def test_statuses_name_the_channels_that_exist(client: Open) -> None:
    made = client()
    channels = [made.open(f"many-{at}") for at in range(3)]
    names = [channel.name for channel in channels]
    assert made.statuses([*names, "absent"]) == {channel.name: channel.seen for channel in channels}
    made.drop(names[0])
    made.drop(names[0])  # it is gone already
    fresh = client()
    assert set(fresh.statuses(names)) == set(names[1:])


def test_300_channels_of_one_client_are_opened_and_asked_about_in_seconds(client: Open) -> None:
    made, began = client(), time.monotonic()
    with ThreadPoolExecutor(16) as threads:
        channels = list(threads.map(made.open, [f"wide-{at}" for at in range(300)]))
    assert {channel.status().token for channel in channels} == {None}
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(("lag_ms", "least", "most"), [(20, 5, 40), (5_000, 1, 1)])
def test_rows_wait_for_others_as_long_as_the_lag(
    lag_ms: int, least: int, most: int, client: Open, service: Streaming
) -> None:
    channel, before = client(lag_ms=lag_ms).open(f"lag-{lag_ms}"), requests(service, "rows")
    for at in range(20):
        append(channel, at, at)
        time.sleep(0.03)  # the rate of the source
    channel.flush(5)
    assert least <= requests(service, "rows") - before <= most


def test_a_full_client_takes_no_rows_and_loses_none(client: Open, service: Streaming) -> None:
    service.endpoint.faults.add(slow(0.5, times=3))
    channel = client(memory_mb=1, lag_ms=10).open("full")
    waited = 0
    for at in range(30):
        while True:
            try:
                append(channel, at, at, "x" * 100_000)
                break
            except BackpressureError as full:
                waited += 1
                time.sleep(full.retry_after)
    channel.flush(10)
    durable(channel, "1:29")
    assert waited
    assert numbers(service) == list(range(30))


def test_a_passing_fault_is_tried_again_by_the_client(client: Open, service: Streaming) -> None:
    service.endpoint.faults.add(throttled(), unavailable(api="open"), unavailable(api="pipe-info"))
    channel = client().open("again")
    append(channel, 0, 4)
    channel.flush(8)
    durable(channel, "1:4")
    assert numbers(service) == list(range(5))


@pytest.mark.parametrize("fault", [unavailable(FOREVER), slow(30, FOREVER)], ids=["unavailable", "no answer"])
def test_rows_are_tried_for_a_bounded_time_and_then_the_channel_is_given_up(
    fault: Fault, client: Open, service: Streaming
) -> None:
    channel, began = client(answer_seconds=1).open("bounded"), time.monotonic()
    service.endpoint.faults.add(fault)
    append(channel, 0, 0)
    with pytest.raises(ChannelInvalidError):
        channel.flush(30)
    assert time.monotonic() - began < 10


@pytest.mark.full
def test_files_are_tried_for_a_bounded_time(client: Open, service: Streaming) -> None:
    channel, began = client(answer_seconds=1).open("files"), time.monotonic()
    service.endpoint.faults.add(unavailable(FOREVER, api="upload"))
    append(channel, 0, 1_999, "x" * 1_000)
    with pytest.raises(ChannelInvalidError):
        channel.flush(30)
    assert time.monotonic() - began < 10


@pytest.mark.full
@pytest.mark.parametrize("api", ["hostname", "token", "pipe-info", "open"])
def test_a_service_that_does_not_answer_is_transient_and_soon_known(api: str, client: Open, service: Streaming) -> None:
    service.endpoint.faults.add(unavailable(FOREVER, api=api))
    began = time.monotonic()
    with pytest.raises(TransientError):
        client().open("down")
    assert time.monotonic() - began < 10


@pytest.mark.full
def test_a_refused_login_is_soon_known(client: Open, service: Streaming) -> None:
    refused = Fault("hostname", FOREVER, status=401, code="390144", message="JWT token is invalid.")
    service.endpoint.faults.add(refused)
    began = time.monotonic()
    with pytest.raises(AuthenticationError, match="JWT token is invalid"):
        client(retry_seconds=600).open("refused")
    assert time.monotonic() - began < 15


def test_an_open_waits_for_rows_on_their_way_and_counts_them(client: Open, service: Streaming) -> None:
    service.endpoint.administration.set(commit_paused=True)
    older = client().open("waiting")
    append(older, 0, 4)
    older.flush(5)
    resume = threading.Timer(0.5, lambda: service.endpoint.administration.set(commit_paused=False))
    resume.start()
    assert client(conflict_seconds=30).open("waiting").seen.token == "1:4"
    resume.join()
    assert numbers(service) == list(range(5))


def test_an_open_waits_no_longer_than_it_may_and_then_gives_up_what_is_on_its_way(
    client: Open, service: Streaming
) -> None:
    service.endpoint.administration.set(commit_paused=True)
    older = client().open("stuck")
    append(older, 0, 4)
    older.flush(5)
    began = time.monotonic()
    newer = client(conflict_seconds=2).open("stuck")
    assert 1 < time.monotonic() - began < 10
    assert newer.seen.token is None
    service.endpoint.administration.set(commit_paused=False)
    append(newer, 0, 1)
    newer.flush(5)
    durable(newer, "1:1")
    assert numbers(service) == [0, 1], "what was given up never comes"


def test_a_pipe_of_a_table_that_does_not_exist_is_missing(client: Open) -> None:
    with pytest.raises(MissingObjectError, match="not found"):
        client("NOWHERE-STREAMING").open("ch")


def test_a_channel_that_was_invalidated_says_so(client: Open, service: Streaming) -> None:
    channel = client().open("stale")
    service.endpoint.faults.add(stale_token())
    append(channel, 0, 0)
    with pytest.raises(ChannelInvalidError):
        channel.flush(5)
    with pytest.raises(ChannelInvalidError):
        append(channel, 1, 1)


def test_the_environment_is_as_it_was_once_the_client_is_made(
    client: Open, service: Streaming, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nobody/has/this.pem")
    before = {name: value for name, value in os.environ.items() if not name.startswith("SS_LOG_")}
    channel = client().open("env")
    assert {name: value for name, value in os.environ.items() if not name.startswith("SS_LOG_")} == before
    append(channel, 0, 1_999, "x" * 1_000)  # a file: what is made later trusts the same
    channel.flush(10)


def test_the_client_goes_through_the_proxy_of_the_connector_and_so_do_its_files(
    client: Open, service: Streaming, tmp_path: Path
) -> None:
    with running_proxy(tmp_path, user="me", password="s3cret p@ss") as proxy:
        channel = client(login={"proxy": proxy.config}).open("proxied")
        append(channel, 0, 1_999, "x" * 1_000)
        channel.flush(10)
        durable(channel, "1:1999")
        assert f"CONNECT 127.0.0.1:{service.endpoint.port}" in proxy.served()
    assert "HTTPS_PROXY" not in os.environ


@pytest.mark.full
def test_a_proxy_that_refuses_is_named(client: Open, tmp_path: Path) -> None:
    with running_proxy(tmp_path, user="me", password="right") as proxy:
        wrong = type(proxy.config)(proxy.config.host, proxy.config.port, "me", SecretStr("wrong"))
        with pytest.raises(AuthenticationError, match="proxy") as raised:
            client(login={"proxy": wrong}).open("refused")
        assert "wrong" not in str(raised.value)


def test_a_key_with_a_passphrase_logs_in(client: Open) -> None:
    key = serialization.load_pem_private_key(KEY.encode(), None)
    encrypted = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"open")
    ).decode()
    login = {"private_key": SecretStr(encrypted), "private_key_passphrase": SecretStr("open")}
    assert client(login=login).open("secret").seen.token is None


def test_where_the_service_is_said_to_be_nowhere_else_the_account_has_it() -> None:
    login = streaming_login(KEY, host="xy12345.eu-west-2.aws.snowflakecomputing.com", role="LOADER")
    settings = streaming_settings("", Path("/none")).model_copy(update={"snowflake_streaming_url": None})
    found = client_properties(login, settings, ClientOptions())
    assert (found["scheme"], found["host"], found["port"]) == (
        "https",
        "xy12345.eu-west-2.aws.snowflakecomputing.com",
        "443",
    )
    assert (found["account"], found["user"], found["role"]) == ("acct", "me", "LOADER")
    with pytest.raises(ConfigError, match="https"):
        client_properties(streaming_login(KEY, protocol="http"), settings, ClientOptions())


def test_a_pipe_that_says_how_it_reads_bytes_gets_the_same_rows(client: Open, service: Streaming) -> None:
    """Then the SDK looks into each row for bytes to encode, and a row must have fields."""
    from snowflake.ingest.streaming._python_ffi import PyBinaryInputFormat

    channel = client().open("hex")
    channel._channel._binary_input_format = PyBinaryInputFormat.HEX
    append(channel, 0, 1, "é")
    channel.flush(5)
    durable(channel, "1:1")
    assert numbers(service) == [0, 1]


def test_a_closed_client_is_made_again_by_the_next_call(client: Open) -> None:
    made = client()
    before = made.open("one").seen
    made.close(flush=True)
    assert made.open("one").seen == before
