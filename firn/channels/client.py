"""The streaming client: one for each pipe and process, with a channel for each partition. Wraps the official SDK.

The SDK is imported by the first client of a process, never earlier: it does not survive a fork, and it reads its
environment when it is imported. Trusted certificates and proxies are read from the environment too, once, when a client
is made. Budgets are bounded here, for the SDK's own are hours. Properties are those of `snowpipe-streaming` 1.9; it
ignores unknown ones silently, so each has a test of what it does. Not for what an error means (`faults`), nor for what
a token says of a position (`folding`).
"""

from __future__ import annotations

import base64
import os
import textwrap
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from firn import proxy
from firn.channels.faults import ChannelInvalidError, translated
from firn.channels.lines import Lines
from firn.channels.recorded import ChannelSeen
from firn.channels.tokens import Token
from firn.errors import ConfigError, FirnError, TransientError
from firn.keys import private_key_der
from firn.proxy import ProxyConfig
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin, parse_url
from firn.snowflake.identifiers import FullName, written

if TYPE_CHECKING:
    from snowflake.ingest.streaming import StreamingIngestClient
    from snowflake.ingest.streaming.channel_status import ChannelStatus
    from snowflake.ingest.streaming.streaming_ingest_channel import StreamingIngestChannel

ADDRESS_NAMED_BY = "FIRN_SNOWFLAKE_STREAMING_URL, or snowflake.url.name of the connector"
LOOK_SECONDS = 0.25
CHANNELS_PER_STATUS = 500
"""How many channels one question about their status names."""
_NO_CHANNEL = "DOES_NOT_EXIST"
_REFUSED_SECONDS = 5  # a key that Snowflake does not know just now, as while it is exchanged, is known soon or never
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_environment = threading.Lock()


@dataclass(frozen=True)
class ClientOptions:
    """How a client behaves.

    lag_ms: how long rows wait in it, so that those behind them travel in the same request; Snowflake takes about ten
    requests a second and channel. memory_mb: what it holds of one channel before it is full. answer_seconds: how long
    one request may take; retry_seconds: how long it is tried again. conflict_seconds: how long an open waits for rows
    of a writer before that are on their way; then these are given up, and the token says what is durable. properties:
    of the SDK by name, over all that is said here.
    """

    lag_ms: int = 200
    memory_mb: int = 32
    answer_seconds: int = 20
    retry_seconds: int = 60
    conflict_seconds: int = 60
    properties: tuple[tuple[str, str], ...] = ()


