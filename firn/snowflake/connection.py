"""The one way into Snowflake: who logs in where, sessions and statements. Holds no SQL of its own.

What its errors mean: `firn.snowflake.faults`. The driver takes seconds to import: it comes in with the first session,
so that a login can be known without it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from firn import proxy
from firn.errors import ConfigError, TransientError
from firn.keys import IN_CONNECTOR, IN_SECRET, KeyPlace, private_key_der
from firn.proxy import ProxyConfig
from firn.redaction import redacted
from firn.secrets import SnowflakeSecret
from firn.settings import Settings
from firn.snowflake.faults import translated

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

# The driver reports every retry and login on its own; what a user needs to know arrives as an error.
logging.getLogger("snowflake.connector").setLevel(logging.CRITICAL)

LOCK_TIMEOUT_SECONDS = 60
LOGIN_TIMEOUT_SECONDS = 15
# The driver takes it for two things: how long it asks again where there is no answer, and how long a statement may
# take, waiting for locks and for a warehouse included, before it cancels it. The largest COPY of a sink takes minutes.
NETWORK_TIMEOUT_SECONDS = 300
# Snowflake's own bound, for statements whose client is gone; its default is two days. Where the warehouse has lower
# bounds, those count (https://docs.snowflake.com/en/sql-reference/parameters#statement-timeout-in-seconds).
STATEMENT_TIMEOUT_SECONDS = NETWORK_TIMEOUT_SECONDS


@dataclass(frozen=True)
class SnowflakeLogin:
    """Everything a session needs. The key stays masked until the driver gets it."""

    account: str
    user: str
    role: str
    warehouse: str
    database: str
    schema: str
    host: str
    port: int
    protocol: Literal["http", "https"]
    private_key: SecretStr
    private_key_passphrase: SecretStr | None = None
    proxy: ProxyConfig | None = None
    key_place: KeyPlace = IN_SECRET

    @property
    def address(self) -> str:
        """Where this logs in, for messages."""
        through = f" through proxy {proxy.address(used)}" if (used := self.used_proxy) else ""
        who = f"user {self.user} with role {self.role or '(default)'}"
        return f"{who} at {self.protocol}://{self.host}:{self.port}{through}"

    @property
    def used_proxy(self) -> ProxyConfig | None:
        """The proxy that the account's host is reached through; storage decides for itself, by its own host."""
        return None if self.proxy is None or proxy.bypasses(self.proxy, self.host) else self.proxy


def login_from(settings: Settings, secret: SnowflakeSecret, secret_id: str | None = None) -> SnowflakeLogin:
    """The login that settings and secret describe. Raises ConfigError for a malformed url.

    secret_id: what the secret is called; the settings' own (snowflake_secret_id) by default.
    """
    secret_id = secret_id or settings.snowflake_secret_id
    protocol, host, port = parse_url(settings.snowflake_url or secret.url, secret.account)
    return SnowflakeLogin(
        account=secret.account,
        user=secret.user,
        role=secret.role,
        warehouse=secret.warehouse or settings.snowflake_warehouse,
        database=settings.snowflake_database,
        schema=settings.snowflake_schema,
        host=host,
        port=port,
        protocol=protocol,
        private_key=secret.private_key,
        private_key_passphrase=secret.private_key_passphrase,
        key_place=KeyPlace(f"secret {secret_id} in Secrets Manager, region {settings.aws_region}"),
    )


def account_of(url: str) -> str | None:
    """The account that an address names, as Snowflake forms its hosts; None for any other host."""
    found = re.fullmatch(r"(.+?)(\.privatelink)?\.snowflakecomputing\.(com|cn)", parse_url(url, "")[1])
    return found and found[1]


def login_without_secret(
    settings: Settings, url: str, user: str, private_key: SecretStr, passphrase: SecretStr | None
) -> SnowflakeLogin | None:
    """The login of a connector that names all of it, with the user's default role; None where `url` has no account."""
    protocol, host, port = parse_url(url, "")
    account = account_of(url)
    if account is None:
        return None
    return SnowflakeLogin(
        account=account,
        user=user,
        role="",
        warehouse=settings.snowflake_warehouse,
        database=settings.snowflake_database,
        schema=settings.snowflake_schema,
        host=host,
        port=port,
        protocol=protocol,
        private_key=private_key,
        private_key_passphrase=passphrase,
        key_place=IN_CONNECTOR,
    )


def with_url(login: SnowflakeLogin, url: str) -> SnowflakeLogin:
    """The same login at another address (a connector's `snowflake.url.name`)."""
    protocol, host, port = parse_url(url, login.account)
    return replace(login, account=account_of(url) or login.account, protocol=protocol, host=host, port=port)


