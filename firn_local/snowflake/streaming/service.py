"""The streaming service's operations, HTTP aside: who may, which pipe, which channel, and the bodies of the answers.

Paths, methods and bodies are those that the SDK 1.9 sends and accepts; where they differ from the REST API's page (bare
text for host name and token, names of the status's fields) the SDK decides.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from firn_local.snowflake.instance import LocalSnowflake
from firn_local.snowflake.streaming import access, pipes, row_batches, transformation
from firn_local.snowflake.streaming.access import Caller
from firn_local.snowflake.streaming.channels import Channels
from firn_local.snowflake.streaming.pipes import Pipe
from firn_local.snowflake.streaming.protocol_errors import INVALID_REQUEST, ProtocolError, unauthorized
from firn_local.snowflake.streaming.server_secret import ServerSecret
from firn_local.snowflake.streaming.staged_objects import StagedObjects

TOKEN_SECONDS = 3600.0
Json = dict[str, Any]


@dataclass(frozen=True)
class PipePath:
    """The names in a path; `channel` is empty where the path has none."""

    database: str
    schema: str
    pipe: str
    channel: str = ""


@dataclass(frozen=True)
class Append:
    """What the query of an append says."""

    continuation: str
    request_id: str
    end_token: str | None = None


class StreamingService:
    """The operations. `host` is what clients are told; `storage_endpoint` (host:port) is where they upload to."""

    def __init__(self, snowflake: LocalSnowflake, secret: ServerSecret, channels: Channels, host: str) -> None:
        self._snowflake, self._secret, self._channels, self._host = snowflake, secret, channels, host
        self._objects = StagedObjects(secret)
        self._pipes: dict[PipePath, Pipe] = {}
        self._pipes_of: object = None
        self.token_seconds = TOKEN_SECONDS
        self.storage_endpoint = ""

    def hostname(self, authorization: str) -> bytes:
        """The host of all further requests; the SDK adds the port of its url."""
        access.logged_in(self._snowflake.account, _bearer(authorization))
        return self._host.encode()

    def token(self, authorization: str) -> bytes:
        """A scoped token for the user and role of a key-pair JWT."""
        caller = access.logged_in(self._snowflake.account, _bearer(authorization))
        return self._secret.scoped_token(caller.user, caller.role, self.token_seconds).encode()

    def pipe_info(self, authorization: str, path: PipePath, _: Json) -> Json:
        """How clients upload files for a pipe. The storage endpoint is always this server, never a cloud's."""
        pipe = self._pipe(authorization, path)
        self._check_definition(pipe)
        location = self._objects.location(self.storage_endpoint, time.time_ns() // 1_000_000)
        return {
            "status_code": 0,
            "message": None,
            "rowset_stage_location": location,
            "durable_stage_location": location,
            "pipe_encryption_info": self._objects.encryption(pipe.full_name),
            "parameter_overrides": {},
        }

    def open(self, authorization: str, path: PipePath, body: Json) -> Json:
        """Open a channel."""
        pipe = self._pipe(authorization, path)
        self._check_definition(pipe)
        continuation, status = self._channels.open(
            pipe,
            path.channel,
            fail_on_uncommitted=bool(body.get("fail_on_uncommitted_rows")),
            offset_token=body.get("offset_token"),
        )
        return {"next_continuation_token": continuation, "channel_status": status}

    def rows(self, authorization: str, path: PipePath, append: Append, body: bytes) -> Json:
        """Take rows of a request's body."""
        if len(body) > row_batches.LARGEST_PAYLOAD:
            raise ProtocolError(413, "PAYLOAD_TOO_LARGE", "A request holds at most 16 MB before compression.")
        return self._taken(self._pipe(authorization, path), path, append, body)

    def filebuffer(self, authorization: str, path: PipePath, append: Append, body: bytes) -> Json:
        """Take rows of files that were uploaded."""
        pipe = self._pipe(authorization, path)
        self._channels.check_writable(pipe, path.channel, append.continuation)
        fragments: Sequence[Json] = json.loads(body)
        content = b"\n".join(self._objects.rows(pipe.full_name, fragment) for fragment in fragments)
        if append.end_token is None and fragments:
            end = fragments[-1].get("fragment_end_offset_token")
            append = Append(append.continuation, append.request_id, end)
        return self._taken(pipe, path, append, content)

    def upload(self, folder: str, name: str, body: bytes, encoding: str) -> str:
        """Keep an uploaded object; its ETag. The folder's name is what gives the right to."""
        return self._objects.put(folder, name, body, encoding)

    def statuses(self, authorization: str, path: PipePath, body: Json) -> Json:
        """The status of channels by name; those that do not exist are left out."""
        pipe = self._pipe(authorization, path)
        names = [str(name) for name in body.get("channel_names") or []]
        return {"channel_statuses": self._channels.statuses(pipe, names)}

    def drop(self, authorization: str, path: PipePath, body: Json) -> Json:
        """Drop a channel; what is not committed is discarded unless the request says otherwise."""
        pipe = self._pipe(authorization, path)
        fail = bool(body.get("fail_on_uncommitted_rows"))
        return {"last_committed_offset_token": self._channels.drop(pipe, path.channel, fail_on_uncommitted=fail)}

    def _taken(self, pipe: Pipe, path: PipePath, append: Append, body: bytes) -> Json:
        lines = row_batches.rows_of(body)
        token = self._channels.append(
            pipe, path.channel, append.continuation, append.request_id, lines, append.end_token
        )
        return {"next_continuation_token": token}

    def _pipe(self, authorization: str, path: PipePath) -> Pipe:
        """The pipe that a path names, for a caller who may write through it. Raises ProtocolError."""
        caller = self._caller(authorization)
        pipe = self._found(PipePath(path.database, path.schema, path.pipe))
        access.demand(caller, pipe)
        return pipe

    def _caller(self, authorization: str) -> Caller:
        return access.still_there(self._snowflake.account, *self._secret.holder(_bearer(authorization)))

    def _found(self, path: PipePath) -> Pipe:
        """Looked up again after each change of objects."""
        version = self._snowflake.account.columns
        if self._pipes_of is not version:
            self._pipes, self._pipes_of = {}, version
        if (pipe := self._pipes.get(path)) is None:
            pipe = self._pipes[path] = pipes.find(self._snowflake.account.store, path.database, path.schema, path.pipe)
        return pipe

    def _check_definition(self, pipe: Pipe) -> None:
        """Raise ProtocolError for a SELECT that cannot be evaluated, before rows are taken for it."""
        if not transformation.matches_by_name(pipe):
            transformation.check(self._snowflake, pipe)


def _bearer(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise unauthorized("390101", "Authorization is missing: a bearer token is wanted.")
    return token


def body_of(text: bytes) -> Json:
    """A JSON object; an empty body is an empty one. Raises ProtocolError."""
    try:
        found = json.loads(text or b"{}")
    except ValueError as error:
        raise ProtocolError(400, INVALID_REQUEST, f"The body is not JSON: {error}") from None
    return found if isinstance(found, dict) else {}
