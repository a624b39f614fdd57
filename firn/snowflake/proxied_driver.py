"""A Snowflake session whose every request (login, queries, PUT, GET, results) goes through the configured proxy.

Not for sessions without one: those follow the environment (HTTPS_PROXY, NO_PROXY) as the driver does. The driver has
`proxy_host` and others, but its requests prefer the environment's proxies to them, and its `no_proxy` knows no host
patterns and sets an environment variable while it looks. So each request asks `firn.proxy` here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from snowflake.connector import SnowflakeConnection
from snowflake.connector.session_manager import SessionManager
from snowflake.connector.vendored.requests.sessions import Session

from firn.proxy import ProxyConfig, bracketed, encoded_credentials, url_for


def connection_options(proxy: ProxyConfig) -> dict[str, Any]:
    """The driver's own parameters for this proxy, for what it decides on them; credentials as they stand in a url."""
    named = {"proxy_host": bracketed(proxy.host), "proxy_port": str(proxy.port)}
    credentials = encoded_credentials(proxy)
    return named | (dict(zip(("proxy_user", "proxy_password"), credentials, strict=True)) if credentials else {})


def proxied_connection(proxy: ProxyConfig) -> type[SnowflakeConnection]:
    """The driver's connection, but for its session manager: that makes sessions that use this proxy."""

    class Manager(SessionManager):
        def make_session(self, *, url: str | None = None) -> Session:
            del url  # each request decides for itself: a session may meet several hosts
            session = _Session(proxy)
            self._mount_adapters(session)
            return session

    class ProxiedConnection(SnowflakeConnection):
        @property
        def _session_manager(self) -> SessionManager | None:
            manager: SessionManager | None = self.__dict__.get("_session_manager")
            return manager

        @_session_manager.setter
        def _session_manager(self, manager: SessionManager | None) -> None:
            self.__dict__["_session_manager"] = manager and Manager(manager.config)

    return ProxiedConnection


class _Session(Session):
    def __init__(self, proxy: ProxyConfig) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._proxy = proxy

    def merge_environment_settings(self, url: str, proxies: Any, stream: Any, verify: Any, cert: Any) -> dict[str, Any]:
        """The settings of one request: those of the environment (a CA bundle), but never its proxies."""
        settings: Mapping[str, Any] = super().merge_environment_settings(url, proxies, stream, verify, cert)  # type: ignore[no-untyped-call]
        through = url_for(self._proxy, urlsplit(url).hostname or "")
        chosen = {scheme: through.get_secret_value() for scheme in ("http", "https")} if through else {}
        return {**settings, "proxies": chosen}
