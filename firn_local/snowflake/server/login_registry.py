"""Who is logged in, over which TCP connections, and which transactions nobody will finish any more.

A client that vanishes (killed, network gone) leaves no open TCP connection. When a session with an open transaction
has none for `detached_seconds`, it is closed: the transaction is rolled back, its locks are released, and a client that
returns is told that its session is gone. The real Snowflake does this after 5 minutes when another transaction
waits for the lock, else after 4 hours. A transaction idle for `idle_transaction_seconds` is rolled back likewise.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
import time
from dataclasses import dataclass, field

from starlette.concurrency import run_in_threadpool

from firn_local.snowflake.engine.login_session import Session

Address = tuple[str, int]


@dataclass
class Login:
    """A session and what keeps it alive."""

    session: Session
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    connections: set[Address] = field(default_factory=set)
    running: int = 0
    last_seen: float = field(default_factory=time.monotonic)


class Registry:
    """Logins by token."""

    def __init__(self, *, detached_seconds: float, idle_transaction_seconds: float) -> None:
        self._logins: dict[str, Login] = {}
        self._lock = threading.Lock()
        self._detached_seconds = detached_seconds
        self._idle_seconds = idle_transaction_seconds

    def add(self, session: Session) -> Login:
        """Register a new login."""
        login = Login(session)
        with self._lock:
            self._logins[login.token] = login
        return login

    def find(self, token: str, address: Address | None) -> Login | None:
        """The login of `token`; a request over `address` shows that its client is there."""
        with self._lock:
            login = self._logins.get(token)
            if login is not None:
                login.last_seen = time.monotonic()
                if address is not None:
                    login.connections.add(address)
            return login

    def disconnected(self, address: Address) -> None:
        """A TCP connection ended."""
        with self._lock:
            for login in self._logins.values():
                if address in login.connections:
                    login.connections.discard(address)
                    login.last_seen = time.monotonic()

    async def close(self, login: Login) -> None:
        """End a session: what it runs is cancelled, what it has open is rolled back."""
        with self._lock:
            self._logins.pop(login.token, None)
        login.session.cancel()
        await run_in_threadpool(login.session.close)

    async def close_all(self) -> None:
        """End every session."""
        for login in list(self._logins.values()):
            await self.close(login)

    async def reap(self) -> None:
        """Close, for ever, the sessions that have ended or whose transactions nobody will finish."""
        while True:
            await asyncio.sleep(min(1.0, self._detached_seconds / 4))
            for login in self._abandoned():
                await self.close(login)

    def _abandoned(self) -> list[Login]:
        now = time.monotonic()
        with self._lock:
            return [login for login in self._logins.values() if self._is_abandoned(login, now - login.last_seen)]

    def _is_abandoned(self, login: Login, silent: float) -> bool:
        if login.session.is_locked_out:
            return True
        transaction = login.session.transactions.current
        if transaction is None:
            return False
        detached = not login.connections and silent > self._detached_seconds
        idle = login.running == 0 and silent > self._idle_seconds
        return detached or idle
