"""HTTPS in front of the streaming service: one thread a connection, which stays open, as the SDK wants it.

Finds the operation of a path, decodes bodies, lets faults happen. `/_admin/...` is for tests (`admin`), `/health` for
whoever waits for the server.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from firn_local.snowflake.streaming import row_batches
from firn_local.snowflake.streaming.faults import Fault, Faults
from firn_local.snowflake.streaming.protocol_errors import INVALID_REQUEST, ProtocolError
from firn_local.snowflake.streaming.service import Append, PipePath, StreamingService, body_of
from firn_local.snowflake.streaming.staged_objects import BUCKET

log = logging.getLogger("firn_local.snowflake")
_PIPE = r"/databases/(?P<database>[^/]+)/schemas/(?P<schema>[^/]+)/pipes/(?P<pipe>[^/]+?)"
_CHANNEL = rf"{_PIPE}/channels/(?P<channel>[^/]+)"
_ROUTES = [
    ("hostname", "GET", re.compile(r"/v2/streaming/hostname")),
    ("token", "POST", re.compile(r"/oauth/token")),
    ("pipe-info", "POST", re.compile(rf"/v2/streaming{_PIPE}:pipe-info")),
    ("status", "POST", re.compile(rf"/v2/streaming{_PIPE}:bulk-channel-status")),
    ("open", "PUT", re.compile(rf"/v2/streaming{_CHANNEL}")),
    ("drop", "DELETE", re.compile(rf"/v2/streaming{_CHANNEL}")),
    ("rows", "POST", re.compile(rf"/v2/streaming/data{_CHANNEL}/rows")),
    ("filebuffer", "POST", re.compile(rf"/v2/streaming/data{_CHANNEL}/filebuffer")),
    ("upload", "PUT", re.compile(rf"/{BUCKET}/(?P<folder>[^/]+)/(?P<name>[^/]+)")),
    ("telemetry", "POST", re.compile(r"/telemetry/.*")),
]
_JSON, _TEXT, _XML = "application/json", "text/plain", "application/xml"
Admin = Callable[[str, str, bytes], Any]
"""Answers (method, path below /_admin/, body) with what JSON can hold. Raises ProtocolError."""


@dataclass(frozen=True)
class Request:
    """A request whose operation is known."""

    api: str
    names: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> PipePath:
        """The pipe and channel it names."""
        named = self.names
        return PipePath(named["database"], named["schema"], named["pipe"], named.get("channel", ""))

    @property
    def append(self) -> Append:
        """What its query says of an append."""
        token = self.query.get("endOffsetToken", self.query.get("offsetToken"))
        return Append(self.query.get("continuationToken", ""), self.query.get("requestId", ""), token)


@dataclass(frozen=True)
class Answer:
    """What is sent back."""

    status: int
    body: bytes
    kind: str = _JSON
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, value: Any, status: int = 200) -> Answer:
        """JSON."""
        return cls(status, json.dumps(value).encode())

    @classmethod
    def of_error(cls, error: ProtocolError) -> Answer:
        """An error's code and message."""
        return cls.of({"code": error.code, "message": str(error)}, error.status)


class StreamingHttpServer(ThreadingHTTPServer):
    """Listens on 127.0.0.1; port 0 takes a free one."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, certificate: Path, service: StreamingService, faults: Faults, admin: Admin) -> None:
        self.service, self.faults, self.admin = service, faults, admin
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._tls.load_cert_chain(certificate)
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Connection)

    def get_request(self) -> tuple[socket.socket, Any]:
        """A connection, whose handshake its own thread makes."""
        plain, client = super().get_request()
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = self._tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            self._connections.add(connection)
        return connection, client

    def shutdown_request(self, request: Any) -> None:
        """A connection that has ended."""
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Clients that vanish are everyday's business; anything else is a fault of ours."""
        if not isinstance(sys.exception(), OSError):
            log.exception("a streaming connection failed")

    def close(self) -> None:
        """Stop listening, and end every connection."""
        self.shutdown()
        self.server_close()
        with self._lock:
            left = list(self._connections)
        for connection in left:
            cut(connection)


