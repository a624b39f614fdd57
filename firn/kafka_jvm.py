"""How Java's Kafka clients, Spark's source among them, reach and enter the cluster. Not for librdkafka: `firn.kafka`.

Property names are the Apache Kafka documentation's ("Consumer Configs", "Security").
"""

from __future__ import annotations

from firn.kafka import ca_file
from firn.secrets import KafkaSecret
from firn.settings import Settings

_JAAS_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
JAAS_VARIABLE = "FIRN_KAFKA_JAAS"
"""Environment variable of a JVM that holds its JAAS configuration, the user and password of SASL."""


def jvm_client_options(settings: Settings, secret: KafkaSecret) -> dict[str, str]:
    """Configuration of any Java client (Spark's Kafka source): its property names, without a prefix. No credential.

    Spark prints a source's options in plans, and plans in exceptions and logs. So the options only refer to
    JAAS_VARIABLE, which Kafka's client resolves (KIP-297, `EnvVarConfigProvider`); see `jvm_client_environment`.
    """
    options = {
        "bootstrap.servers": secret.bootstrap_servers,
        "security.protocol": settings.kafka_security_protocol,
        "client.id": "firn",
    }
    if settings.kafka_security_protocol.startswith("SASL"):
        options["sasl.mechanism"] = settings.kafka_sasl_mechanism
        options["config.providers"] = "env"
        options["config.providers.env.class"] = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
        options["sasl.jaas.config"] = f"${{env:{JAAS_VARIABLE}}}"
    if settings.kafka_ssl_ca_location and settings.kafka_security_protocol.endswith("SSL"):
        options["ssl.truststore.type"] = "PEM"
        options["ssl.truststore.location"] = ca_file(settings.kafka_ssl_ca_location)
    return options


def jvm_client_environment(settings: Settings, secret: KafkaSecret) -> dict[str, str]:
    """What the environment of a JVM must hold for `jvm_client_options`. Holds credentials; empty without SASL."""
    if not settings.kafka_security_protocol.startswith("SASL"):
        return {}
    user, password = (_quoted(value.get_secret_value()) for value in (secret.api_key, secret.api_secret))
    module = _JAAS_MODULES[settings.kafka_sasl_mechanism]
    return {JAAS_VARIABLE: f"{module} required username={user} password={password};"}


def _quoted(value: str) -> str:
    """A JAAS string: the parser of Java's `Configuration` unescapes backslash and double quote."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
