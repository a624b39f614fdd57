"""A plugin of proxy.py that writes one line for each request, also for those that share a connection.

Runs inside the proxy's process (see tests/support/proxies.py); the file is named by an environment variable.
"""

from __future__ import annotations

import os
from pathlib import Path

from proxy.http.parser import HttpParser
from proxy.http.proxy import HttpProxyBasePlugin

LOG = "TEST_PROXY_REQUESTS"


class RequestLog(HttpProxyBasePlugin):  # type: ignore[misc]
    def handle_client_request(self, request: HttpParser) -> HttpParser | None:
        line = f"{request.method.decode()} {request.host.decode()}:{request.port}{(request.path or b'').decode()}\n"
        with Path(os.environ[LOG]).open("a") as log:
            log.write(line)
        return request