class ChannelClient:
    """A client of one pipe. Safe for several threads. Raises the errors of `faults.translated`.

    pipe: as Snowflake keeps the parts of its name. settings: where the service is and whom to trust. A client is made
    by the first call that needs one, and lives until `close`.
    """

    def __init__(
        self, login: SnowflakeLogin, settings: Settings, pipe: FullName, options: ClientOptions = ClientOptions()
    ) -> None:
        self._login, self._settings, self.options, self.pipe = login, settings, options, pipe
        self._where = f"pipe {written(pipe)}, {login.address}"
        self._lock = threading.Lock()
        self._client: StreamingIngestClient | None = None
        self._open: set[str] = set()
        self._looked = float("-inf")

    def connect(self) -> None:
        """Log in and find the pipe, unless that is done: many threads would each wait for a service that is away."""
        self._made()

    def open(self, name: str) -> OpenChannel:
        """Open a channel, making it where there is none; whoever had it open can append no more.

        Waits while rows of a writer before are on their way, `conflict_seconds` at most.
        """
        client = self._made()
        with self.translated(name):
            channel, status = client.open_channel(name)
        self._open.add(name)
        return OpenChannel(self, name, channel, seen_of(status))

    def look(self) -> None:
        """Let the SDK know what the service says of all open channels; one by one it would wait a second for each."""
        with self._lock:
            due = time.monotonic() - self._looked >= LOOK_SECONDS
            self._looked = time.monotonic() if due else self._looked
        if due:
            self.statuses(sorted(self._open))

    def forget(self, name: str) -> None:
        """A channel is closed."""
        self._open.discard(name)

    def statuses(self, names: Iterable[str]) -> dict[str, ChannelSeen]:
        """What the service says of these channels, at most a second old; those that do not exist are left out."""
        client, wanted, found = self._made(), list(names), dict[str, ChannelSeen]()
        for start in range(0, len(wanted), CHANNELS_PER_STATUS):
            chunk = wanted[start : start + CHANNELS_PER_STATUS]
            with self.translated(f"{len(wanted)} channels"):
                statuses = client.get_channel_statuses(chunk)
            found |= {name: seen_of(status) for name, status in statuses.items() if _exists(status)}
        return found

    def drop(self, name: str) -> None:
        """Drop a channel and its token; one that does not exist is no error."""
        client = self._made()
        try:
            with self.translated(name):
                client.drop_channel(name)
        except ChannelInvalidError as error:
            if _NO_CHANNEL not in error.code:
                raise

    def close(self, *, flush: bool) -> None:
        """Let go of all channels. flush: whether to wait, in bounded time, until Snowflake has taken what was appended.

        That is no promise of anything: tokens alone say what is durable. Never raises.
        """
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            with suppress(FirnError), self.translated("close"):
                client.close(flush, self.options.retry_seconds if flush else 0)

    def translated(self, what: str) -> AbstractContextManager[None]:
        """Errors of a call about `what` as those of `faults.translated`."""
        return translated(f"{what} of {self._where}", self._login.key_place)

    def _made(self) -> StreamingIngestClient:
        with self._lock:
            if self._client is None:
                self._client = self._make()
            return self._client

    def _make(self) -> StreamingIngestClient:
        properties = client_properties(self._login, self._settings, self.options)
        database, schema, pipe = self.pipe
        with _client_environment(self._login, self._settings):
            from snowflake.ingest.streaming import StreamingIngestClient

            try:
                with self.translated("client"):
                    return StreamingIngestClient(f"firn-{os.getpid()}", database, schema, pipe, properties=properties)
            except TransientError:
                self._blame_the_proxy(properties)
                raise

    def _blame_the_proxy(self, properties: Mapping[str, str]) -> None:
        """Raise what is wrong with the proxy, if anything: the SDK says only that there was no answer."""
        if through := self._login.proxy:
            host, port = properties["host"], int(properties["port"])
            if not proxy.bypasses(through, host):
                proxy.probe(through, host, port, secure=True, timeout=self.options.answer_seconds)


def answering(login: SnowflakeLogin, settings: Settings, pipe: FullName) -> None:
    """Log in and find a pipe, with little patience; no channel is opened. Raises as a client does."""
    client = ChannelClient(login, settings, pipe, ClientOptions(answer_seconds=5, retry_seconds=5, conflict_seconds=5))
    try:
        client.statuses(["firn"])
    finally:
        client.close(flush=False)


class OpenChannel:
    """A channel as one writer has it. `seen`: what the service said when it was opened. Used by one thread."""

    def __init__(self, client: ChannelClient, name: str, channel: StreamingIngestChannel, seen: ChannelSeen) -> None:
        self._client, self.name, self._channel, self.seen = client, name, channel, seen

    def append(self, rows: Lines, first: Token, last: Token) -> None:
        """Take rows, in order: tokens of the first and the last one. They are durable when the token has passed them.

        Raises BackpressureError where none was taken, and ChannelInvalidError, also for rows before these.
        """
        with self._client.translated(self.name):
            try:
                self._channel.append_rows(rows, str(first), str(last))
            except ValueError:
                # Where a pipe says how it reads bytes, the SDK looks at the fields of every row for some to encode.
                self._channel.append_rows(list(map(_FIELDS.decode, rows.each())), str(first), str(last))

    def push(self) -> None:
        """Send what was appended now, without waiting for more. Raises ChannelInvalidError."""
        with self._client.translated(self.name):
            self._channel.initiate_flush()

    def flush(self, seconds: float) -> None:
        """Wait until Snowflake has taken all that was appended: it is not durable yet. Raises TransientError."""
        with self._client.translated(self.name):
            self._channel.wait_for_flush(max(1, round(seconds)))

    def status(self) -> ChannelSeen:
        """What the service says, at most a second old. Raises ChannelInvalidError."""
        self._client.look()
        with self._client.translated(self.name):
            return seen_of(self._channel.get_channel_status())

    def close(self, *, flush: bool) -> None:
        """Let go of it; flush: as for the client. Rows that are on their way may still become durable. Never raises."""
        self._client.forget(self.name)
        with suppress(FirnError), self._client.translated(self.name):
            self._channel.close(False, flush, self._client.options.retry_seconds if flush else 0)


