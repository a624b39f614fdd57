"""Which of Kafka's client properties a connector may set, and what is wrong with their values.

For `kafka.*` and `consumer.override.*`, under Java's names. Not for configuring a client (`firn.kafka.client`).
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import SecretStr

from firn.errors import ConfigError
from firn.kafka.jaas import JaasError, login_of, render
from firn.kafka.property_table import (
    CONSUMER_ONLY,
    GROUP,
    MECHANISMS,
    OWN_GROUPS,
    PRODUCER_ONLY,
    PROPERTIES,
    Kind,
    Property,
)
from firn.kafka.stores import keystore, truststore

Role = Literal["consumer", "producer", "admin"]
_LONGEST_NUMBER = 40


@dataclass(frozen=True)
class KafkaProperty:
    """One client property under its Java name; `secret` ones are masked wherever they are shown."""

    name: str
    value: SecretStr


@dataclass(frozen=True)
class Treatment:
    """What becomes of one property. `secret` values are masked everywhere; `nearest` is the known name meant, or ""."""

    kind: Kind
    reason: str = ""
    secret: bool = False
    nearest: str = ""


@dataclass(frozen=True)
class PropertyFault:
    """A value that the client cannot take. Holds no secret value."""

    name: str
    what: str
    allowed: tuple[str, ...] = ()


_IDLE: dict[Role, tuple[frozenset[str], str]] = {
    "producer": (
        PRODUCER_ONLY,
        "Dead letters are published with kafka.* and consumer.override.*, in transactions that Firn sets up.",
    ),
    "admin": (frozenset({"bootstrap.controllers"}), "The admin client takes kafka.* and consumer.override.*."),
}

# What people who know librdkafka write, and the Java name that says the same.
_ELSEWHERE = {
    "metadata.broker.list": "bootstrap.servers",
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.username": "sasl.jaas.config",
    "sasl.password": "sasl.jaas.config",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.ca.location": "ssl.truststore.location",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.key.location": "ssl.keystore.location",
    "ssl.key.pem": "ssl.keystore.key",
    "ssl.certificate.location": "ssl.keystore.location",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "enable.ssl.certificate.verification": "ssl.endpoint.identification.algorithm",
    "socket.timeout.ms": "request.timeout.ms",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
}


def treatment(name: str, role: Role = "consumer") -> Treatment:
    """What becomes of the property `name` of `kafka.*` and `consumer.override.*`, or of another client's overrides."""
    if role != "consumer":
        return _idle_treatment(name, role)
    row = PROPERTIES.get(name)
    return Treatment(row.kind, row.reason, row.secret) if row else _unknown(name, PROPERTIES)


def faults(properties: Iterable[KafkaProperty], unknown: Iterable[str] = ()) -> list[PropertyFault]:
    """Values of honoured properties that the client cannot take, each alone and login against mechanism.

    unknown: names of properties that are given too, with values that are not known yet.
    """
    values = _values(properties)
    found = [fault for name, value in values.items() if (fault := _value_fault(name, value))]
    return found + _login_faults({**dict.fromkeys(unknown), **values})


def store_faults(properties: Iterable[KafkaProperty], unknown: Iterable[str] = ()) -> list[PropertyFault]:
    """What is wrong with key and trust stores, as far as this machine has them; `unknown` as in `faults`."""
    values = _values(properties)
    if "SSL" not in values.get("security.protocol", "SSL").upper():
        return []
    found = []
    for store, read in (("ssl.truststore", truststore), ("ssl.keystore", keystore)):
        location = values.get(f"{store}.location", "")
        there = Path(location).is_file() and os.access(location, os.R_OK)
        if not there or any(name.startswith(store) for name in unknown):
            continue
        try:
            read({name: spelled(name, value) or "" for name, value in values.items()})
        except ConfigError as error:
            found.append(PropertyFault(f"{store}.location", f"{error.what} {error.next_step}"))
    return found


def managed_properties(
    endpoint: str | None, api_key: SecretStr | None, api_secret: SecretStr | None
) -> tuple[KafkaProperty, ...]:
    """Confluent Cloud's `kafka.endpoint`, `kafka.api.key` and `kafka.api.secret` as properties: SASL_SSL with PLAIN."""
    values = {"bootstrap.servers": re.sub(r"\w+://", "", endpoint)} if endpoint else {}
    if api_key and api_secret:
        login = {"username": api_key.get_secret_value(), "password": api_secret.get_secret_value()}
        values |= {"sasl.mechanism": "PLAIN", "sasl.jaas.config": render("PLAIN", login)}
    if values:
        values["security.protocol"] = "SASL_SSL"
    return tuple(KafkaProperty(name, SecretStr(value)) for name, value in values.items())


