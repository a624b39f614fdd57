"""How a sink's clients reach and enter Kafka: one value, from which every client of librdkafka is configured.

Everything is kept under Java's property names, as connector files have them, and translated for librdkafka at the end.
Not for judging a configuration (`firn.kafka.properties`) nor for asking a cluster (`firn.kafka.cluster`). Sources: the
Apache Kafka documentation ("Consumer Configs", "Security"), librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote_plus

from pydantic import SecretStr

from firn.errors import ConfigError
from firn.kafka.jaas import login_of, render
from firn.kafka.properties import KafkaProperty, faults, spelled, treatment
from firn.kafka.property_table import NOT_FOR_READERS, PROPERTIES, Property
from firn.kafka.stores import keystore, truststore
from firn.secrets import KafkaSecret, read_secret
from firn.settings import Settings


@dataclass(frozen=True)
class KafkaClient:
    """The configuration of one cluster's clients; made by `kafka_client`. Values are masked, also inside exceptions."""

    properties: tuple[KafkaProperty, ...]

    @property
    def brokers(self) -> str:
        """The bootstrap servers, for messages."""
        return self._values["bootstrap.servers"]

    @property
    def read_committed(self) -> bool:
        """Whether records of open and aborted transactions are left out."""
        return self._values.get("isolation.level") == "read_committed"

    def librdkafka(self) -> dict[str, str]:
        """Configuration of any librdkafka client. Holds credentials. Raises ConfigError for files it cannot use."""
        return _librdkafka(self._values)

    @property
    def _values(self) -> dict[str, str]:
        return {p.name: p.value.get_secret_value() for p in self.properties}


def client_from_settings(settings: Settings) -> KafkaClient:
    """The client of settings and secret alone, for what no connector is about. Raises the errors of `read_secret`."""
    return kafka_client(settings, read_secret(settings, settings.kafka_secret_id, KafkaSecret))


def needs_secret(properties: Iterable[KafkaProperty]) -> bool:
    """Whether the Kafka secret is needed: the connector does not name both bootstrap servers and a whole login."""
    values = _chosen(properties)
    protocol = values.get("security.protocol")
    login = "sasl.jaas.config" in values or (protocol is not None and not protocol.startswith("SASL"))
    return "bootstrap.servers" not in values or not login


def kafka_client(
    settings: Settings, secret: KafkaSecret | None, properties: Iterable[KafkaProperty] = ()
) -> KafkaClient:
    """The client of a connector's `properties`, completed from settings and the secret; the connector wins.

    Of several properties with one name the last wins. Raises ConfigError for properties that the client cannot take, an
    absent CA file, and an absent secret where `needs_secret` says so.
    """
    chosen = _chosen(properties)
    values = _base(settings, chosen) | chosen
    protocol = values["security.protocol"]
    if "bootstrap.servers" not in values:
        values["bootstrap.servers"] = _present(secret, "bootstrap servers").bootstrap_servers
    if protocol.startswith("SASL") and "sasl.jaas.config" not in values:
        values["sasl.jaas.config"] = _login(values["sasl.mechanism"], _present(secret, "a login"))
    unused = [p for p, layer in (("sasl.", "SASL"), ("ssl.", "SSL")) if layer not in _layers(protocol)]
    kept = {name: value for name, value in values.items() if not name.startswith(tuple(unused))}
    client = tuple(KafkaProperty(name, SecretStr(value)) for name, value in sorted(kept.items()))
    _refuse_faulty(client)
    return KafkaClient(client)


def _layers(protocol: str) -> list[str]:
    return protocol.split("_")


def _chosen(properties: Iterable[KafkaProperty]) -> dict[str, str]:
    """The connector's honoured properties that reach a client. Raises ConfigError for refused ones and their values."""
    given = list(properties)
    _refuse_faulty(given)
    honoured = [p for p in given if treatment(p.name).kind == "honoured" and p.name not in NOT_FOR_READERS]
    return {p.name: spelled(p.name, p.value.get_secret_value()) or "" for p in honoured}


