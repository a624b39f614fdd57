"""Private keys for Snowflake's key-pair login, in whatever text form a secret holds them.

Accepted: PKCS#8 and PKCS#1, encrypted or not; PEM with its headers, the bare base64 body, or PEM whose line breaks
became the two characters backslash and n. Source: Snowflake's key-pair authentication guide (RSA, 2048 bits or more).
"""

from __future__ import annotations

import base64
import binascii
import re

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from pydantic import SecretStr

from firn.errors import ConfigError

MINIMUM_BITS = 2048
# The first lines of an encrypted PKCS#1 key (RFC 1421), without blanks; the length of the vector tells where it ends.
_OLD_ENCRYPTION = re.compile(
    r"Proc-Type:4,ENCRYPTEDDEK-Info:(?P<cipher>AES-\d+-CBC|DES-EDE3-CBC|DES-CBC),"
    r"(?P<iv>(?<=AES-\d\d\d-CBC,)[0-9A-Fa-f]{32}|[0-9A-Fa-f]{16})"
)
_NEXT = (
    "Store a PKCS#8 PEM key: openssl genrsa 2048 | openssl pkcs8 -topk8 -nocrypt -inform PEM; "
    "see Snowflake's key-pair authentication guide."
)


def private_key_der(text: SecretStr, passphrase: SecretStr | None = None) -> bytes:
    """The key as unencrypted PKCS#8 DER, which is what the Snowflake driver takes.

    Raises ConfigError when the text is no RSA private key, the passphrase is missing or wrong, or the key is short.
    """
    key = _load(_normalise(text.get_secret_value()), passphrase)
    if not isinstance(key, RSAPrivateKey):
        raise ConfigError("The private key is not an RSA key.", where="private_key", next_step=_NEXT)
    if key.key_size < MINIMUM_BITS:
        raise ConfigError(
            f"The RSA private key has {key.key_size} bits; Snowflake takes {MINIMUM_BITS} or more.",
            where="private_key",
            next_step=_NEXT,
        )
    return key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _normalise(text: str) -> bytes:
    """PEM bytes with real line breaks, or DER bytes where the text had no headers."""
    text = text.replace("\\r", "").replace("\\n", "\n").replace("\ufeff", "").strip().strip("\"'").strip()
    framed = re.fullmatch(r"-----BEGIN ([A-Z ]+)-----(.*)-----END \1-----", text, re.DOTALL)
    label, body = framed.groups() if framed else ("", text)
    if "PUBLIC KEY" in label:
        raise _is_public()
    body = re.sub(r"\s+", "", body)
    if old := _OLD_ENCRYPTION.match(body):
        headers = ["Proc-Type: 4,ENCRYPTED", f"DEK-Info: {old['cipher']},{old['iv']}", ""]
        return _pem(label or "RSA PRIVATE KEY", headers, body[old.end() :])
    if framed:
        return _pem(label, [], body)
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError("The private key is neither PEM nor base64.", where="private_key", next_step=_NEXT) from None


def _pem(label: str, headers: list[str], body: str) -> bytes:
    lines = [f"-----BEGIN {label}-----", *headers, *re.findall(r".{1,64}", body), f"-----END {label}-----", ""]
    return "\n".join(lines).encode(errors="replace")


def _is_public() -> ConfigError:
    return ConfigError(
        "This is a public key, not a private one.",
        where="private_key",
        next_step="Store the private key here; the public one belongs to the user: ALTER USER ... SET RSA_PUBLIC_KEY.",
    )


def _is_public_der(data: bytes) -> bool:
    try:
        serialization.load_der_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        return False
    return True


def _load(data: bytes, passphrase: SecretStr | None) -> object:
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
        raise ConfigError(
            "The private key is encrypted and there is no passphrase.",
            where="private_key",
            next_step="Add private_key_passphrase to the secret.",
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        if not is_pem and _is_public_der(data):
            raise _is_public() from None
        raise ConfigError(
            "The private key cannot be read: damaged, or the passphrase does not fit.",
            where="private_key",
            next_step=_NEXT,
        ) from None