def parse_url(url: str | None, account: str) -> tuple[Literal["http", "https"], str, int]:
    """(protocol, host, port) of an account URL; the scheme and port may be left out, as the connector allows."""
    if not url:
        return "https", f"{account}.snowflakecomputing.com", 443
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise ConfigError(
            f"The Snowflake URL {redacted(url)!r} is not valid.",
            where="snowflake.url.name, FIRN_SNOWFLAKE_URL or `url` in the Snowflake secret",
            next_step="Write it as <account>.<region>.snowflakecomputing.com, with an optional :port.",
        )
    protocol: Literal["http", "https"] = "http" if parts.scheme == "http" else "https"
    return protocol, parts.hostname, port or (80 if protocol == "http" else 443)


def open_connection(
    login: SnowflakeLogin,
    *,
    query_tag: str = "firn",
    lock_seconds: int = LOCK_TIMEOUT_SECONDS,
    answer_seconds: int | None = None,
) -> SnowflakeConnection:
    """A session in UTC with autocommit on, in which locks, queues and statements are bounded. The caller closes it.

    answer_seconds: how long this process waits for an answer; NETWORK_TIMEOUT_SECONDS where it is left out. It goes
    through `login.proxy`; without one the driver follows the environment (HTTPS_PROXY). Raises AuthenticationError,
    TransientError and others of `translated`, about the proxy where that is the cause.
    """
    from snowflake.connector import SnowflakeConnection

    from firn.snowflake.proxied_driver import connection_options, proxied_connection

    kind = proxied_connection(login.proxy) if login.proxy else SnowflakeConnection
    options = connection_options(login.proxy) if login.proxy else {}
    key = private_key_der(login.private_key, login.private_key_passphrase, login.key_place)
    with _blaming_the_proxy(login), translated(login.address, place=login.key_place):
        return kind(
            account=login.account,
            user=login.user,
            private_key=key,
            role=login.role or None,
            warehouse=login.warehouse,
            database=login.database,
            schema=login.schema,
            host=login.host,
            port=login.port,
            protocol=login.protocol,
            login_timeout=LOGIN_TIMEOUT_SECONDS,
            network_timeout=answer_seconds or NETWORK_TIMEOUT_SECONDS,
            application="firn",
            autocommit=True,
            paramstyle="qmark",
            session_parameters={
                "TIMEZONE": "UTC",
                # Texts become dates and times by their own form, whatever an account prefers.
                "DATE_INPUT_FORMAT": "AUTO",
                "TIME_INPUT_FORMAT": "AUTO",
                "TIMESTAMP_INPUT_FORMAT": "AUTO",
                # Names in quotes stay as they are written, as all that is looked up by name expects.
                "QUOTED_IDENTIFIERS_IGNORE_CASE": False,
                "QUERY_TAG": query_tag,
                "LOCK_TIMEOUT": lock_seconds,
                "STATEMENT_TIMEOUT_IN_SECONDS": STATEMENT_TIMEOUT_SECONDS,
                "STATEMENT_QUEUED_TIMEOUT_IN_SECONDS": STATEMENT_TIMEOUT_SECONDS,
                "CLIENT_TELEMETRY_ENABLED": False,
            },
            **options,
        )


@contextmanager
def _blaming_the_proxy(login: SnowflakeLogin) -> Iterator[None]:
    """Ask the proxy when there was no answer: the driver reports a refusing proxy as a time-out of the login."""
    try:
        yield
    except TransientError:
        if login.used_proxy:
            secure = login.protocol == "https"
            proxy.probe(login.used_proxy, login.host, login.port, secure=secure, timeout=LOGIN_TIMEOUT_SECONDS)
        raise


@contextmanager
def connect(login: SnowflakeLogin, *, query_tag: str = "firn") -> Iterator[SnowflakeConnection]:
    """A session for the length of a block."""
    connection = open_connection(login, query_tag=query_tag)
    try:
        yield connection
    finally:
        close_quietly(connection)


def close_quietly(connection: SnowflakeConnection) -> None:
    """End a session whose work is done, or lost: a goodbye without an answer changes nothing."""
    from snowflake.connector.errors import Error

    try:
        connection.close()
    except Error:
        logging.getLogger(__name__).debug("closing the Snowflake session failed")


def query(connection: SnowflakeConnection, sql: str, params: Sequence[Any] = ()) -> list[dict[str, Any]]:
    """Run one statement and return its rows as dictionaries by column name. Errors are Firn's own."""
    from snowflake.connector import DictCursor

    with translated(sql=sql, role=connection.role or ""), connection.cursor(DictCursor) as cursor:
        cursor.execute(sql, tuple(params) or None)
        return [dict(row) for row in cursor.fetchall()]


def execute(connection: SnowflakeConnection, sql: str, params: Sequence[Any] = ()) -> int:
    """Run one statement and return how many rows it changed."""
    with translated(sql=sql, role=connection.role or ""), connection.cursor() as cursor:
        cursor.execute(sql, tuple(params) or None)
        return int(cursor.rowcount or 0)