def _base(settings: Settings, chosen: dict[str, str]) -> dict[str, str]:
    """What the settings say where the connector does not."""
    base = {
        "client.id": "firn",
        "security.protocol": settings.kafka_security_protocol,
        "sasl.mechanism": settings.kafka_sasl_mechanism,
    }
    own_trust = any(name.startswith("ssl.truststore.") for name in chosen)
    if settings.kafka_ssl_ca_location and not own_trust:
        protocol = chosen.get("security.protocol", settings.kafka_security_protocol)
        if "SSL" in _layers(protocol):
            base |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": _ca_file(settings.kafka_ssl_ca_location)}
    return base


def _ca_file(path: Path) -> str:
    if not path.is_file():
        raise ConfigError(
            "The CA file for Kafka does not exist.",
            where=str(path),
            next_step="Correct FIRN_KAFKA_SSL_CA_LOCATION, or unset it to use the system's certificates.",
        )
    return str(path)


def _present(secret: KafkaSecret | None, what: str) -> KafkaSecret:
    if secret is None:
        raise ConfigError(
            f"The connector names no {what.removeprefix('a ')} for Kafka.",
            where="kafka.bootstrap.servers and kafka.sasl.jaas.config",
            next_step="Name both, or store the Kafka secret (FIRN_KAFKA_SECRET_ID).",
        )
    return secret


def _login(mechanism: str, secret: KafkaSecret) -> str:
    if mechanism == "OAUTHBEARER":
        raise ConfigError(
            "The connector asks for OAUTHBEARER without a login.",
            where="kafka.sasl.jaas.config",
            next_step="Name OAuthBearerLoginModule with clientId and clientSecret there, and "
            "kafka.sasl.oauthbearer.token.endpoint.url.",
        )
    login = {"username": secret.api_key.get_secret_value(), "password": secret.api_secret.get_secret_value()}
    return render(mechanism, login)


def _refuse_faulty(properties: Iterable[KafkaProperty]) -> None:
    given = list(properties)
    treated = [(p.name, treatment(p.name)) for p in given]
    found = [f"{name}: {j.reason}" for name, j in treated if j.kind == "refused"]
    found += [f"{fault.name}: {fault.what}" for fault in faults(given)]
    if found:
        raise ConfigError(
            f"No Kafka client can be made of these properties. {' '.join(found)}",
            where="kafka.* and consumer.override.* of the connector",
            next_step="Correct them; `firn sink validate` lists all faults of a configuration.",
        )


def _librdkafka(values: Mapping[str, str]) -> dict[str, str]:
    """The configuration for `values` (Java names), numbers moved into librdkafka's ranges. Holds credentials.

    Raises ConfigError for a store that librdkafka cannot use, naming the way out.
    """
    config = {"security.protocol": values["security.protocol"]}
    for name, value in values.items():
        row = PROPERTIES[name]
        if row.librdkafka:
            config[row.librdkafka] = _in_range(value, row)
    config |= _reconnecting(config)
    if "sasl.jaas.config" in values:
        config |= _librdkafka_login(values)
    if "SSL" in values["security.protocol"].split("_"):
        config |= truststore(values) | keystore(values)
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
    """A longest wait that is not below the first one: Kafka Connect raises it silently, librdkafka refuses."""
    first, longest = config.get("reconnect.backoff.ms", "100"), config.get("reconnect.backoff.max.ms")
    if "reconnect.backoff.ms" not in config and longest is None:
        return {}
    return {"reconnect.backoff.max.ms": str(max(int(first), int(longest or first)))}


def _librdkafka_login(values: Mapping[str, str]) -> dict[str, str]:
    mechanism, login = values["sasl.mechanism"], login_of(values["sasl.jaas.config"], values)
    options = login.options
    if mechanism != "OAUTHBEARER":
        return {
            "sasl.mechanisms": mechanism,
            "sasl.username": options["username"],
            "sasl.password": options["password"],
        }
    # librdkafka writes both into a header of HTTP's basic authentication as they are.
    encoded = quote_plus if values.get("sasl.oauthbearer.header.urlencode") == "true" else str
    config = {
        "sasl.mechanisms": mechanism,
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": encoded(options["clientId"]),
        "sasl.oauthbearer.client.secret": encoded(options["clientSecret"]),
    }
    if scope := options.get("scope"):
        config["sasl.oauthbearer.scope"] = scope
    if extensions := login.extensions:
        config["sasl.oauthbearer.extensions"] = ",".join(f"{name}={value}" for name, value in extensions.items())
    return config
