"""Endpoints looked at live: names, ports and certificates, directly and through a real proxy."""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from firn.operations.validation.endpoints import Endpoint, Trust, check_endpoint
from firn.operations.validation.live_check import LiveCheck, Task, run_tasks
from firn.proxy import ProxyConfig
from tests.support.proxies import closed_port, running_proxy


def name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """A CA that signs certificates for 127.0.0.1 into files. plain: without what RFC 5280 wants of their forms."""

    def __init__(self, folder: Path, *, plain: bool = False) -> None:
        self.folder, self.key, self.plain = folder, ec.generate_private_key(ec.SECP256R1()), plain
        self.certificate = self.build("Test CA", self.key.public_key(), timedelta(days=30), ca=True)
        self.file = folder / "ca.pem"
        self.file.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def build(self, subject: str, key: ec.EllipticCurvePublicKey, ends: timedelta, *, ca: bool) -> x509.Certificate:
        begin = datetime.now(UTC) - timedelta(days=60)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name("Test CA"))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(datetime.now(UTC) + ends)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        )
        if ca and not self.plain:
            builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            builder = builder.add_extension(_SIGNS, critical=True)
        elif not self.plain:
            signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
            builder = builder.add_extension(signer, critical=False)
        if not ca:
            where = x509.IPAddress(ipaddress.ip_address(subject))
            builder = builder.add_extension(x509.SubjectAlternativeName([where]), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def server_file(self, *, days: int, address: str = "127.0.0.1") -> Path:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self.build(address, key.public_key(), timedelta(days=days, hours=1), ca=False)
        pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        file = self.folder / f"{address}-{days}.pem"
        file.write_bytes(pem + certificate.public_bytes(serialization.Encoding.PEM))
        return file


@contextmanager
def serving(certificate: Path | None) -> Iterator[int]:
    """A port that speaks TLS with this certificate (None: accepts, then hangs up), for the length of a block."""
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                if context:
                    try:
                        context.wrap_socket(connection, server_side=True).close()
                    except OSError:
                        continue

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(10)


def look(port: int, trust: Trust | None = None, host: str = "127.0.0.1", proxy: ProxyConfig | None = None):
    endpoint = Endpoint("there", host, port, "snowflake.url.name", trust, proxy)
    return run_tasks([Task("connection there", lambda: check_endpoint(endpoint))])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


def certificate_check(authority: Authority, trust: Trust | None = None, **of: object) -> LiveCheck:
    with serving(authority.server_file(**of)) as port:  # type: ignore[arg-type]
        connection, certificate = look(port, trust or Trust(str(authority.file)))
    assert connection == LiveCheck("connection there", "ok", f"127.0.0.1:{port}")
    return certificate


def test_a_good_certificate_says_how_long(authority: Authority):
    check = certificate_check(authority, days=100)
    assert check.state == "ok"
    assert "100 more days" in check.found


def test_a_plain_one_is_fine_for_clients_that_are_not_strict(tmp_path: Path):
    plain = Authority(tmp_path, plain=True)
    assert certificate_check(plain, Trust(str(plain.file), strict=False), days=100).state == "ok"


def test_one_that_ends_soon_is_a_warning(authority: Authority):
    check = certificate_check(authority, days=3)
    assert check.state == "warning"
    assert "3 more days" in check.found


def test_an_expired_one(authority: Authority):
    check = certificate_check(authority, days=-3)
    assert check.state == "failed"
    assert "expired" in check.found


def test_one_of_another_host(authority: Authority):
    check = certificate_check(authority, days=100, address="127.0.0.2")
    assert check.state == "failed"
    assert "another host than 127.0.0.1" in check.found
    assert "snowflake.url.name" in check.next_step


def test_another_host_is_fine_where_names_do_not_count(authority: Authority):
    trust = Trust(str(authority.file), check_host=False)
    assert certificate_check(authority, trust, days=100, address="127.0.0.2").state == "ok"


def test_an_authority_that_nobody_trusts(authority: Authority):
    check = certificate_check(authority, Trust(), days=100)
    assert check.state == "failed"
    assert "authority that is not trusted" in check.found


def test_an_authority_given_as_text(authority: Authority):
    assert certificate_check(authority, Trust(ca_text=authority.file.read_text()), days=100).state == "ok"


def test_a_port_without_tls(authority: Authority):
    with serving(None) as port:
        connection, certificate = look(port, Trust(str(authority.file)))
    assert connection.state == "ok"
    assert certificate.state == "failed"
    assert "No TLS" in certificate.found


def test_a_ca_file_that_is_not_there(authority: Authority):
    with serving(None) as port:
        _, check = look(port, Trust("/no/such/ca.pem"))
    assert check.state == "failed"
    assert "/no/such/ca.pem" in check.found


def test_a_closed_port_and_an_unknown_host():
    (refused,) = look(closed_port())
    assert (refused.state, "refused" in refused.found) == ("failed", True)
    (unknown,) = look(443, host="no-such-host.invalid")
    assert "no-such-host.invalid is not known (DNS)" in unknown.found
    assert "snowflake.url.name" in unknown.next_step


def test_through_a_proxy(authority: Authority, tmp_path: Path):
    with running_proxy(tmp_path) as proxy, serving(authority.server_file(days=100)) as port:
        connection, certificate = look(port, Trust(str(authority.file)), proxy=proxy.config)
        assert f"through proxy 127.0.0.1:{proxy.port}" in connection.found
        assert certificate.state == "ok"
        assert f"CONNECT 127.0.0.1:{port}" in proxy.served()
        (unreachable,) = look(closed_port(), Trust(str(authority.file)), proxy=proxy.config)
        assert unreachable.state == "failed"
    (down,) = look(port, proxy=proxy.config)
    assert f"The proxy 127.0.0.1:{proxy.port} does not answer" in down.found
