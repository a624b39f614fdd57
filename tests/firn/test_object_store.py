"""Texts from S3, against a server that speaks its protocol: what is there, what is absent, what is refused."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from firn.errors import ConfigError, PrivilegeError, TransientError
from firn.object_store import read_text
from firn.settings import Settings

OBJECTS = {"/connectors/orders.json": b'{"name": "orders"}', "/connectors/image": b"\xff\xfe\x00"}


class _S3(BaseHTTPRequestHandler):
    def do_GET(self):
        path = self.path.partition("?")[0]
        if path in OBJECTS:
            self._answer(200, OBJECTS[path])
        elif path == "/closed/orders.json":
            self._answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        else:
            self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")

    def _answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def settings():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _S3)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Settings(
        aws_endpoint_url=f"http://127.0.0.1:{server.server_port}",
        aws_access_key_id="k",
        aws_secret_access_key="s",
        retry_deadline_seconds=0.1,
    )
    server.shutdown()
    server.server_close()


def test_an_object_is_read(settings):
    assert read_text(settings, "s3://connectors/orders.json") == '{"name": "orders"}'


@pytest.mark.parametrize(
    ("address", "kind", "fault"),
    [
        ("s3://connectors", ConfigError, "names no object"),
        ("s3://connectors/other.json", ConfigError, "does not exist"),
        ("s3://connectors/image", ConfigError, "not UTF-8"),
        ("s3://closed/orders.json", PrivilegeError, "refuses to read"),
    ],
)
def test_what_cannot_be_read_is_named(settings, address, kind, fault):
    with pytest.raises(kind, match=fault) as refused:
        read_text(settings, address)
    assert refused.value.where == address


def test_a_server_that_does_not_answer_is_a_transient_fault(settings):
    away = settings.model_copy(update={"aws_endpoint_url": "http://127.0.0.1:1"})
    with pytest.raises(TransientError, match="does not answer"):
        read_text(away, "s3://connectors/orders.json")
