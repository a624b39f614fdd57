"""The streaming client's errors as those of `firn.errors`: what was found, where, and the next step.

Kinds are those of the SDK's StreamingIngestErrorCode; the server's own code and HTTP status stand in the text alone,
as `error_code=...` and `HTTP 4xx`. Server codes:
https://docs.snowflake.com/en/user-guide/snowpipe-streaming/snowpipe-streaming-high-performance-error-handling.
Not for calling the client (`client`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from firn.errors import AuthenticationError, ConfigError, FirnError, PrivilegeError, TerminalError, TransientError
from firn.keys import IN_SECRET, KeyPlace
from firn.snowflake.faults import MissingObjectError


class BackpressureError(TransientError):
    """The client holds as much of a channel, or of all, as it may: these rows were not taken. Offer them again."""

    retry_after: ClassVar[float] = 0.05
    """Seconds: about how long a request to Snowflake takes, which is what frees memory."""


class ChannelInvalidError(TransientError):
    """The channel takes no more rows, and what was not durable of it is lost: open it again, go on behind its token.

    code: why, as the server or the client calls it: somebody else opened it, it was dropped, or a request failed for
    longer than the client tries.
    """

    def __init__(self, what: str, *, where: str = "", next_step: str = "", code: str = "") -> None:
        super().__init__(what, where=where, next_step=next_step)
        self.code = code


_SATURATED = {"ReceiverSaturated", "MemoryThresholdExceeded", "MemoryThresholdExceededInContainer"}
_INVALID = {
    "BinaryInputFormatChanged",
    "ChannelClosedByUser",
    "ChannelNotFound",
    "ClosedChannelError",
    "ClosedClientError",
    "InputChannelClosed",
    "InvalidChannelError",
    "InvalidClientError",
    "OutputChannelClosed",
}
_CONFIG = {"ConfigError", "InvalidArgument"}
_REFUSED = {"AuthTokenError", "SfApiAuthError"}
_CODE = re.compile(r"error_code[=:] ?\"?([A-Za-z0-9_]+)")
_STATUS = re.compile(r"HTTP (\d{3})|http_status_code[=:] ?(\d{3})")
_ADDRESS = re.compile(r",? ?url[=:] ?\"?https?://[^\s,)\"]+\"?")
_TRIED_AGAIN = {408, 429, 500, 502, 503, 504}
_NO_CERTIFICATES = "No certificates found"


@contextmanager
def translated(where: str, place: KeyPlace = IN_SECRET) -> Iterator[None]:
    """Turn the SDK's errors into Firn's two roots. where: what was asked of whom; place: where the login's key stands.

    Raises BackpressureError, ChannelInvalidError, AuthenticationError, PrivilegeError, MissingObjectError, ConfigError,
    and TransientError for a service that does not answer.
    """
    from snowflake.ingest.streaming import StreamingIngestError

    try:
        yield
    except TimeoutError as error:
        raise TransientError(f"Snowpipe Streaming did not answer in time: {_short(str(error))}", where=where) from error
    except StreamingIngestError as error:
        raise translate(error.error_code.value, error.message, where, place) from error


def translate(kind: str, text: str, where: str, place: KeyPlace = IN_SECRET) -> FirnError:
    """One error by its kind and the SDK's text."""
    code, what = server_code(text), _short(text)
    if kind in _SATURATED:
        return BackpressureError(f"The streaming client is full: {what}", where=where)
    if _is_missing(code):
        return _missing(code, what, where)
    if kind in _INVALID or "CHANNEL" in code:
        return ChannelInvalidError(f"The channel takes no more rows: {what}", where=where, code=code or kind)
    if kind in _REFUSED and _status(text) not in _TRIED_AGAIN and "exhausting all retries" not in text:
        return _refused(text, what, where, place)
    if kind in _CONFIG or _NO_CERTIFICATES in text:
        return ConfigError(
            f"The streaming client cannot be made: {what}",
            where=where,
            next_step="Check account, url and key of the login, and FIRN_SNOWFLAKE_CA_FILE where it is set.",
        )
    if kind in ("SfApiUserError", "SfApiNotFoundError", "InvalidRequest"):
        return TerminalError(
            f"Snowpipe Streaming refused a request: {what}",
            where=where,
            next_step="Look up the code in Snowflake's documentation of Snowpipe Streaming errors.",
        )
    return TransientError(f"Snowpipe Streaming failed: {what}", where=where)


def server_code(text: str) -> str:
    """The server's code in an error's text, as ERR_PIPE_DOES_NOT_EXIST_OR_NOT_AUTHORIZED; empty where it names none."""
    found = _CODE.search(text)
    return found[1] if found else ""


def _status(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1] or found[2]) if found else None


def _short(text: str) -> str:
    """The text in one line, without addresses of requests."""
    return " ".join(_ADDRESS.sub("", text).split())[:600]


def _is_missing(code: str) -> bool:
    """Pipes, tables, schemas and databases; a channel that is gone is opened again."""
    return "DOES_NOT_EXIST" in code and "CHANNEL" not in code


def _missing(code: str, what: str, where: str) -> MissingObjectError:
    return MissingObjectError(
        f"{'Table' if 'TABLE' in code else 'Pipe'} not found: {what}",
        where=where,
        next_step="Check that the table exists, or the pipe where the sink uses one of yours, and that the sink's role "
        "may use it: `firn sink validate <config>` lists what is missing.",
    )


def _refused(text: str, what: str, where: str, place: KeyPlace) -> FirnError:
    if _status(text) == 403:
        return PrivilegeError(
            f"Insufficient privileges: Snowpipe Streaming refused the request: {what}",
            where=where,
            next_step="`firn sink validate <config>` lists the privileges that the sink's role lacks.",
        )
    return AuthenticationError(
        f"Authentication failed: Snowpipe Streaming refused the login: {what}",
        where=where,
        next_step=f"Check user, account and role, and that {place.key} in {place.holder} belongs to the user "
        "(DESC USER shows the fingerprint of its public key).",
    )
