"""The HTTP side of the local Snowflake: logins, query requests, uploads to stages, health. Not for SQL.

The paths and bodies are those of fakesnow's server, which the Snowflake clients speak to.
"""

from __future__ import annotations

import gzip
import json
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fakesnow.expr import normalise_ident
from fakesnow.transforms import SERVER_VERSION
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from firn_local.snowflake.engine.account import Account
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.server import authentication, uploads
from firn_local.snowflake.server.login_registry import Login, Registry
from firn_local.snowflake.server.query_requests import Queries

log = logging.getLogger("firn_local.snowflake")
SESSION_GONE = ("390111", "Session no longer exists. New login required to access the service.")


@dataclass
class State:
    """What the routes share."""

    account: Account
    registry: Registry
    queries: Queries
    close: Callable[[], None]


def build_app(account: Account, registry: Registry, queries: Queries, close: Callable[[], None]) -> Starlette:
    """The ASGI application; `close` is called at its end, once every session is closed."""
    server = _Routes(State(account, registry, queries, close))
    routes = [
        Route("/health", server.health),
        Route("/session/v1/login-request", server.login, methods=["POST"]),
        Route("/session", server.session, methods=["POST"]),
        Route("/session/heartbeat", server.session, methods=["POST"]),
        Route("/session/token-request", server.session, methods=["POST"]),
        Route("/queries/v1/query-request", server.query, methods=["POST"]),
        Route("/queries/v1/abort-request", server.abort, methods=["POST"]),
        Route("/queries/{query_id}/result", server.result),
        Route("/monitoring/queries/{query_id}", server.monitoring),
        Route("/telemetry/send", server.telemetry, methods=["POST"]),
        Route("/fs_bucket/{path:path}", server.upload, methods=["PUT"]),
    ]
    return Starlette(routes=routes, lifespan=server.lifespan)


class _Routes:
    """One method a path."""

    def __init__(self, state: State) -> None:
        self._state = state

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        import asyncio

        import anyio.to_thread

        # A statement that waits for a lock keeps its thread: allow for many of them.
        anyio.to_thread.current_default_thread_limiter().total_tokens = 256
        reaper = asyncio.create_task(self._state.registry.reap())
        yield
        reaper.cancel()
        await self._state.registry.close_all()
        self._state.close()

    async def health(self, _: Request) -> JSONResponse:
        return JSONResponse({"ok": True})

    async def telemetry(self, _: Request) -> JSONResponse:
        return JSONResponse({"data": None, "success": True})

    async def login(self, request: Request) -> JSONResponse:
        data = (await _json(request))["data"]
        query = request.query_params
        names = [
            normalise_ident(query[k]) if query.get(k) else None
            for k in ("databaseName", "schemaName", "roleName", "warehouse")
        ]
        try:
            user = authentication.verify(self._state.account, data)
            session = authentication.open_session(self._state.account, user, *names)
        except authentication.Refused as refused:
            log.info("login refused: %s", refused)
            return JSONResponse(
                {"data": {"nextAction": None}, "code": refused.code, "message": str(refused), "success": False}
            )
        session.set_parameters(data.get("SESSION_PARAMETERS") or {})
        login = self._state.registry.add(session)
        self._state.registry.find(login.token, request.scope.get("client"))
        log.info("session %s: login of %s", session.id, user)
        return JSONResponse(_logged_in(login))

    async def session(self, request: Request) -> JSONResponse:
        login = self._login(request)
        if login is None:
            return _gone()
        if request.query_params.get("delete"):
            await self._state.registry.close(login)
        return JSONResponse({"data": None, "code": None, "message": None, "success": True})

    async def query(self, request: Request) -> JSONResponse:
        login = self._login(request)
        if login is None:
            return _gone()
        body = await _json(request)
        request_id = request.query_params.get("requestId") or body.get("requestId") or os.urandom(8).hex()
        base = f"{request.url.scheme}://{request.url.netloc}/fs_bucket/"
        return JSONResponse(await self._state.queries.submit(login, request_id, body, base))

    async def result(self, request: Request) -> JSONResponse:
        if self._login(request) is None:
            return _gone()
        answer = await self._state.queries.result(request.path_params["query_id"])
        return JSONResponse(answer) if answer is not None else _gone()

    async def abort(self, request: Request) -> JSONResponse:
        login = self._login(request)
        if login is not None:
            login.session.cancel()
        return JSONResponse({"data": None, "success": True})

    async def monitoring(self, request: Request) -> JSONResponse:
        login = self._login(request)
        if login is None:
            return _gone()
        known = login.session.results_cache.get(request.path_params["query_id"])
        return JSONResponse({"data": {"queries": [{"status": "SUCCESS"}] if known else []}, "success": True})

    async def upload(self, request: Request) -> Response:
        """Receive the file of a PUT."""
        account, path = self._state.account, request.path_params["path"]
        if not uploads.is_signed(account, path, request.query_params.get("signature", "")):
            return Response(status_code=403)
        received = await uploads.receive(account, path, request.stream())
        return Response(status_code=200 if received else 400)

    def _login(self, request: Request) -> Login | None:
        header = request.headers.get("Authorization", "")
        login = self._state.registry.find(header[len('Snowflake Token="') : -1], request.scope.get("client"))
        return None if login is None or login.session.is_locked_out else login


async def _json(request: Request) -> dict[str, Any]:
    body = await request.body()
    if request.headers.get("Content-Encoding") == "gzip":
        body = gzip.decompress(body)
    result: dict[str, Any] = json.loads(body)
    return result


def _gone() -> JSONResponse:
    code, message = SESSION_GONE
    return JSONResponse({"data": None, "code": code, "message": message, "success": False})


def _logged_in(login: Login) -> dict[str, Any]:
    session: Session = login.session
    data = {
        "token": login.token,
        "masterToken": login.token,
        "validityInSeconds": 3600 * 24 * 365,
        "masterValidityInSeconds": 3600 * 24 * 365,
        "sessionId": session.id,
        "serverVersion": SERVER_VERSION,
        "parameters": [
            {"name": "AUTOCOMMIT", "value": bool(session.parameters["AUTOCOMMIT"])},
            {"name": "CLIENT_SESSION_KEEP_ALIVE_HEARTBEAT_FREQUENCY", "value": 3600},
            {"name": "CLIENT_STAGE_ARRAY_BINDING_THRESHOLD", "value": 0},
            {"name": "CLIENT_TELEMETRY_ENABLED", "value": False},
        ],
        "sessionInfo": {
            "databaseName": session.database,
            "schemaName": session.schema,
            "roleName": session.role,
            "warehouseName": session.warehouse,
        },
    }
    return {"data": data, "success": True}
