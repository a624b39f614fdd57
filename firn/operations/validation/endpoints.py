"""Can an endpoint be reached: its name (DNS), its port (TCP), its certificate (TLS), through the proxy that is used.

Not for logging in: what a server says to credentials is its client's to find out. Verification errors are OpenSSL's
(X509_V_ERR_*, https://docs.openssl.org/master/man3/X509_STORE_CTX_get_error/).
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass

from firn.errors import ConfigError, FirnError, TransientError
from firn.operations.validation.live_check import LiveCheck
from firn.proxy import ProxyConfig, bracketed, bypasses, open_tunnel, probe
from firn.proxy import address as proxy_address

CONNECT_SECONDS = 10.0
EXPIRES_SOON_DAYS = 14

_EXPIRED, _NOT_YET = {10}, {9}
_UNKNOWN_CA = {2, 18, 19, 20, 21}
_WRONG_HOST = {62, 64}


@dataclass(frozen=True)
class Trust:
    """Whom a client believes: CA certificates of a file or a text (neither: the system's); whether the name counts.

    strict: whether a certificate must have all that RFC 5280 wants where this Python asks for that (3.13 and later).
    """

    ca_file: str | None = None
    ca_text: str | None = None
    check_host: bool = True
    strict: bool = True

    def context(self) -> ssl.SSLContext:
        """As OpenSSL takes it. Raises ConfigError where the CA certificates cannot be read."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file, cadata=self.ca_text)
        except (OSError, ValueError):
            raise ConfigError(
                "The CA certificates cannot be read.",
                where=self.ca_file or "the given certificates",
                next_step="Name a PEM file of certificates.",
            ) from None
        context.check_hostname = self.check_host
        if not self.strict:
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context


@dataclass(frozen=True)
class Endpoint:
    """Where a client connects to. `named_by` says which parameter to correct; `trust` is None without TLS."""

    name: str
    host: str
    port: int
    named_by: str
    trust: Trust | None = None
    proxy: ProxyConfig | None = None

    @property
    def address(self) -> str:
        """`host:port`."""
        return f"{bracketed(self.host)}:{self.port}"

    @property
    def used_proxy(self) -> ProxyConfig | None:
        """The proxy on the way, if there is one."""
        return None if self.proxy is None or bypasses(self.proxy, self.host) else self.proxy


def check_endpoint(endpoint: Endpoint) -> Iterator[LiveCheck]:
    """One check for the connection and, with TLS, one for the certificate. Raises FirnError where there is no way."""
    connection, way = _connect(endpoint)
    yield LiveCheck(f"connection {endpoint.name}", "ok", f"{endpoint.address}{way}")
    if endpoint.trust is None or connection is None:
        return
    with connection:
        yield _certificate(endpoint, endpoint.trust.context(), connection)


def _connect(endpoint: Endpoint) -> tuple[socket.socket | None, str]:
    """A connection (None where the proxy passes plain requests on) and how it goes."""
    if proxy := endpoint.used_proxy:
        way = f" through proxy {proxy_address(proxy)}"
        if endpoint.trust:
            return open_tunnel(proxy, endpoint.host, endpoint.port, timeout=CONNECT_SECONDS), way
        probe(proxy, endpoint.host, endpoint.port, secure=False, timeout=CONNECT_SECONDS)
        return None, way
    try:
        known = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise _unreachable(endpoint, f"The host name {endpoint.host} is not known (DNS)") from None
    try:
        connection = socket.create_connection((endpoint.host, endpoint.port), CONNECT_SECONDS)
    except TimeoutError:
        raise _unreachable(endpoint, f"{endpoint.address} does not answer within {CONNECT_SECONDS:.0f} s") from None
    except OSError as error:
        raise _unreachable(endpoint, f"No connection to {endpoint.address}: {error.strerror or error}") from None
    addresses = sorted({str(entry[4][0]) for entry in known} - {endpoint.host})
    return connection, f" ({', '.join(addresses)})" if addresses else ""


def _unreachable(endpoint: Endpoint, what: str) -> FirnError:
    return TransientError(f"{what}.", next_step=f"Check {endpoint.named_by}, the network and its firewalls.")


def _certificate(endpoint: Endpoint, context: ssl.SSLContext, connection: socket.socket) -> LiveCheck:
    subject = f"certificate {endpoint.name}"
    try:
        with context.wrap_socket(connection, server_hostname=endpoint.host.strip("[]")) as secured:
            certificate = secured.getpeercert() or {}
            version = secured.version()
    except ssl.SSLCertVerificationError as error:
        return LiveCheck(subject, "failed", *_refused(endpoint, error))
    except OSError as error:
        text = f"No TLS at {endpoint.address}: {getattr(error, 'reason', None) or error.strerror or 'it hung up'}"
        return LiveCheck(subject, "failed", text, f"Check {endpoint.named_by}: is this the port for TLS?")
    days = int((ssl.cert_time_to_seconds(str(certificate["notAfter"])) - time.time()) // 86_400)
    found = f"{version}, certificate valid for {days} more days"
    if days < EXPIRES_SOON_DAYS:
        return LiveCheck(subject, "warning", found, "Have the certificate renewed.")
    return LiveCheck(subject, "ok", found)


def _refused(endpoint: Endpoint, error: ssl.SSLCertVerificationError) -> tuple[str, str]:
    """(what was found, next step), by OpenSSL's code."""
    code, renew = error.verify_code, f"Have the certificate of {endpoint.address} renewed."
    if code in _EXPIRED:
        return "The certificate has expired.", renew
    if code in _NOT_YET:
        return (
            "The certificate is not valid yet.",
            "Check this machine's clock and the certificate.",
        )
    if code in _WRONG_HOST:
        return (
            f"The certificate belongs to another host than {endpoint.host}.",
            f"Use a name that the certificate holds in {endpoint.named_by}, or have one issued for this name.",
        )
    if code in _UNKNOWN_CA:
        return (
            "The certificate is signed by an authority that is not trusted here.",
            "Name the authority's certificate (PEM) as truststore or CA file of this client.",
        )
    return f"The certificate is refused: {error.verify_message}.", renew
