"""Two certificate authorities of the stack's own: one for its broker, one for the broker's clients. No other trust.

They are two so that a stack which has the first keeps it: the key of an authority is thrown away once it has signed.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from firn_local.home import LOOPBACK, write_private

_VALID = timedelta(days=3650)


def ensure_certificates(folder: Path) -> None:
    """Make what is absent: ca.pem and broker.pem, clients-ca.pem and client.pem.

    broker.pem and client.pem hold a PKCS#8 key, its certificate and the CA: Kafka's PEM keystore.
    """
    server, client = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
    # Both: the broker is also a client of itself when it writes transaction markers.
    _ensure(folder / "ca.pem", folder / "broker.pem", "Firn local CA", "localhost", [server, client])
    _ensure(folder / "clients-ca.pem", folder / "client.pem", "Firn local client CA", "firn", [client])


def _ensure(
    authority: Path, leaf_file: Path, authority_name: str, name: str, usage: list[x509.ObjectIdentifier]
) -> None:
    """Make an authority and what it signs, unless both exist. Nothing else can ever be signed with its key."""
    if authority.exists() and leaf_file.exists():
        return
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = _certificate(authority_name, ca_key.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    ca_certificate = ca.issuer_name(_name(authority_name)).sign(ca_key, hashes.SHA256())
    leaf = _certificate(name, key.public_key()).add_extension(
        x509.BasicConstraints(ca=False, path_length=None), critical=True
    )
    if ExtendedKeyUsageOID.SERVER_AUTH in usage:
        hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(LOOPBACK))]
        leaf = leaf.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    leaf = leaf.add_extension(x509.ExtendedKeyUsage(usage), critical=False).issuer_name(ca_certificate.subject)
    ca_pem = ca_certificate.public_bytes(serialization.Encoding.PEM).decode()
    leaf_pem = leaf.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()
    write_private(leaf_file, pkcs8_pem(key) + leaf_pem + ca_pem)
    write_private(authority, ca_pem)


def pkcs8_pem(key: ec.EllipticCurvePrivateKey) -> str:
    """The private key as unencrypted PKCS#8 PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def _certificate(common_name: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    # A day back, because clocks of containers are sometimes behind.
    start = datetime.now(UTC) - timedelta(days=1)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(common_name))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + _VALID)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
