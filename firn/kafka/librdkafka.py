"""Java client properties in librdkafka's terms. Not for choosing them (`firn.kafka.client`).

Left out is what only Java's clients know: cipher names, token refresh windows, metrics. Numbers are moved into
librdkafka's ranges. Sources: librdkafka's CONFIGURATION.md; for stores Kafka's "Security" chapter and KIP-651 (PEM).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

from firn.errors import ConfigError
from firn.kafka.jaas import login_of
from firn.kafka.property_table import PROPERTIES, Property

_JKS_MAGIC = b"\xfe\xed\xfe\xed"


def librdkafka_config(values: Mapping[str, str]) -> dict[str, str]:
    """The configuration for `values` (Java names). Holds credentials.

    Raises ConfigError for a store that librdkafka cannot use, naming the way out.
    """
    config = {"security.protocol": values["security.protocol"]}
    for name, value in values.items():
        row = PROPERTIES[name]
        if row.librdkafka:
            config[row.librdkafka] = _in_range(value, row)
    config |= _reconnecting(config)
    if "sasl.jaas.config" in values:
        config |= _login(values["sasl.mechanism"], values["sasl.jaas.config"])
    if "SSL" in values["security.protocol"].split("_"):
        config |= _truststore(values) | _keystore(values)
        config["ssl.endpoint.identification.algorithm"] = (
            values.get("ssl.endpoint.identification.algorithm", "https") or "none"
        )
    return config


def _in_range(value: str, row: Property) -> str:
    if row.bounds is None:
        return value
    low, high = row.bounds
    return str(min(max(int(value), low), high))


def _reconnecting(config: Mapping[str, str]) -> dict[str, str]:
    """A longest wait that is not below the first one: Java raises it silently, librdkafka refuses."""
    first, longest = config.get("reconnect.backoff.ms", "100"), config.get("reconnect.backoff.max.ms")
    if "reconnect.backoff.ms" not in config and longest is None:
        return {}
    return {"reconnect.backoff.max.ms": str(max(int(first), int(longest or first)))}


def _login(mechanism: str, jaas: str) -> dict[str, str]:
    login = login_of(jaas)
    options = login.options
    if mechanism != "OAUTHBEARER":
        return {
            "sasl.mechanisms": mechanism,
            "sasl.username": options["username"],
            "sasl.password": options["password"],
        }
    config = {
        "sasl.mechanisms": mechanism,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": options["clientId"],
        "sasl.oauthbearer.client.secret": options["clientSecret"],
    }
    if scope := options.get("scope"):
        config["sasl.oauthbearer.scope"] = scope
    if extensions := login.extensions:
        config["sasl.oauthbearer.extensions"] = ",".join(f"{name}={value}" for name, value in extensions.items())
    return config


def _truststore(values: Mapping[str, str]) -> dict[str, str]:
    if certificates := values.get("ssl.truststore.certificates"):
        return {"ssl.ca.pem": certificates}
    location = values.get("ssl.truststore.location")
    if not location:
        return {}
    if values.get("ssl.truststore.type") == "PEM":
        return {"ssl.ca.location": str(_existing(location, "ssl.truststore.location"))}
    store = _read_pkcs12(location, "ssl.truststore.location")
    return {"ssl.ca.pem": _certificates(store, values.get("ssl.truststore.password"), location)}


def _keystore(values: Mapping[str, str]) -> dict[str, str]:
    password = {"ssl.key.password": values["ssl.key.password"]} if "ssl.key.password" in values else {}
    if key := values.get("ssl.keystore.key"):
        chain = values.get("ssl.keystore.certificate.chain", "")
        return {"ssl.key.pem": key, "ssl.certificate.pem": chain} | password
    location = values.get("ssl.keystore.location")
    if not location:
        return {}
    if values.get("ssl.keystore.type") == "PEM":
        # One file with key and chain: OpenSSL takes from it what it looks for.
        path = str(_existing(location, "ssl.keystore.location"))
        return {"ssl.key.location": path, "ssl.certificate.location": path} | password
    _read_pkcs12(location, "ssl.keystore.location")
    return {"ssl.keystore.location": location, "ssl.keystore.password": values.get("ssl.keystore.password", "")}


def _existing(location: str, name: str) -> Path:
    path = Path(location)
    if not path.is_file():
        raise ConfigError("The file does not exist.", where=f"{name}={location}", next_step="Correct the path.")
    return path


def _read_pkcs12(location: str, name: str) -> bytes:
    """The store's bytes. A store that Java calls JKS may well be PKCS12: only the file tells."""
    data = _existing(location, name).read_bytes()
    if data.startswith(_JKS_MAGIC):
        target = Path(location).with_suffix(".p12")
        raise ConfigError(
            "librdkafka, which reads topics and offsets for the sink, cannot read a JKS store.",
            where=f"{name}={location}",
            next_step=f"Convert it: keytool -importkeystore -srckeystore {location} -destkeystore {target} "
            f"-deststoretype PKCS12. Then set {name}={target} and its type to PKCS12.",
        )
    if data.startswith(b"-----BEGIN"):
        raise ConfigError(
            "The file is PEM, which Java's clients read only when they are told.",
            where=f"{name}={location}",
            next_step=f"Set {name.replace('location', 'type')}=PEM.",
        )
    return data


def _certificates(store: bytes, password: str | None, location: str) -> str:
    """The trusted certificates of a PKCS12 store as PEM: librdkafka reads PKCS12 for its own key only."""
    try:
        content = pkcs12.load_pkcs12(store, password.encode() if password else None)
    except ValueError:
        raise ConfigError(
            "The trust store cannot be opened.",
            where=f"ssl.truststore.location={location}",
            next_step="Correct ssl.truststore.password, or set ssl.truststore.type=PEM for a PEM file.",
        ) from None
    if not content.additional_certs:
        raise ConfigError(
            "The trust store holds no trusted certificate.",
            where=f"ssl.truststore.location={location}",
            next_step="Import the CA of the brokers: keytool -importcert.",
        )
    return "".join(c.certificate.public_bytes(Encoding.PEM).decode() for c in content.additional_certs)
