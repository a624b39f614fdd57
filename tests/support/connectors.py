"""Connector configurations of tests: the smallest one, and a private key that passes the check."""

from __future__ import annotations

from functools import cache

from cryptography.hazmat.primitives import serialization as ser
from cryptography.hazmat.primitives.asymmetric import rsa

MINIMAL = {"name": "orders", "topics": "order-events"}


@cache
def private_key(passphrase: str | None = None) -> str:
    """A PEM private key, the same in one process."""
    encryption = ser.BestAvailableEncryption(passphrase.encode()) if passphrase else ser.NoEncryption()
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, encryption).decode()
