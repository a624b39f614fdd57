"""Two certificate authorities of the stack's own: one for its broker, one for the broker's clients. No other trust.

They are two so that a stack which has the first keeps it: the key of an authority is thrown away once it has signed.
trustme makes certificates (valid until 2038, for servers and clients alike: the broker is also a client of itself when
it writes transaction markers); what it lacks is added here: files that stay, and keys in PKCS#8, the form Kafka takes.
"""

from __future__ import annotations

from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization

from firn_local.home import LOOPBACK, write_private


def ensure_certificates(folder: Path) -> None:
    """Make what is absent: ca.pem and broker.pem, clients-ca.pem and client.pem.

    broker.pem and client.pem hold a PKCS#8 key, its certificate and the CA: Kafka's PEM keystore.
    """
    _ensure(folder / "ca.pem", folder / "broker.pem", "Firn local CA", "localhost", LOOPBACK)
    _ensure(folder / "clients-ca.pem", folder / "client.pem", "Firn local client CA", "firn")


def _ensure(authority_file: Path, leaf_file: Path, authority_name: str, *names: str) -> None:
    """Make an authority and what it signs, unless both exist. Nothing else can ever be signed with its key."""
    if authority_file.exists() and leaf_file.exists():
        return
    authority = trustme.CA(path_length=0, organization_name="Firn", organization_unit_name=authority_name)
    leaf = authority.issue_cert(*names, common_name=names[0], organization_name="Firn")
    certificate = leaf.cert_chain_pems[0].bytes().decode()
    authority_pem = authority.cert_pem.bytes().decode()
    write_private(leaf_file, _pkcs8(leaf.private_key_pem.bytes()) + certificate + authority_pem)
    write_private(authority_file, authority_pem)


def _pkcs8(private_key_pem: bytes) -> str:
    key = serialization.load_pem_private_key(private_key_pem, None)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()
