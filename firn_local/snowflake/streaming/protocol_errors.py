"""What the streaming service answers instead of success: an HTTP status, a code and a message.

Codes are those of https://docs.snowflake.com/en/user-guide/snowpipe-streaming/snowpipe-streaming-high-performance-rest-api
and of the SDK's own texts. How the SDK takes a status: it repeats 408, 429 and 5xx with the same continuation token,
asks for a new token after 401 and 403, and gives the channel up for everything else.
"""

from __future__ import annotations

PIPE_MISSING = "ERR_PIPE_DOES_NOT_EXIST_OR_NOT_AUTHORIZED"
TABLE_MISSING = "ERR_TABLE_DOES_NOT_EXIST_NOT_AUTHORIZED"
CHANNEL_MISSING = "ERR_CHANNEL_DOES_NOT_EXIST_OR_IS_NOT_AUTHORIZED"
UNCOMMITTED = "ERR_CHANNEL_HAS_UNCOMMITTED_DATA"
MUST_BE_REOPENED = "ERR_CHANNEL_MUST_BE_REOPENED"
STALE = "STALE_CONTINUATION_TOKEN_SEQUENCER"
ROW_GAP = "ERR_CHANNEL_MUST_BE_REOPENED_DUE_TO_ROW_SEQ_GAP"
INVALID_PIPE = "ERR_PIPE_DEFINITION_INVALID"
INVALID_REQUEST = "INVALID_REQUEST"


class ProtocolError(Exception):
    """An answer of another status than 200; `code` is for programs, the text for people."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


def unauthorized(code: str, message: str) -> ProtocolError:
    """A login or token that does not hold."""
    return ProtocolError(401, code, message)


def missing(code: str, message: str) -> ProtocolError:
    """A pipe, table or channel that is not there or may not be seen."""
    return ProtocolError(404, code, message)


def stale(message: str) -> ProtocolError:
    """A continuation token of a client that was fenced, or of rows that are not the next ones."""
    return ProtocolError(400, STALE, f"{message} Please reopen the channel.")
