"""How a process logs in to the schema registry, and the client made from that.

Not for asking the registry anything (`schemas`): the registry's client, which takes long to import, comes in
where one is made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from firn.errors import ConfigError
from firn.proxy import ProxyConfig, url_for
from firn.registry.endpoint import RegistryConfig, without_login
from firn.secrets import RegistrySecret

if TYPE_CHECKING:
    from confluent_kafka.schema_registry import SchemaRegistryClient

REQUEST_SECONDS = 5.0
"""Time-out of one request; the client tries each url twice, so a dead one is noticed after about ten seconds."""


@dataclass(frozen=True)
class RegistryLogin:
    """How to reach and enter the registry. `urls` are tried in order and hold no credentials.

    user_info: `<user>:<password>` of basic auth, for every url. `logical_cluster` (the registry's id, lsrc-...) and
    `identity_pool` go with a token of Confluent Cloud.
    """

    urls: tuple[str, ...]
    user_info: SecretStr | None = None
    bearer_token: SecretStr | None = None
    ca_location: str | None = None
    proxy: ProxyConfig | None = None
    logical_cluster: str | None = None
    identity_pool: str | None = None


def login_from_secret(secret: RegistrySecret, proxy: ProxyConfig | None = None) -> RegistryLogin:
    """The login that a secret holds: its url (several by commas), key and secret."""
    user_info = f"{secret.api_key.get_secret_value()}:{secret.api_secret.get_secret_value()}"
    return login_from_config(RegistryConfig(tuple(secret.url.split(",")), SecretStr(user_info)), proxy)


def login_from_config(config: RegistryConfig, proxy: ProxyConfig | None = None) -> RegistryLogin:
    """The login of a connector. A user and password inside its urls count where it names no other.

    Raises ConfigError for a malformed url, without the url, which may hold a password.
    """
    try:
        parts = [without_login(url) for url in config.urls]
    except ValueError:
        raise _malformed() from None
    return RegistryLogin(
        urls=tuple(url for url, _ in parts),
        user_info=config.user_info or next((login for _, login in parts if login), None),
        bearer_token=config.bearer_token,
        ca_location=config.ca_location,
        proxy=proxy,
        logical_cluster=config.logical_cluster,
        identity_pool=config.identity_pool,
    )


def _malformed() -> ConfigError:
    return ConfigError(
        "The address of the schema registry is malformed.",
        where="schema.registry.url of the connector, or url in the registry secret",
        next_step="Give http(s)://host[:port][/path]; several of them with commas between.",
    )


def registry_client(login: RegistryLogin) -> SchemaRegistryClient:
    """A client that tries the urls in order, each with the same credentials. It connects on its first request.

    Raises ConfigError where the certificates at `ca_location` cannot be read, and where only some urls want the proxy.
    """
    from confluent_kafka.schema_registry import SchemaRegistryClient

    settings = {
        "url": ",".join(login.urls),
        "timeout": REQUEST_SECONDS,
        "max.retries": 1,
        "retries.wait.ms": 200,
        "retries.max.wait.ms": 500,
    }
    try:
        return SchemaRegistryClient(settings | _credentials(login))
    except ValueError:
        raise _malformed() from None
    except OSError as error:
        raise ConfigError(
            f"The certificates that vouch for the schema registry cannot be read ({type(error).__name__}).",
            where=str(login.ca_location),
            next_step="Name a file of PEM certificates that this machine holds, on every executor too.",
        ) from error


def _credentials(login: RegistryLogin) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if login.user_info:
        found["basic.auth.user.info"] = login.user_info.get_secret_value()
    if login.bearer_token:
        found |= {
            "bearer.auth.credentials.source": "STATIC_TOKEN",
            "bearer.auth.token": login.bearer_token.get_secret_value(),
            # The client insists on it; other registries than Confluent Cloud's have none.
            "bearer.auth.logical.cluster": login.logical_cluster or "",
        }
        if login.identity_pool:
            found["bearer.auth.identity.pool.id"] = login.identity_pool
    if login.ca_location:
        found["ssl.ca.location"] = login.ca_location
    return found | _proxy(login)


def _proxy(login: RegistryLogin) -> dict[str, str]:
    """The client has one way for all urls."""
    ways = {url_for(login.proxy, urlsplit(url).hostname or "") for url in login.urls}
    if len(ways) > 1:
        raise ConfigError(
            "Some urls of the schema registry go through the proxy and some do not.",
            where=f"schema registry {', '.join(login.urls)}",
            next_step="Name all of their hosts in jvm.nonProxy.hosts, or none.",
        )
    way = next(iter(ways), None)
    return {"proxy": way.get_secret_value()} if way else {}
