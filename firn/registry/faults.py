"""The registry client's errors as those of `firn.errors`: what was asked for, where, and what to do about it.

Not for making requests (`firn.registry.schemas`). Decided by HTTP status alone; codes are those of
https://docs.confluent.io/platform/current/schema-registry/develop/api.html#errors.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.common._httpx_compat import httpx  # the flavour this client raises errors from
from confluent_kafka.schema_registry.error import SchemaRegistryError

from firn.errors import AuthenticationError, ConfigError, FirnError, TerminalError, TransientError

_ASK_AGAIN = {408, 425, 429}
_PROXY_LOGIN = 407
_NOT_OF_THE_API = -1
_CREDENTIALS = (
    "Correct api_key and api_secret in the registry secret (FIRN_REGISTRY_SECRET_ID); where the connector names its "
    "registry: value.converter.basic.auth.user.info, or value.converter.bearer.auth.token and "
    "bearer.auth.logical.cluster (key.converter. for keys)."
)


class UnknownSchemaError(TerminalError):
    """The registry holds no schema with this id (error code 40403)."""


class IncompatibleSchemaError(TerminalError):
    """The registry refuses a schema that breaks the subject's compatibility (HTTP 409)."""


def address(client: SchemaRegistryClient) -> str:
    """The registry's urls, for messages; `registry_client` puts no credentials into them."""
    return str(client._conf["url"])


@contextmanager
def registry_errors(client: SchemaRegistryClient, subject: str) -> Iterator[None]:
    """Turn the client's errors into those of `firn.errors`; `subject` says what was asked for."""
    try:
        yield
    except SchemaRegistryError as error:
        if error.http_status_code == _PROXY_LOGIN:
            raise _refused_by_proxy(client) from error
        raise explained(error, address(client), subject) from error
    except json.JSONDecodeError as error:
        raise ConfigError(
            "What answers at this address is not a schema registry: it does not speak JSON.",
            where=f"{subject}, schema registry {address(client)}",
            next_step="Correct the registry's url.",
        ) from error
    except httpx.TransportError as error:
        if isinstance(error, httpx.ProxyError) and str(error).startswith(str(_PROXY_LOGIN)):
            raise _refused_by_proxy(client) from error
        proxy = _proxy(client)
        raise TransientError(
            f"The schema registry does not answer ({type(error).__name__}: {error}).",
            where=f"{subject}, schema registry {address(client)}" + (f" through proxy {proxy}" if proxy else ""),
            next_step=f"Check the registry's url{' and jvm.proxy.host and port' if proxy else ''} and the network; "
            "for the local stack see `firn status`.",
        ) from error


def _proxy(client: SchemaRegistryClient) -> str:
    """`host:port` of the proxy that the client was given, without its credentials; empty without one."""
    return urlsplit(client._rest_client.proxy or "").netloc.rpartition("@")[2]


def _refused_by_proxy(client: SchemaRegistryClient) -> AuthenticationError:
    return AuthenticationError(
        f"The proxy {_proxy(client)} refuses the credentials (HTTP {_PROXY_LOGIN}).",
        where="jvm.proxy.username, jvm.proxy.password",
        next_step="Correct them; the proxy takes them as basic authentication.",
    )


def _reason(error: SchemaRegistryError) -> str:
    """What the registry says; an answer that is not the API's (the client's code -1) is known by its status alone."""
    status = f"HTTP {error.http_status_code}"
    if error.error_code == _NOT_OF_THE_API:
        return status
    return f"{error.error_message} ({status}, code {error.error_code})"


def explained(error: SchemaRegistryError, url: str, subject: str) -> FirnError:
    """The registry's answer as an error of its kind, decided by HTTP status alone."""
    status, where = error.http_status_code, f"{subject}, schema registry {url}"
    reason = _reason(error)
    if status in (401, 403):
        return AuthenticationError(
            f"Schema Registry authentication failed: {reason}.",
            where=where,
            next_step=_CREDENTIALS,
        )
    # A code without further digits is the web server's: there is no such path.
    if status == 404 and re.fullmatch(r"404\d\d", str(error.error_code)):
        return UnknownSchemaError(
            f"The schema registry does not know {subject}: {reason}.",
            where=where,
            next_step="Check that the producer uses the same registry, and that the schema was not deleted.",
        )
    if status == 404:
        return ConfigError(
            f"There is no schema registry at this address: {reason}.",
            where=where,
            next_step="Correct the registry's url; its path must be that of the Confluent API.",
        )
    if status == 409:
        return IncompatibleSchemaError(
            f"The schema is not compatible with those before it: {reason}.",
            where=where,
            next_step="Correct the schema (give new fields a default), or change the subject's compatibility mode.",
        )
    if status >= 500 or status in _ASK_AGAIN:
        return TransientError(f"The schema registry failed: {reason}.", where=where, next_step="Try again later.")
    return ConfigError(
        f"The schema registry refuses this: {reason}.", where=where, next_step="Correct the schema or the subject."
    )
