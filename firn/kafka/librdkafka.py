"""Java client properties in librdkafka's terms. Not for choosing them (`firn.kafka.client`) nor for stores (`stores`).

Numbers are moved into librdkafka's ranges. Source: librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote_plus

from firn.kafka.jaas import login_of
from firn.kafka.property_table import PROPERTIES, Property
from firn.kafka.stores import keystore, truststore


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
        config |= _login(values)
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


def _login(values: Mapping[str, str]) -> dict[str, str]:
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
