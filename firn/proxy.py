"""The HTTP proxy of `jvm.proxy.*`: which hosts go through it, as which url, and what is wrong when it does not let us.

Not for making requests: the Snowflake and the registry client do that, with the url from here. Nothing reads or
changes the environment's proxies. Host patterns are those of Java's `http.nonProxyHosts`
(https://docs.oracle.com/en/java/javase/17/docs/api/java.base/java/net/doc-files/net-properties.html).
"""

from __future__ import annotations

import http.client
import re
import socket
from base64 import b64encode
from contextlib import closing
from dataclasses import dataclass
from urllib.parse import quote

from pydantic import SecretStr

from firn.errors import AuthenticationError, FirnError, TerminalError, TransientError

_ADDRESS = "jvm.proxy.host, jvm.proxy.port"
# Every other status may just as well be the target's answer to a plain request.
_OF_PROXIES = {407, 502, 503, 504}
_CREDENTIALS = "jvm.proxy.username, jvm.proxy.password"


@dataclass(frozen=True)
class ProxyConfig:
    """The HTTP proxy of the Snowflake and the registry client; `bypass` are host patterns with `*`."""

    host: str
    port: int
    username: str | None = None
    password: SecretStr | None = None
    bypass: tuple[str, ...] = ()


def bypasses(proxy: ProxyConfig, host: str) -> bool:
    """Whether `host` is reached without the proxy: one of the patterns fits, whatever the case.

    `*` stands for any text. An IPv6 address fits with or without its brackets.
    """
    name = host.strip("[]").lower()
    return any(_pattern(pattern).fullmatch(name) for pattern in proxy.bypass)


def _pattern(pattern: str) -> re.Pattern[str]:
    parts = pattern.strip().lower().replace("[", "").replace("]", "").split("*")
    return re.compile(".*".join(map(re.escape, parts)))


def url_for(proxy: ProxyConfig | None, host: str) -> SecretStr | None:
    """The proxy's url with its credentials, percent-encoded, or None where `host` is reached directly."""
    if proxy is None or bypasses(proxy, host):
        return None
    credentials = encoded_credentials(proxy)
    login = ":".join(credentials) + "@" if credentials else ""
    return SecretStr(f"http://{login}{address(proxy)}")


def encoded_credentials(proxy: ProxyConfig) -> tuple[str, str] | None:
    """User and password as they stand in a url, or None for a proxy without a login. They are not masked any more."""
    if proxy.username is None:
        return None
    return quote(proxy.username, safe=""), quote(_password(proxy), safe="")


def address(proxy: ProxyConfig) -> str:
    """`host:port`, an IPv6 address in brackets; for urls and messages."""
    return f"{bracketed(proxy.host)}:{proxy.port}"


def bracketed(host: str) -> str:
    """A host as it stands in a url: an IPv6 address in brackets."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def open_tunnel(proxy: ProxyConfig, host: str, port: int, *, timeout: float) -> socket.socket:
    """A connection to host:port through the proxy (CONNECT, RFC 9110 9.3.6). The caller closes it.

    Raises TransientError (the proxy is down, or cannot reach the host), AuthenticationError (it refuses the
    credentials) or TerminalError (it refuses the host). No message carries a password.
    """
    target = f"{bracketed(host)}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *_authorization_lines(proxy), "", ""]
    try:
        connection = socket.create_connection((proxy.host.strip("[]"), proxy.port), timeout)
        try:
            connection.sendall("\r\n".join(lines).encode("ascii"))
            answer = http.client.HTTPResponse(connection, method="CONNECT")
            answer.begin()
            _check(proxy, target, answer.status)
        except BaseException:
            connection.close()
            raise
    except (OSError, http.client.HTTPException) as error:
        raise _down(proxy, error) from error
    return connection


def probe(proxy: ProxyConfig, host: str, port: int, *, secure: bool, timeout: float) -> None:
    """Find out whether the proxy leads to host:port, as a tunnel (`secure`) or by passing on a plain request.

    Raises like `open_tunnel`.
    """
    if secure:
        open_tunnel(proxy, host, port, timeout=timeout).close()
        return
    target = f"{bracketed(host)}:{port}"
    headers = dict(line.split(": ", 1) for line in _authorization_lines(proxy))
    client = http.client.HTTPConnection(proxy.host.strip("[]"), proxy.port, timeout=timeout)
    try:
        with closing(client):
            client.request("HEAD", f"http://{target}/", headers=headers)
            status = client.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise _down(proxy, error) from error
    if status in _OF_PROXIES:
        _check(proxy, target, status)


def _authorization_lines(proxy: ProxyConfig) -> list[str]:
    if proxy.username is None:
        return []
    token = b64encode(f"{proxy.username}:{_password(proxy)}".encode()).decode()
    return [f"Proxy-Authorization: Basic {token}"]


def _password(proxy: ProxyConfig) -> str:
    return proxy.password.get_secret_value() if proxy.password else ""


def _check(proxy: ProxyConfig, target: str, status: int) -> None:
    where = f"proxy {address(proxy)}"
    if status == 407:
        what = "refuses the credentials" if proxy.username is not None else "requires credentials"
        raise AuthenticationError(
            f"The proxy {address(proxy)} {what} (HTTP 407).",
            where=_CREDENTIALS,
            next_step=f"Correct {_CREDENTIALS}; the proxy takes them as basic authentication.",
        )
    if status >= 500:
        raise TransientError(
            f"The proxy {address(proxy)} does not reach {target} (HTTP {status}).",
            where=where,
            next_step=f"Check the name {target}; a host that needs no proxy belongs into jvm.nonProxy.hosts.",
        )
    if not 200 <= status < 300:
        raise TerminalError(
            f"The proxy {address(proxy)} does not let us connect to {target} (HTTP {status}).",
            where=where,
            next_step="Ask for the host to be allowed there, or name it in jvm.nonProxy.hosts.",
        )


def _down(proxy: ProxyConfig, error: Exception) -> FirnError:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return TransientError(
        f"The proxy {address(proxy)} does not answer ({reason}).",
        where=_ADDRESS,
        next_step=f"Check {_ADDRESS}, and that the proxy runs and may be reached from here.",
    )
