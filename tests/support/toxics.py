"""A reverse proxy on loopback that stands between a client and one HTTP server and spoils chosen requests.

It passes everything on until a toxic is put in. A toxic strikes the requests whose path or body holds a text, a number
of times, and tells how often it did.
"""

from __future__ import annotations

import gzip
import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}


class Effect(StrEnum):
    """What happens to a request."""

    UNAVAILABLE = "answered with 503"
    TOO_MANY = "answered with 429"
    HANG = "never answered"
    CUT = "not passed on, the connection cut"
    LOST_ANSWER = "passed on, the connection cut before the answer"


@dataclass
class Toxic:
    """Strikes requests that hold `text`, `times` times, after it let `skip` of them pass.

    With `for_good` a request that was struck once is struck each time the client repeats it (Snowflake's `requestId`
    tells), so that the client gives up; it counts once.
    """

    effect: Effect
    text: str = ""
    times: int = 1_000_000
    skip: int = 0
    for_good: bool = False
    fired: int = field(default=0, init=False)
    _struck: set[str] = field(default_factory=set, init=False)

    def takes(self, path: str, body: str) -> bool:
        """Whether it strikes this request."""
        request_id = parse_qs(urlsplit(path).query).get("requestId", [""])[0]
        if self.for_good and request_id in self._struck:
            return True
        if not (self.text in path or self.text in body) or self.fired >= self.times:
            return False
        if self.skip:
            self.skip -= 1
            return False
        self.fired += 1
        self._struck.add(request_id)
        return True


class ToxicProxy:
    """One running proxy. `add` and `clear` may be called while requests run; `refusing` closes the port for a block."""

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream)
        self.closing = threading.Event()
        self._toxics: list[Toxic] = []
        self._lock = threading.Lock()
        self._server: ThreadingHTTPServer | None = None
        self.port = 0
        self.open()

    @property
    def address(self) -> str:
        """`http://127.0.0.1:<port>`, with the upstream's path."""
        return f"http://127.0.0.1:{self.port}{self.upstream.path}"

    def open(self) -> None:
        """Listen, on the port of before if there was one."""
        self._server = _Server(("127.0.0.1", self.port), self)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Refuse connections; those that are open end with their next request."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @property
    def is_open(self) -> bool:
        """Whether it listens."""
        return self._server is not None

    def add(
        self, effect: Effect, text: str = "", *, times: int = 1_000_000, skip: int = 0, for_good: bool = False
    ) -> Toxic:
        """Put in a toxic; the first that takes a request has it."""
        toxic = Toxic(effect, text, times, skip, for_good)
        with self._lock:
            self._toxics.append(toxic)
        return toxic

    def clear(self) -> None:
        """Let everything pass from now on."""
        with self._lock:
            self._toxics.clear()

    def effect_on(self, path: str, body: str) -> Effect | None:
        """What happens to a request."""
        with self._lock:
            return next((toxic.effect for toxic in self._toxics if toxic.takes(path, body)), None)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], proxy: ToxicProxy) -> None:
        self.proxy = proxy
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._handle()

    do_POST = do_PUT = do_DELETE = do_HEAD = do_GET  # noqa: N815 - the names in http.server

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        proxy = self.server.proxy
        if not proxy.is_open:
            self.close_connection = True
            return
        effect = proxy.effect_on(self.path, _text(body, self.headers.get("Content-Encoding", "")))
        match effect:
            case Effect.UNAVAILABLE:
                self._answer(503, [], b"unavailable")
            case Effect.TOO_MANY:
                self._answer(429, [], b"too many requests")
            case Effect.HANG:
                proxy.closing.wait(600)
                self.close_connection = True
            case Effect.CUT:
                self.close_connection = True
            case Effect.LOST_ANSWER:
                self._pass_on(body)
                self.close_connection = True
            case None:
                self._answer(*self._pass_on(body))

    def _pass_on(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        upstream = self.server.proxy.upstream
        connection = http.client.HTTPConnection(upstream.hostname or "", upstream.port, timeout=600)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP}
        headers["Host"] = self.headers.get("Host", upstream.netloc)
        try:
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            answer = response.read()
            return response.status, response.getheaders(), answer
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


def _text(body: bytes, encoding: str) -> str:
    return (gzip.decompress(body) if "gzip" in encoding else body).decode(errors="replace")


@contextmanager
def toxic_proxy(upstream: str) -> Iterator[ToxicProxy]:
    """A proxy in front of `upstream` (http://host:port/path) for the length of a block."""
    proxy = ToxicProxy(upstream)
    try:
        yield proxy
    finally:
        proxy.closing.set()
        proxy.close()


@contextmanager
def refused_for(proxy: ToxicProxy, seconds: float) -> Iterator[None]:
    """The port closed now, and open again after `seconds`, before the end of the block."""
    proxy.close()
    opening = threading.Timer(seconds, proxy.open)
    opening.start()
    try:
        yield
    finally:
        opening.join()