def seen_of(status: ChannelStatus) -> ChannelSeen:
    """The SDK's status as a value."""
    return ChannelSeen(
        created_ms=round(status.created_on.timestamp() * 1000),
        token=status.latest_committed_offset_token,
        row_errors=status.rows_error_count,
        status_code=status.status_code,
        last_error=status.last_error_message,
        error_bound=status.last_error_offset_token_upper_bound,
        inserted=status.rows_inserted_count,
    )


def _exists(status: ChannelStatus) -> bool:
    return _NO_CHANNEL not in status.status_code


def client_properties(login: SnowflakeLogin, settings: Settings, options: ClientOptions) -> dict[str, str]:
    """What the SDK is told. Holds the key: never log it. Raises ConfigError for a key or an address of no use.

    Host and port rather than a url, which must have three labels. The role is left out where the user has a default.
    """
    host, port = service_address(login, settings)
    properties = {
        "account": login.account,
        "user": login.user,
        "role": login.role,
        "scheme": "https",
        "host": host,
        "port": str(port),
        "private_key": _pem(login),
    }
    behaviour = {
        "application": "firn",
        "enable_telemetry_reporting": "false",
        "mem_throttle_by_process": "false",  # it takes a process of 150 MB for one that uses all the memory there is
        "max_append_request_buffer_duration_ms": str(options.lag_ms),
        "max_inflight_megabytes_per_channel": str(options.memory_mb),
    }
    return properties | behaviour | _budgets(options) | dict(options.properties)


def service_address(login: SnowflakeLogin, settings: Settings) -> tuple[str, int]:
    """Host and port of the service's first answer, which may name another host. Raises ConfigError without TLS."""
    scheme, host, port = parse_url(settings.snowflake_streaming_url or _url(login), login.account)
    if scheme != "https":
        raise ConfigError(
            f"Snowpipe Streaming needs https, and the address is {scheme}://{host}:{port}.",
            where=ADDRESS_NAMED_BY,
            next_step="Give an address with https.",
        )
    return host, port


def _url(login: SnowflakeLogin) -> str:
    return f"{login.protocol}://{proxy.bracketed(login.host)}:{login.port}"


def _budgets(options: ClientOptions) -> dict[str, str]:
    """How long requests are tried: of channels (mgmt), of rows (data), of files, and with a refused token."""
    answer, retry, conflict = options.answer_seconds, options.retry_seconds, options.conflict_seconds
    kinds = {"mgmt_retry": retry, "data_retry": retry, "file_upload": retry, "open_channel_409_retry": conflict}
    kinds["non_scoped_auth_failure_retry"] = min(retry, _REFUSED_SECONDS)
    budgets = {f"{kind}_total_backoff_seconds": str(seconds) for kind, seconds in kinds.items()}
    pauses = {f"{kind}_{name}_backoff_seconds": "1" for kind in kinds for name in ("initial", "max")}
    return budgets | pauses | {"mgmt_http_timeout_seconds": str(answer), "data_http_timeout_seconds": str(answer)}


def _pem(login: SnowflakeLogin) -> str:
    der = private_key_der(login.private_key, login.private_key_passphrase, login.key_place)
    body = "\n".join(textwrap.wrap(base64.b64encode(der).decode(), 64))
    return f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"


@contextmanager
def _client_environment(login: SnowflakeLogin, settings: Settings) -> Iterator[None]:
    """The environment that the SDK is imported and a client is made in; what others read of it is put back.

    One client is made at a time.
    """
    os.environ.update(SS_LOG_LEVEL="error", SS_LOG_TARGET="stderr")
    wanted: dict[str, str] = {}
    if settings.snowflake_ca_file:
        wanted["SSL_CERT_FILE"] = str(settings.snowflake_ca_file)
    if login.proxy:
        wanted |= _proxy_environment(login.proxy)
    with _environment:
        before = {name: os.environ.get(name) for name in wanted}
        os.environ.update(wanted)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def _proxy_environment(through: ProxyConfig) -> dict[str, str]:
    """The variables that the SDK's HTTP client knows; its patterns of hosts without proxy are suffixes of names."""
    url = proxy.url_for(replace(through, bypass=()), "")
    direct = ",".join(pattern.removeprefix("*") for pattern in through.bypass if "*" not in pattern[1:])
    spoken = {"HTTPS_PROXY": url.get_secret_value() if url else "", "NO_PROXY": direct}
    return spoken | {name.lower(): value for name, value in spoken.items()}
