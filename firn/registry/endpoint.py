"""Where a schema registry is: its addresses and credentials as values. Not for logging in (`firn.registry.login`)."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from pydantic import SecretStr


@dataclass(frozen=True)
class RegistryConfig:
    """The schema registry that a connector names itself; `user_info` is `<user>:<password>`.

    `logical_cluster` and `identity_pool` go with a token of Confluent Cloud.
    """

    urls: tuple[str, ...]
    user_info: SecretStr | None = None
    bearer_token: SecretStr | None = None
    ca_location: str | None = None
    logical_cluster: str | None = None
    identity_pool: str | None = None


def without_login(url: str) -> tuple[str, SecretStr | None]:
    """The address alone, and `<user>:<password>` where it holds them. An `@` behind the host is part of the path.

    Raises ValueError, without the address, where it is no http or https address.
    """
    try:
        parts = urlsplit(url.strip())
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        sound = False
    if not sound:
        raise ValueError("no http or https address")
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl().rstrip("/")
    if parts.username is None:
        return bare, None
    return bare, SecretStr(f"{unquote(parts.username)}:{unquote(parts.password or '')}")