def cut(connection: socket.socket) -> None:
    """End a connection at once, for both sides."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Connection(BaseHTTPRequestHandler):
    """The requests of one connection, one after another."""

    server: StreamingHttpServer
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def log_message(self, *_: object) -> None:
        """No line a request."""

    def _handle(self) -> None:
        body = self._read()
        url = urlsplit(self.path)
        if url.path == "/health":
            self._send(Answer.of({"ok": True}))
        elif url.path.startswith("/_admin/"):
            self._send(self._administered(url.path.removeprefix("/_admin/"), body))
        elif (request := self._request(url.path, url.query, body)) is None:
            self._send(Answer.of({"code": "NOT_FOUND", "message": f"{self.command} {url.path} is unknown."}, 404))
        else:
            self._serve(request)

    do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815

    def _serve(self, request: Request) -> None:
        fault = self.server.faults.next(request.api, request.names.get("channel"), request.names.get("pipe"))
        if fault is None:
            self._send(self._answered(request))
            return
        time.sleep(fault.delay)
        answer = self._answered(request) if fault.apply or not fault.answers else None
        if fault.cut:
            self.close_connection = True
            cut(self.connection)
        elif fault.status is not None or answer is None:
            self._send(_injected(fault))
        else:
            self._send(answer)

    def _answered(self, request: Request) -> Answer:
        try:
            return self._operation(request)
        except ProtocolError as error:
            return Answer.of_error(error)
        except Exception:
            log.exception("streaming request %s failed", request.api)
            return Answer.of({"code": "INTERNAL_ERROR", "message": "See the server's log."}, 500)

    def _operation(self, request: Request) -> Answer:
        service, authorization = self.server.service, request.headers.get("authorization", "")
        match request.api:
            case "hostname":
                return Answer(200, service.hostname(authorization), _TEXT)
            case "token":
                return Answer(200, service.token(authorization), _TEXT)
            case "upload":
                encoding = request.headers.get("content-encoding", "")
                tag = service.upload(request.names["folder"], request.names["name"], request.body, encoding)
                return Answer(200, b"", _XML, {"ETag": f'"{tag}"'})
            case "telemetry":
                return Answer.of({"success": True})
            case "rows" | "filebuffer" as append:
                body = row_batches.decompressed(request.body, request.headers.get("content-encoding", ""))
                take = service.rows if append == "rows" else service.filebuffer
                return Answer.of(take(authorization, request.path, request.append, body))
        given = body_of(request.body)
        manage = {
            "pipe-info": service.pipe_info,
            "open": service.open,
            "status": service.statuses,
            "drop": service.drop,
        }
        return Answer.of(manage[request.api](authorization, request.path, given))

    def _administered(self, path: str, body: bytes) -> Answer:
        try:
            return Answer.of(self.server.admin(self.command, path, body))
        except ProtocolError as error:
            return Answer.of_error(error)
        except (TypeError, ValueError, KeyError) as error:
            return Answer.of_error(ProtocolError(400, INVALID_REQUEST, f"{type(error).__name__}: {error}"))

    def _request(self, path: str, query: str, body: bytes) -> Request | None:
        for api, method, pattern in _ROUTES:
            if method == self.command and (found := pattern.fullmatch(path)) is not None:
                names = {name: unquote(value) for name, value in found.groupdict().items()}
                headers = {name.lower(): value for name, value in self.headers.items()}
                return Request(api, names, dict(parse_qsl(query, keep_blank_values=True)), headers, body)
        return None

    def _read(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", "").lower():
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        chunks = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(chunks)

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in {"content-type": answer.kind, **answer.headers}.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)
        self.wfile.flush()


def _injected(fault: Fault) -> Answer:
    body = json.dumps({"code": fault.code, "message": fault.message}).encode()
    return Answer(fault.status or 500, body, headers=fault.headers)
