"""Key and trust stores as Kafka's Java clients name them, read for librdkafka: PEM and PKCS12, and the way out of JKS.

PKCS12 is read here and handed on as PEM: librdkafka reads no trusted certificates from it, and its OpenSSL opens no
store that keytool of Java 8 made. Sources: Kafka's "Security" chapter, KIP-651 (PEM), librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
from cryptography.x509 import Certificate

from firn.errors import ConfigError

_JKS_MAGIC = b"\xfe\xed\xfe\xed"


def truststore(values: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's properties for the certificates that `values` (Java names) trust. Raises ConfigError."""
    if certificates := values.get("ssl.truststore.certificates"):
        return {"ssl.ca.pem": certificates}
    location = values.get("ssl.truststore.location")
    if not location:
        return {}
    if values.get("ssl.truststore.type") == "PEM":
        return {"ssl.ca.location": str(_existing(location, "ssl.truststore"))}
    trusted = _pkcs12(location, "ssl.truststore", values).additional_certs
    if not trusted:
        raise ConfigError(
            "The trust store holds no trusted certificate.",
            where=f"ssl.truststore.location={location}",
            next_step="Import the CA of the brokers: keytool -importcert.",
        )
    return {"ssl.ca.pem": _pem(each.certificate for each in trusted)}


def keystore(values: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's properties for the client's key and certificates in `values`. Holds the key. Raises ConfigError."""
    password = {"ssl.key.password": values["ssl.key.password"]} if "ssl.key.password" in values else {}
    if key := values.get("ssl.keystore.key"):
        chain = values.get("ssl.keystore.certificate.chain", "")
        return {"ssl.key.pem": key, "ssl.certificate.pem": chain} | password
    location = values.get("ssl.keystore.location")
    if not location:
        return {}
    if values.get("ssl.keystore.type") == "PEM":
        # One file with key and chain: OpenSSL takes from it what it looks for.
        path = str(_existing(location, "ssl.keystore"))
        return {"ssl.key.location": path, "ssl.certificate.location": path} | password
    store = _pkcs12(location, "ssl.keystore", values)
    if store.key is None or store.cert is None:
        raise ConfigError(
            "The key store holds no key with its certificate.",
            where=f"ssl.keystore.location={location}",
            next_step="Name the store of the client's own key; trusted certificates belong into ssl.truststore.*.",
        )
    clear = store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    others = [each.certificate for each in store.additional_certs]
    return {"ssl.key.pem": clear, "ssl.certificate.pem": _pem(_chain(store.cert.certificate, others))}


def _existing(location: str, store: str) -> Path:
    path = Path(location)
    if not path.is_file():
        raise ConfigError(
            "The file does not exist.", where=f"{store}.location={location}", next_step="Correct the path."
        )
    return path


def _pkcs12(location: str, store: str, values: Mapping[str, str]) -> pkcs12.PKCS12KeyAndCertificates:
    password = values.get(f"{store}.password")
    data = _content(location, store, password)
    try:
        return pkcs12.load_pkcs12(data, password.encode() if password else None)
    except (ValueError, TypeError):
        raise ConfigError(
            "The store cannot be opened: it is no PKCS12 store, or has another password.",
            where=f"{store}.location={location}",
            next_step=f"Correct {store}.password, or set {store}.type=PEM for a PEM file.",
        ) from None


def _content(location: str, store: str, password: str | None) -> bytes:
    """The store's bytes. A store that Java calls JKS may well be PKCS12: only the file tells."""
    where = f"{store}.location={location}"
    try:
        data = _existing(location, store).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"The store cannot be read: {error.strerror}.", where=where, next_step="Give the sink's user the right."
        ) from None
    if data.startswith(_JKS_MAGIC):
        raise ConfigError(
            "The store is of type JKS, which only Java reads.",
            where=where,
            next_step=_conversion(location, store, password),
        )
    if data.startswith(b"-----BEGIN"):
        raise ConfigError("The file is PEM, and its type is not set.", where=where, next_step=f"Set {store}.type=PEM.")
    return data


def _conversion(location: str, store: str, password: str | None) -> str:
    target = Path(location).with_suffix(".p12")
    step = (
        f"Convert it: keytool -importkeystore -srckeystore {location} -destkeystore {target} -deststoretype PKCS12. "
        f"Then set {store}.location={target} and {store}.type=PKCS12"
    )
    if password:
        return f"{step}, with the password that you gave the new store in {store}.password."
    return (
        f"{step}. The JKS store is used without a password: press Enter where keytool asks for the source password, "
        f"give the new store a password, and set it as {store}.password."
    )


def _chain(own: Certificate, others: Iterable[Certificate]) -> Iterator[Certificate]:
    """The client's certificate, and each one's issuer as far as the store holds it."""
    left = {each.subject: each for each in others}
    found: Certificate | None = own
    while found is not None:
        yield found
        found = left.pop(found.issuer, None)


def _pem(certificates: Iterable[Certificate]) -> str:
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)
