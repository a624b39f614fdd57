"""Addresses of the schema registry, and the login that may stand in one. Not for logging in (`firn.registry_login`)."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

from pydantic import SecretStr


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
