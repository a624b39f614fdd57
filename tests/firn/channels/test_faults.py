"""What the SDK's errors become: the root, the server's code, and no address of a request in the text.

The texts are the SDK's own, as `snowpipe-streaming` 1.9.1 gives them.
"""

from __future__ import annotations

import pickle

import pytest

from firn.channels.faults import BackpressureError, ChannelInvalidError, server_code, translate, translated
from firn.errors import (
    AuthenticationError,
    ConfigError,
    FirnError,
    PrivilegeError,
    TerminalError,
    TransientError,
)
from firn.snowflake.faults import MissingObjectError

URL = "url=https://127.0.0.1:1/v2/streaming/databases/DB?requestId=9a99&retryCount=0"
NOT_RETRYABLE = (
    "HTTP request failed with a non-retryable error for API {api}. HTTP {status}, error_code={code}, message=no, "
)
EXHAUSTED = "HTTP request failed after exhausting all retries: api_name: open_channel, original_error: "
TOKEN = 'Fail to create authorization token: AuthTokenError { client_identifier: "DB.SC.P.c", message: "'
INVALID = "Channel DB.SC.P.c.ch is in an invalid state. Please close and re-open the channel. Inner Error: "


def refused(status: int, code: str, api: str = "open_channel") -> str:
    return NOT_RETRYABLE.format(api=api, status=status, code=code) + URL


@pytest.mark.parametrize(
    ("kind", "text", "expected"),
    [
        ("ReceiverSaturated", "current_inflight_rows=1048576", BackpressureError),
        ("MemoryThresholdExceeded", "mem_used_mb=3", BackpressureError),
        ("InvalidChannelError", INVALID + refused(400, "STALE_CONTINUATION_TOKEN_SEQUENCER"), ChannelInvalidError),
        ("InvalidChannelError", INVALID + EXHAUSTED + refused(503, "BUSY"), ChannelInvalidError),
        ("ClosedChannelError", "Channel is closed", ChannelInvalidError),
        ("ChannelNotFound", "Channel ch not found", ChannelInvalidError),
        ("SfApiUserError", refused(404, "ERR_CHANNEL_DOES_NOT_EXIST_OR_IS_NOT_AUTHORIZED"), ChannelInvalidError),
        ("SfApiUserError", refused(404, "ERR_PIPE_DOES_NOT_EXIST_OR_NOT_AUTHORIZED"), MissingObjectError),
        (
            "InvalidChannelError",
            INVALID + refused(404, "ERR_PIPE_DOES_NOT_EXIST_OR_NOT_AUTHORIZED"),
            MissingObjectError,
        ),
        ("SfApiUserError", refused(404, "ERR_TABLE_DOES_NOT_EXIST_NOT_AUTHORIZED"), MissingObjectError),
        ("SfApiUserError", refused(400, "BAD"), TerminalError),
        (
            "SfApiAuthError",
            "an authentication error. HTTP 401, error_code=390144, message=JWT, " + URL,
            AuthenticationError,
        ),
        ("SfApiAuthError", "an authentication error. HTTP 403, error_code=X, message=no, " + URL, PrivilegeError),
        ("AuthTokenError", TOKEN + refused(401, "390144", "refresh_scoped_token"), AuthenticationError),
        ("AuthTokenError", TOKEN + EXHAUSTED + refused(503, "BUSY"), TransientError),
        ("AuthTokenError", TOKEN + EXHAUSTED + "error_code=RequestSendFailed " + URL, TransientError),
        ("ConfigError", "Failed to parse private key", ConfigError),
        ("Fatal", "No certificates found in the system trust store", ConfigError),
        ("HttpRetriesExhaustedError", EXHAUSTED + "error_code=RequestSendFailed " + URL, TransientError),
        ("Fatal", "anything", TransientError),
    ],
)
def test_each_error_has_one_root_and_says_where_it_was(kind: str, text: str, expected: type[FirnError]) -> None:
    error = translate(kind, text, "pipe DB.SC.P")
    assert type(error) is expected
    assert error.where == "pipe DB.SC.P"
    assert "requestId" not in str(error)
    assert isinstance(pickle.loads(pickle.dumps(error)), expected)


def test_what_invalidated_a_channel_is_known_by_the_servers_code() -> None:
    error = translate("InvalidChannelError", INVALID + refused(400, "STALE_CONTINUATION_TOKEN_SEQUENCER"), "ch")
    assert isinstance(error, ChannelInvalidError)
    assert error.code == "STALE_CONTINUATION_TOKEN_SEQUENCER"
    assert server_code('error_code: "STALE_X", message') == "STALE_X"
    assert server_code("no code at all") == ""


def test_a_time_out_of_the_client_is_transient() -> None:
    with pytest.raises(TransientError, match="in time"), translated("ch"):
        raise TimeoutError("ChannelWaitForFlushTimeout")


def test_a_terminal_error_says_what_to_do() -> None:
    for kind, text in [
        ("SfApiUserError", refused(404, "ERR_PIPE_DOES_NOT_EXIST_OR_NOT_AUTHORIZED")),
        ("SfApiAuthError", "HTTP 401"),
        ("SfApiAuthError", "HTTP 403"),
        ("ConfigError", "x"),
        ("SfApiUserError", "x"),
    ]:
        assert translate(kind, text, "ch").next_step
