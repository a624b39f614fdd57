"""A certificate authority of the stack's own and the certificate its broker shows. Not for any other trust."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from firn.local.home import LOOPBACK, write_private

_VALID = timedelta(days=3650)


def ensure_certificates(folder: Path) -> None:
    """Make ca.pem (the CA) and broker.pem (PKCS#8 key, certificate, CA: Kafka's PEM keystore) unless both exist.

    The CA's key is thrown away: nothing else can ever be signed with it.
    """
    authority, broker = folder / "ca.pem", folder / "broker.pem"
    if authority.exists() and broker.exists():
        return
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    ca = _certificate("Firn local CA", ca_key.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    ca_certificate = ca.issuer_name(_name("Firn local CA")).sign(ca_key, hashes.SHA256())
    leaf = (
        _certificate("localhost", key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(LOOPBACK))]),
            critical=False,
        )
        # Both: the broker is also a client of itself when it writes transaction markers.
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .issuer_name(ca_certificate.subject)
        .sign(ca_key, hashes.SHA256())
    )
    ca_pem = ca_certificate.public_bytes(serialization.Encoding.PEM).decode()
    leaf_pem = leaf.public_bytes(serialization.Encoding.PEM).decode()
    write_private(broker, pkcs8_pem(key) + leaf_pem + ca_pem)
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
