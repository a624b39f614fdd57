"""A local Snowflake with its streaming endpoint in this process, and a client of the protocol without the SDK."""

from __future__ import annotations

import functools
import http.client
import itertools
import json
import ssl
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote, urlencode

import jwt
import pyarrow as pa
from pydantic import SecretStr

from firn_local.admin import new_private_key
from firn_local.servers.seed import public_key
from firn_local.snowflake.instance import LocalSnowflake
from firn_local.snowflake.privileges.principal_table import fingerprint
from firn_local.snowflake.streaming.certificates import Certificates
from firn_local.snowflake.streaming.endpoint import StreamingEndpoint

Json = dict[str, Any]
KEY = new_private_key()
COMMIT_DELAY = 0.02


def wait_until(true: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not become so"
        time.sleep(0.005)


@functools.cache
def _certificates() -> dict[str, bytes]:
    """One authority for all servers of a process: the SDK's uploads keep the first SSL_CERT_FILE that they read."""
    with tempfile.TemporaryDirectory() as folder:
        made = Certificates(Path(folder))
        made.ensure()
        return {file.name: file.read_bytes() for file in (made.server, made.authority)}


class Streaming:
    """One data directory, opened; `sql` runs statements as an administrator."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        folder = data_dir / "streaming"
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in _certificates().items():
            (folder / name).write_bytes(content)
        self._open()
        self.sql("CREATE DATABASE D")

    def _open(self) -> None:
        self.snowflake = LocalSnowflake(self.data_dir, threads=1)
        self.endpoint = StreamingEndpoint(self.snowflake, commit_delay=COMMIT_DELAY)
        self._session = self.snowflake.session("SNOWFLAKE", "ACCOUNTADMIN")

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """The rows of the last one."""
        if self._session.database is None and self._session.has_schema("D", "PUBLIC"):
            self._session.use("D", "PUBLIC")
        done = [self.snowflake.run(self._session, sql) for sql in statements][-1]
        table = done.result
        return [] if table is None else list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    def close(self) -> None:
        self._session.close()
        self.endpoint.close()
        self.snowflake.close()

    def restart(self) -> None:
        self.close()
        self._open()

    def client(self, user: str = "ME", role: str | None = None, key: str = KEY) -> Client:
        return Client(self.endpoint, user, role, key)

    def settle(self) -> None:
        """Until everything that was taken is committed."""
        wait_until(lambda: not self.endpoint.channels.waiting())


def login_token(user: str, role: str | None, key: str, *, expires_in: int = 600) -> str:
    """The JWT of key-pair authentication as the SDK makes it, its times in milliseconds."""
    subject, now = f"ACCT.{user}", int(time.time())
    issuer = f"{subject}.{fingerprint(public_key(SecretStr(key)))}"
    claims = {"iss": issuer, "sub": subject, "iat": now * 1000, "exp": (now + expires_in) * 1000}
    return jwt.encode(claims | ({"scp": f"session:role:{role}"} if role else {}), key, algorithm="RS256")


class Answer(Json):
    """The body of an answer, and its status."""

    status: int = 0


class Reachable(Protocol):
    """An endpoint, of this process or another one."""

    @property
    def port(self) -> int: ...

    @property
    def ca_file(self) -> Path: ...


class Client:
    """Requests as the SDK sends them, one connection."""

    def __init__(self, endpoint: Reachable, user: str = "ME", role: str | None = None, key: str = KEY) -> None:
        context = ssl.create_default_context(cafile=endpoint.ca_file)
        self._connection = http.client.HTTPSConnection("127.0.0.1", endpoint.port, timeout=20, context=context)
        self.login = login_token(user, role, key)
        self.scoped: str | None = None

    def ask(
        self, method: str, path: str, body: bytes | Json | None = None, *, token: str | None = None, **headers: str
    ) -> Answer:
        sent = json.dumps(body).encode() if isinstance(body, dict) else body
        if token is None:
            token = self.scoped = self.scoped or self.text("POST", "/oauth/token")
        self._connection.request(method, path, sent, {"authorization": f"Bearer {token}", **headers})
        reply = self._connection.getresponse()
        content = reply.read()
        answer = Answer(json.loads(content) if content.startswith(b"{") else {"text": content.decode()})
        answer.status = reply.status
        return answer

    def text(self, method: str, path: str) -> str:
        answer = self.ask(method, path, token=self.login)
        assert answer.status == 200, answer
        return str(answer["text"])

    def pipe(self, pipe: str = "T-STREAMING", database: str = "D", schema: str = "PUBLIC") -> PipeClient:
        return PipeClient(self, f"/databases/{database}/schemas/{schema}/pipes/{quote(pipe)}")


class PipeClient:
    """Requests about one pipe."""

    def __init__(self, client: Client, path: str) -> None:
        self._client, self._path = client, path

    def info(self) -> Answer:
        return self._client.ask("POST", f"/v2/streaming{self._path}:pipe-info", {"generate_new_token": True})

    def open(self, name: str, *, fail: bool = True, **more: str) -> Answer:
        body = {"fail_on_uncommitted_rows": fail, **more}
        return self._client.ask("PUT", f"/v2/streaming{self._path}/channels/{quote(name)}", body)

    def drop(self, name: str) -> Answer:
        return self._client.ask("DELETE", f"/v2/streaming{self._path}/channels/{quote(name)}")

    def statuses(self, *names: str) -> Json:
        path = f"/v2/streaming{self._path}:bulk-channel-status"
        found: Json = self._client.ask("POST", path, {"channel_names": list(names)})["channel_statuses"]
        return found

    def status(self, name: str) -> Json:
        found: Json = self.statuses(name)[name]
        return found

    def append(
        self, name: str, continuation: str, rows: Iterable[object] | bytes, end: str, *, request_id: str | None = None
    ) -> Answer:
        """Rows as objects, or the body as it is."""
        body = rows if isinstance(rows, bytes) else b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        query = {"startOffsetToken": end, "endOffsetToken": end, "continuationToken": continuation, "retryCount": "0"}
        query["requestId"] = request_id or str(uuid.uuid4())
        path = f"/v2/streaming/data{self._path}/channels/{quote(name)}/rows?{urlencode(query)}"
        packed = pa.compress(body, codec="zstd", asbytes=True)
        return self._client.ask("POST", path, packed, **{"content-encoding": "zstd"})

    def channel(self, name: str) -> ChannelClient:
        """An opened channel."""
        opened = self.open(name)
        assert opened.status == 200, opened
        return ChannelClient(self, name, str(opened["next_continuation_token"]))


class ChannelClient:
    """The writer of one channel."""

    _ends = itertools.count()

    def __init__(self, pipe: PipeClient, name: str, continuation: str) -> None:
        self.pipe, self.name, self.continuation = pipe, name, continuation

    def append(self, *rows: object, end: str | None = None) -> Answer:
        answer = self.pipe.append(self.name, self.continuation, rows, end or f"end {next(self._ends)}")
        self.continuation = str(answer.get("next_continuation_token", self.continuation))
        return answer

    def commit(self, *rows: object) -> Json:
        """Append, and wait for the token; the status then."""
        end = f"end {next(self._ends)}"
        answer = self.append(*rows, end=end)
        assert answer.status == 200, answer
        wait_until(lambda: self.status()["last_committed_offset_token"] == end)
        return self.status()

    def status(self) -> Json:
        return self.pipe.status(self.name)