def _idle_treatment(name: str, role: Role) -> Treatment:
    own, reason = _IDLE[role]
    if name in CONSUMER_ONLY and name not in own:
        return Treatment("refused", f"It belongs to consumers: consumer.override.{name}.")
    row = PROPERTIES.get(name)
    if row is None and name not in own:
        return _unknown(name, own | PROPERTIES.keys() - CONSUMER_ONLY)
    return Treatment("no effect", reason, secret=row is not None and row.secret)


def _unknown(name: str, known: Iterable[str]) -> Treatment:
    """A value under a misspelt name may be a password: it counts as secret."""
    if name in _ELSEWHERE:
        return Treatment("refused", "It is librdkafka's name. Connector files hold Java's.", True, _ELSEWHERE[name])
    near = difflib.get_close_matches(name.lower(), list(known), n=1)
    return Treatment("refused", "Kafka has no such client property.", True, near[0] if near else "")


def spelled(name: str, value: str) -> str | None:
    """The value as Kafka spells it: trimmed, allowed values in their own case. None where it is not allowed."""
    allowed, text = PROPERTIES[name].allowed, value.strip()
    if not allowed:
        return text
    return next((choice for choice in allowed if choice.lower() == text.lower()), None)


def _values(properties: Iterable[KafkaProperty]) -> dict[str, str]:
    return {p.name: p.value.get_secret_value() for p in properties if treatment(p.name).kind == "honoured"}


def _value_fault(name: str, value: str) -> PropertyFault | None:
    row, text = PROPERTIES[name], spelled(name, value)
    if text is None:
        return PropertyFault(name, f"It is none of the allowed values. {row.otherwise}".strip(), row.allowed)
    if row.form != "text":
        return _number_fault(name, text, row)
    if name in ("bootstrap.servers", "client.id", GROUP) and not text:
        return PropertyFault(name, "It is empty.")
    if name == GROUP and text.startswith(OWN_GROUPS):
        return PropertyFault(name, f"Groups that begin with {', '.join(OWN_GROUPS)} hold what sinks remember.")
    if name == "bootstrap.servers" and "@" in text:  # brokers are named in logs and messages
        return PropertyFault(name, "It holds a user or password, which belong into sasl.jaas.config.")
    return _token_url_fault(name, text) if name == "sasl.oauthbearer.token.endpoint.url" else None


def _number_fault(name: str, text: str, row: Property) -> PropertyFault | None:
    """A number that Kafka Connect does not take either; one beyond librdkafka's range is moved into it."""
    if not re.fullmatch(r"[+-]?\d+", text, re.ASCII):
        return PropertyFault(name, "It is not an integer.")
    # A text of thousands of digits is no number to Python either.
    if len(text) > _LONGEST_NUMBER or not row.least <= int(text) <= row.most:
        return PropertyFault(name, "It is out of the range that Kafka allows.", (f"{row.least} to {row.most}",))
    return None


def _token_url_fault(name: str, text: str) -> PropertyFault | None:
    try:
        parts = urlsplit(text)
        sound = re.fullmatch(r"https?://[^\s\"']+", text) and parts.hostname and parts.port != 0
    except ValueError:
        sound = None
    if not sound:
        return PropertyFault(name, "It is not an http or https address.")
    if "@" in parts.netloc:
        return PropertyFault(name, "It holds a user or password: give clientId and clientSecret in sasl.jaas.config.")
    return None


def _login_faults(values: Mapping[str, str | None]) -> list[PropertyFault]:
    mechanism, jaas = values.get("sasl.mechanism"), values.get("sasl.jaas.config")
    if jaas is None:
        return []
    try:
        login = login_of(jaas, values)
    except JaasError as error:
        return [PropertyFault("sasl.jaas.config", str(error))]
    if mechanism in MECHANISMS and mechanism not in login.mechanisms:
        what = f"sasl.jaas.config names the login module of {' and '.join(login.mechanisms)}."
        return [PropertyFault("sasl.mechanism", what)]
    return []
