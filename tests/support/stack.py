"""The embedded stack from outside: its servers' states, and Kafka as a user reaches it."""

from __future__ import annotations

import json
from typing import Any

from firn.secrets import KafkaSecret, read_secret
from firn.settings import Settings

SERVERS = {"secrets-manager", "prefect", "kafka", "schema-registry", "snowflake", "prefect-worker"}


def status(stack: Any) -> dict[str, dict[str, Any]]:
    out = stack.run("status", "--json", check=False).stdout
    return {row["server"]: row for row in map(json.loads, out.splitlines())}


def pids(stack: Any) -> dict[str, int]:
    return {name: row["pid"] for name, row in status(stack).items()}


def kafka_configuration(settings: Settings) -> dict[str, str]:
    secret = read_secret(settings, settings.kafka_secret_id, KafkaSecret)
    return {
        "bootstrap.servers": secret.bootstrap_servers,
        "security.protocol": "SASL_SSL",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": secret.api_key.get_secret_value(),
        "sasl.password": secret.api_secret.get_secret_value(),
        "ssl.ca.location": str(settings.kafka_ssl_ca_location),
    }
