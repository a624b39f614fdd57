"""The stack's certificates: each party proves itself to the other, keys are private files, what exists is kept."""

from __future__ import annotations

import ssl
import stat
from pathlib import Path

import pytest

from firn_local.servers.certificates import ensure_certificates


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, host: str) -> None:
    """A TLS handshake in memory. Raises what the client or server raises."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    parties = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(parties)
    while waiting:
        for party in list(waiting):
            try:
                party.do_handshake()
            except ssl.SSLWantReadError:
                continue
            waiting.remove(party)
    for party in parties:  # TLS 1.3: a client learns only now that its certificate was refused
        with pytest.raises(ssl.SSLWantReadError):
            party.read()


def contexts(folder: Path, client_file: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """(the broker that wants clients' certificates, a client that shows `client_file`)."""
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "clients-ca.pem"))
    server.load_cert_chain(folder / "broker.pem")
    server.verify_mode = ssl.CERT_REQUIRED
    client = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    client.load_cert_chain(folder / client_file)
    return server, client


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_broker_and_client_trust_each_other(tmp_path: Path, host: str) -> None:
    ensure_certificates(tmp_path)
    handshake(*contexts(tmp_path, "client.pem"), host)


def test_a_certificate_of_the_other_authority_and_another_host_are_refused(tmp_path: Path) -> None:
    ensure_certificates(tmp_path)
    with pytest.raises(ssl.SSLError):
        handshake(*contexts(tmp_path, "broker.pem"), "localhost")
    with pytest.raises(ssl.SSLError, match="Hostname mismatch"):
        handshake(*contexts(tmp_path, "client.pem"), "example.com")


def test_keystores_are_as_kafka_takes_them_and_for_their_owner_only(tmp_path: Path) -> None:
    ensure_certificates(tmp_path)
    for name in ("broker.pem", "client.pem"):
        text = (tmp_path / name).read_text()
        assert text.startswith("-----BEGIN PRIVATE KEY-----")  # PKCS#8
        assert text.count("-----BEGIN CERTIFICATE-----") == 2
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


def test_what_exists_is_kept(tmp_path: Path) -> None:
    ensure_certificates(tmp_path)
    before = {file.name: file.read_text() for file in tmp_path.iterdir()}
    (tmp_path / "clients-ca.pem").unlink()
    ensure_certificates(tmp_path)
    after = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert {name for name in after if after[name] == before[name]} == {"ca.pem", "broker.pem"}
