"""Whether a JWT of key-pair authentication proves a user of the catalog. Not for what a login opens.

Source: https://docs.snowflake.com/en/user-guide/key-pair-auth. The connector gives times in seconds, the SDK of
Snowpipe Streaming in milliseconds; both are taken.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from firn_local.snowflake.privileges import principal_table

CLOCK_SKEW_SECONDS = 60
_OWN_CLOCK: Any = {"verify_exp": False, "verify_iat": False}  # PyJWT would read milliseconds as seconds
_LATEST_SECOND = 100_000_000_000


def proves(token: str, properties: Mapping[str, Any], only_account: str | None, user: str) -> bool:
    """Whether `token` is signed with the private half of one of the user's public keys, for this account and user."""
    keys = [str(properties[name]) for name in ("RSA_PUBLIC_KEY", "RSA_PUBLIC_KEY_2") if properties.get(name)]
    return any(_proves(token, key, only_account, user) for key in keys)


def claims(token: str) -> dict[str, Any]:
    """What a token says of itself, not verified; empty for anything else than a JWT."""
    try:
        said: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    except jwt.PyJWTError:
        return {}
    return said


def _seconds(moment: object) -> float:
    """A time since 1970 in seconds."""
    number = float(str(moment))
    return number if number < _LATEST_SECOND else number / 1000


def _proves(token: str, public_key: str, only_account: str | None, user: str) -> bool:
    body = "".join(line for line in public_key.split() if "-" not in line and line not in {"BEGIN", "END", "PUBLIC"})
    pem = f"-----BEGIN PUBLIC KEY-----\n{body}\n-----END PUBLIC KEY-----\n"
    try:
        key = load_pem_public_key(pem.encode())
        said = jwt.decode(token, key, algorithms=["RS256"], options=_OWN_CLOCK)  # type: ignore[arg-type]
        is_expired = _seconds(said.get("exp", 0)) < time.time() - CLOCK_SKEW_SECONDS
    except (jwt.PyJWTError, ValueError, TypeError):
        return False
    if is_expired:
        return False
    subject = str(said.get("sub", ""))
    issuer_is_ours = said.get("iss") == f"{subject}.{principal_table.fingerprint(public_key)}"
    account_is_ours = only_account is None or subject.rpartition(".")[0] == only_account.upper()
    return issuer_is_ours and account_is_ours and subject.rpartition(".")[2] == user
