"""Private keys for Snowflake's key-pair login, in whatever text form a secret holds them.

Accepted: PKCS#8 and PKCS#1, encrypted or not; PEM with its headers, the bare base64 body, or PEM whose line breaks
became the two characters backslash and n. Source: Snowflake's key-pair authentication guide (RSA, 2048 bits or more).
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from functools import lru_cache

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from pydantic import SecretStr

from firn.errors import ConfigError

MINIMUM_BITS = 2048
# The first lines of an encrypted PKCS#1 key (RFC 1421), without blanks; the length of the vector says where it ends.
_OLD_ENCRYPTION = re.compile(
    r"Proc-Type:4,ENCRYPTEDDEK-Info:(?P<cipher>AES-\d+-CBC|DES-EDE3-CBC|DES-CBC),"
    r"(?P<iv>(?<=AES-\d\d\d-CBC,)[0-9A-Fa-f]{32}|[0-9A-Fa-f]{16})"
)
_MAKE = f"openssl genrsa {MINIMUM_BITS} | openssl pkcs8 -topk8 -nocrypt -inform PEM"
_GIVE = "give its public half to the user (ALTER USER ... SET RSA_PUBLIC_KEY_2)"


@dataclass(frozen=True)
class KeyPlace:
    """Where a private key stands, for messages: what holds it, and the names of key and passphrase in there."""

    holder: str
    key: str = "private_key"
    passphrase: str = "private_key_passphrase"  # noqa: S105 (its name)

    def fault(self, what: str, next_step: str) -> ConfigError:
        """The error of a key that cannot be used."""
        return ConfigError(what, where=f"{self.key} in {self.holder}", next_step=next_step)


IN_SECRET = KeyPlace("the Snowflake secret")
IN_CONNECTOR = KeyPlace("the connector file", "snowflake.private.key", "snowflake.private.key.passphrase")


@lru_cache(maxsize=4)
def private_key_der(text: SecretStr, passphrase: SecretStr | None = None, place: KeyPlace = IN_SECRET) -> bytes:
    """The key as unencrypted PKCS#8 DER, which is what the Snowflake driver takes.

    The last few are remembered: to check that a key is sound takes some 40 ms of CPU, and each connection needs it.

    Raises ConfigError, which names `place`, when the text is no RSA private key, the passphrase is missing or wrong,
    or the key is short.
    """
    key = _load(_normalise(text.get_secret_value(), place), passphrase, place)
    if not isinstance(key, RSAPrivateKey):
        raise place.fault(
            "The private key is not an RSA key.", f"Make an RSA key ({_MAKE}), {_GIVE}, and put it into {place.key}."
        )
    if key.key_size < MINIMUM_BITS:
        raise place.fault(
            f"The RSA private key has {key.key_size} bits; Snowflake takes {MINIMUM_BITS} or more.",
            f"Make one of {MINIMUM_BITS} bits or more ({_MAKE}), {_GIVE}, and put it into {place.key}.",
        )
    return key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _normalise(text: str, place: KeyPlace) -> bytes:
    """PEM bytes with real line breaks, or DER bytes where the text had no headers."""
    text = text.replace("\\r", "").replace("\\n", "\n").replace("\ufeff", "").strip().strip("\"'").strip()
    framed = re.fullmatch(r"-----BEGIN ([A-Z ]+)-----(.*)-----END \1-----", text, re.DOTALL)
    label, body = framed.groups() if framed else ("", text)
    if "PUBLIC KEY" in label:
        raise _is_public(place)
    body = re.sub(r"\s+", "", body)
    if old := _OLD_ENCRYPTION.match(body):
        headers = ["Proc-Type: 4,ENCRYPTED", f"DEK-Info: {old['cipher']},{old['iv']}", ""]
        return _pem(label or "RSA PRIVATE KEY", headers, body[old.end() :])
    if framed:
        return _pem(label, [], body)
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise place.fault(
            "The private key is neither PEM nor base64.",
            f"Put the whole key into {place.key}: PEM with its headers, or the base64 text between them.",
        ) from None


def _pem(label: str, headers: list[str], body: str) -> bytes:
    lines = [f"-----BEGIN {label}-----", *headers, *re.findall(r".{1,64}", body), f"-----END {label}-----", ""]
    return "\n".join(lines).encode(errors="replace")


def _is_public(place: KeyPlace) -> ConfigError:
    return place.fault(
        "This is a public key, not a private one.",
        f"Put the private key into {place.key}; the public one belongs to the user: ALTER USER ... SET RSA_PUBLIC_KEY.",
    )


def _is_public_der(data: bytes) -> bool:
    try:
        serialization.load_der_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        return False
    return True


def _load(data: bytes, passphrase: SecretStr | None, place: KeyPlace) -> object:
    given = passphrase.get_secret_value() if passphrase else ""
    password = given.encode(errors="replace") or None
    is_pem = data.startswith(b"-----")
    encrypted = not is_pem or b"ENCRYPTED" in data
    load = serialization.load_pem_private_key if is_pem else serialization.load_der_private_key
    try:
        return load(data, password if encrypted else None)
    except TypeError:
        # An unencrypted bare key beside a passphrase is fine; an encrypted key without one is not.
        if password is not None:
            return load(data, None)
        raise place.fault(
            "The private key is encrypted and there is no passphrase.", f"Add {place.passphrase} to {place.holder}."
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        if not is_pem and _is_public_der(data):
            raise _is_public(place) from None
        raise place.fault(
            "The private key cannot be read: damaged, or the passphrase does not fit.",
            f"Put the whole key into {place.key}, and for an encrypted one its passphrase into {place.passphrase}; "
            "`openssl pkey -in <file> -noout` shows whether they fit.",
        ) from None
