"""An HTTP server that gives every request the same answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def answering(
    status: int,
    body: bytes,
    requests: list[tuple[str, str | None]] | None = None,
    headers: list[dict[str, str]] | None = None,
) -> Iterator[str]:
    """The address of a server that gives every request the same answer; notes path and authorization in `requests`,
    all headers in `headers`.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if requests is not None:
                requests.append((self.path, self.headers.get("Authorization")))
            if headers is not None:
                headers.append(dict(self.headers))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: object) -> None:
            """Not into the output of tests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
