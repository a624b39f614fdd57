"""The server's certificate, from an authority of its own, and the file of what its clients trust.

A client that trusts this file alone still reaches everything that the system's authorities vouch for: the SDK knows one
file (SSL_CERT_FILE) for all of its connections. The authority's key is thrown away once it has signed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import certifi
import trustme

NAMES = ("127.0.0.1", "localhost")


@dataclass(frozen=True)
class Certificates:
    """The files of one server."""

    folder: Path

    @property
    def server(self) -> Path:
        """Key and certificate of the server (mode 0600)."""
        return self.folder / "server.pem"

    @property
    def authority(self) -> Path:
        """The authority that signed it."""
        return self.folder / "ca.pem"

    @property
    def trusted(self) -> Path:
        """The system's authorities and ours."""
        return self.folder / "trusted.pem"

    def ensure(self) -> None:
        """Make what is absent; the file of trust is made at every start, because the system's authorities change."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.server.exists() and self.authority.exists()):
            authority = trustme.CA(path_length=0, organization_name="Firn", organization_unit_name="Local Snowflake")
            leaf = authority.issue_cert(*NAMES, common_name=NAMES[0], organization_name="Firn")
            key_and_certificate = leaf.private_key_pem.bytes() + b"".join(c.bytes() for c in leaf.cert_chain_pems)
            _replace(self.server, key_and_certificate)
            _replace(self.authority, authority.cert_pem.bytes())
        _replace(self.trusted, Path(certifi.where()).read_bytes() + b"\n" + self.authority.read_bytes())


def _replace(file: Path, content: bytes) -> None:
    part = file.with_name(f"{file.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as made:
        made.write(content)
    part.replace(file)
