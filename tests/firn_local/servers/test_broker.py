"""The ways into the embedded Kafka, for librdkafka: passwords by PLAIN and SCRAM, certificates by mutual TLS."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from firn.errors import AuthenticationError
from firn.kafka.client import KafkaClient, client_from_settings, kafka_client
from firn.kafka.cluster import admin_client, find_topics
from firn.kafka.properties import KafkaProperty
from firn.secrets import KafkaSecret, read_secret
from firn_local.home import Home
from firn_local.servers.broker import Broker
from firn_local.stack.lifecycle import SERVERS
from firn_local.stack.loopback_ports import with_ports

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def mutual(stack: Any) -> dict[str, str]:
    """A connector's properties for the listener that wants certificates, from what `firn up` wrote down."""
    lines = (line.partition("=") for line in (stack.home / "stack.env").read_text().splitlines() if "=" in line)
    env = {name: value.strip("'") for name, _, value in lines}
    return {
        "security.protocol": "SSL",
        "bootstrap.servers": env["FIRN_LOCAL_KAFKA_MUTUAL_TLS"],
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": env["FIRN_LOCAL_KAFKA_CLIENT_CERTIFICATE"],
    }


def client(stack: Any, values: dict[str, str], secret: KafkaSecret | None = None) -> KafkaClient:
    return kafka_client(stack.settings, secret, [KafkaProperty(n, SecretStr(v)) for n, v in values.items()])


def enter(kafka: KafkaClient) -> None:
    """Ask one question, which nobody answers who was not let in."""
    assert find_topics(admin_client(kafka), ["topic-that-is-not-there"]) == {}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_api_key_is_let_in_by_every_mechanism_and_a_wrong_one_by_none(stack: Any, mechanism: str) -> None:
    secret = read_secret(stack.settings, stack.settings.kafka_secret_id, KafkaSecret)
    enter(client(stack, {"sasl.mechanism": mechanism}, secret))
    wrong = secret.model_copy(update={"api_secret": SecretStr("wrong")})
    with pytest.raises(AuthenticationError, match="refused the login") as refused:
        enter(client(stack, {"sasl.mechanism": mechanism}, wrong))
    assert "kafka.sasl" in refused.value.next_step


def test_a_certificate_is_let_in_without_the_secret(stack: Any, mutual: dict[str, str]) -> None:
    enter(client(stack, mutual))
    key, mark, certificates = Home.load(stack.home).client_certificate.read_text().partition("-----BEGIN CERTIFICATE")
    inline = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": mark + certificates}
    enter(client(stack, {name: mutual[name] for name in ("security.protocol", "bootstrap.servers")} | inline))


def test_no_certificate_and_another_authoritys_are_refused_at_once(stack: Any, mutual: dict[str, str]) -> None:
    # Signed by the authority of the broker, which vouches for no client.
    other = {"ssl.keystore.location": str(stack.home / "data" / "kafka" / "broker.pem")}
    bare = {name: value for name, value in mutual.items() if "keystore" not in name}
    for values in (mutual | other, bare):
        with pytest.raises(AuthenticationError, match="certificate") as refused:
            enter(client(stack, values))
        assert "kafka.ssl.keystore" in refused.value.next_step


def test_status_tells_where_certificates_are_wanted(stack: Any, mutual: dict[str, str]) -> None:
    done = stack.run("status", "--json")
    assert f"mutual TLS at {mutual['bootstrap.servers']}" in done.stderr
    row = next(r for r in map(json.loads, done.stdout.splitlines()) if r["server"] == "kafka")
    assert row["address"] == client_from_settings(stack.settings).brokers


def test_a_cluster_id_that_begins_with_a_dash_is_taken_as_any_other(
    stack: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = with_ports(Home.load(tmp_path), SERVERS)
    monkeypatch.setattr(Home, "settings", lambda _self: stack.settings)
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=0xF8 << 120))
    Broker().launch(home)
    written = (home.data("kafka") / "logs" / "meta.properties").read_text()
    assert "cluster.id=-AAAAAAAAAAAAAAAAAAAAA" in written
