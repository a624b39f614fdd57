"""The administration of the local streaming endpoint, for tests whose server is another process: faults, and counts.

What it takes: firn_local.snowflake.streaming.admin.
"""

from __future__ import annotations

import json
import ssl
import urllib.request
from typing import Any

from firn.settings import Settings

_SECONDS = 10


class StreamingFaults:
    """Puts faults into the endpoint that the settings name, and asks how often they struck.

    pipe: they strike requests and rows of this pipe alone, because other tests use the endpoint at the same time.
    """

    def __init__(self, settings: Settings, pipe: str | None = None) -> None:
        assert settings.snowflake_streaming_url, "the stack has no streaming endpoint"
        self._url = f"{settings.snowflake_streaming_url.rstrip('/')}/_admin"
        self._scope = {"pipe": pipe} if pipe else {}
        self._context = ssl.create_default_context(cafile=settings.snowflake_ca_file)

    def add(self, **fault: object) -> None:
        """A fault, by the fields of `firn_local.snowflake.streaming.faults.Fault`."""
        self._ask("POST", "faults", fault | self._scope)

    def clear(self) -> None:
        """No more faults and rejections."""
        self._ask("DELETE", "faults", self._scope)

    def reject(self, path: str, *values: object, message: str = "Rejected by a test") -> None:
        """Refuse rows that have one of these values at a path such as `$.RECORD_METADATA.offset`."""
        self._ask("POST", "rejections", {"path": path, "values": values, "message": message} | self._scope)

    def invalidate(self, channel: str) -> int:
        """Close the channels of this name, so that what was not committed is gone; how many there were."""
        return int(self._ask("POST", "invalidate", {"channel": channel})["channels"])

    def set(self, **settings: object) -> None:
        """Change how the endpoint commits: commit_delay in seconds, commit_paused, token_seconds."""
        self._ask("POST", "settings", settings)

    def fired(self, api: str) -> int:
        """How often a fault of this api struck since the endpoint was started."""
        return int(self._ask("GET", "state")["fired"].get(api, 0))

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._url}/{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=_SECONDS, context=self._context) as answer:
            return json.loads(answer.read())
