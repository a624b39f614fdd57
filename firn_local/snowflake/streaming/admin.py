"""Faults over HTTP, for tests whose server is another process. Loopback only, like everything here; no login.

POST /_admin/faults      fields of `faults.Fault`            DELETE {"pipe": ...}: no more faults and rejections
POST /_admin/rejections  {"path": ..., "values": [...], "message": ..., "pipe": ...}
POST /_admin/invalidate  {"channel": ..., "code": ..., "discard": true}
POST /_admin/settings    {"commit_delay": seconds, "commit_paused": bool, "token_seconds": seconds}
GET  /_admin/state       requests and fired faults by api, requests not committed yet
"""

from __future__ import annotations

import json
from typing import Any

from firn_local.snowflake.streaming.channels import Channels
from firn_local.snowflake.streaming.faults import Fault, Faults
from firn_local.snowflake.streaming.protocol_errors import ProtocolError
from firn_local.snowflake.streaming.row_loader import Rejection
from firn_local.snowflake.streaming.service import StreamingService


class Administration:
    """Answers the requests below /_admin/."""

    def __init__(self, faults: Faults, channels: Channels, service: StreamingService) -> None:
        self._faults, self._channels, self._service = faults, channels, service

    def __call__(self, method: str, path: str, body: bytes) -> Any:
        """Do what is asked. Raises ProtocolError, or ValueError and its like for a wrong body."""
        given = json.loads(body or b"{}")
        match method, path:
            case "POST", "faults":
                self._faults.add(Fault(**given))
            case "DELETE", "faults":
                self._faults.clear(given.get("pipe"))
            case "POST", "rejections":
                self._faults.reject(Rejection(**{**given, "values": tuple(map(str, given["values"]))}))
            case "POST", "invalidate":
                return {"channels": self._channels.invalidate(given.pop("channel"), **given)}
            case "POST", "settings":
                self.set(**given)
            case "GET", "state":
                return self.state()
            case _:
                raise ProtocolError(404, "NOT_FOUND", f"{method} {path} is unknown.")
        return {"ok": True}

    def set(
        self,
        *,
        commit_delay: float | None = None,
        commit_paused: bool | None = None,
        token_seconds: float | None = None,
    ) -> None:
        """Change what is given."""
        settings = self._channels.settings
        settings.delay = settings.delay if commit_delay is None else commit_delay
        settings.paused = settings.paused if commit_paused is None else commit_paused
        if token_seconds is not None:
            self._service.token_seconds = token_seconds
        self._channels.wake()

    def state(self) -> dict[str, Any]:
        """What happened so far."""
        return {
            "requests": dict(self._faults.requests),
            "fired": dict(self._faults.fired),
            "uncommitted_requests": self._channels.waiting(),
        }
