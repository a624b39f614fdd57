"""Asking a cluster, and what a person is told when that does not work."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import NewTopic
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from pydantic import SecretStr

from firn.errors import AuthenticationError, ConfigError, PrivilegeError, TransientError
from firn.kafka import cluster
from firn.kafka.client import client_from_settings, kafka_client
from firn.kafka.cluster import (
    TopicInfo,
    admin_client,
    describe_topics,
    offsets,
)
from firn.kafka.faults import ConnectionFaults
from firn.kafka.properties import KafkaProperty
from firn.secrets import KafkaSecret, read_secret
from firn.settings import Settings

SECRET = KafkaSecret(bootstrap_servers="b:9092", api_key="key", api_secret='a"b\\c')


@pytest.mark.parametrize("why", ["Local: Broker transport failure", "Local: Timed out", "Disconnected while waiting"])
def test_a_connection_that_ends_in_the_middle_of_a_login_refused_nothing(why):
    faults = ConnectionFaults("b:9092")
    faults(KafkaError(KafkaError._AUTHENTICATION, f"SASL PLAIN mechanism handshake failed: {why}"))
    assert faults.terminal() is None
    assert isinstance(faults.explain(KafkaError(KafkaError._TIMED_OUT), "list topics"), TransientError)


def test_a_refused_login_explains_a_time_out():
    faults = ConnectionFaults("b:9092")
    faults(KafkaError(KafkaError._TRANSPORT, "connection reset"))
    faults(KafkaError(KafkaError._AUTHENTICATION, "Invalid username or password"))
    assert isinstance(faults.explain(KafkaError(KafkaError._TIMED_OUT), "list topics"), AuthenticationError)
    faults.clear()
    assert isinstance(faults.explain(KafkaError(KafkaError._TIMED_OUT), "list topics"), TransientError)


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (
            KafkaError._TRANSPORT,
            "Receive failed: ssl/tls alert bad certificate: SSL alert number 42",
            AuthenticationError,
        ),
        (
            KafkaError._SSL,
            "handshake failed: tlsv13 alert certificate required: SSL alert number 116",
            AuthenticationError,
        ),
        (KafkaError._SSL, "handshake failed: certificate verify failed", ConfigError),
        (KafkaError._SSL, "handshake failed: alert handshake failure: SSL alert number 40", ConfigError),
        (KafkaError._AUTHENTICATION, 'Failed to acquire SASL OAUTHBEARER token: {"error":"x"}', AuthenticationError),
        (KafkaError._AUTHENTICATION, "Failed to acquire SASL OAUTHBEARER token: Could not connect", TransientError),
    ],
)
def test_what_a_client_hears_has_the_kind_that_helps(code, text, kind):
    faults = ConnectionFaults("b:9092")
    faults(KafkaError(code, text))
    assert type(faults.explain(KafkaError(KafkaError._TIMED_OUT), "list topics")) is kind
    assert (faults.terminal() is None) == (kind is TransientError)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, PrivilegeError),
        (KafkaError.INVALID_REPLICATION_FACTOR, ConfigError),
        (KafkaError.LEADER_NOT_AVAILABLE, TransientError),
    ],
)
def test_what_a_broker_says_has_its_kind(code, kind):
    assert type(ConnectionFaults("b:9092").explain(KafkaError(code), "make topic t")) is kind


def test_a_broker_that_is_down_is_transient_and_named(monkeypatch, capfd):
    monkeypatch.setattr(cluster, "REQUEST_SECONDS", 1.0)
    secret = SECRET.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})
    with pytest.raises(TransientError, match="Connection refused") as down:
        describe_topics(admin_client(kafka_client(Settings(), secret)), ["t"])
    assert "127.0.0.1:1" in down.value.where
    assert capfd.readouterr().err == ""


@pytest.mark.stack
def test_topics_and_offsets_of_a_cluster(stack):
    topic = f"kafka-offsets-{uuid4().hex[:8]}"
    stack.run("produce", "--topic", topic, "--count", "30")
    admin = admin_client(client_from_settings(stack.settings))
    info = describe_topics(admin, [topic])[topic]
    assert info == TopicInfo(topic, info.topic_id, 3, 1)
    assert len(info.topic_id) == 22
    partitions = [(topic, number) for number in range(3)]
    assert sum(offsets(admin, partitions, "latest").values()) == 30
    assert offsets(admin, partitions, "earliest") == dict.fromkeys(partitions, 0)
    with pytest.raises(ConfigError, match="no partition 3"):
        offsets(admin, [(topic, 3)], "latest")
    with pytest.raises(ConfigError, match="does not exist") as unknown:
        describe_topics(admin, [topic.replace("ff", "f")])
    assert unknown.value.next_step.startswith(f"Did you mean {topic}")


@pytest.mark.stack
def test_the_end_for_readers_of_committed_records_is_before_an_open_transaction(stack):
    topic = f"kafka-open-{uuid4().hex[:8]}"
    client = client_from_settings(stack.settings)
    isolation = KafkaProperty("isolation.level", SecretStr("read_committed"))
    admins = [admin_client(c) for c in (client, replace(client, properties=(*client.properties, isolation)))]
    admins[0].client.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer(client.librdkafka() | {"transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"x")
    assert producer.flush(30) == 0
    ends = [offsets(admin, [(topic, 0)], "latest")[topic, 0] for admin in admins]
    producer.abort_transaction(30)
    assert ends == [1, 0]


@pytest.mark.stack
def test_a_wrong_password_and_a_wrong_ca_are_told_apart(stack, tmp_path):
    settings = stack.settings
    secret = read_secret(settings, settings.kafka_secret_id, KafkaSecret)
    wrong = secret.model_copy(update={"api_secret": SECRET.api_secret})
    with pytest.raises(AuthenticationError, match="refused the login"):
        describe_topics(admin_client(kafka_client(settings, wrong)), ["t"])
    elsewhere = settings.model_copy(update={"kafka_ssl_ca_location": other_ca(tmp_path)})
    with pytest.raises(ConfigError, match="TLS handshake"):
        describe_topics(admin_client(kafka_client(elsewhere, secret)), ["t"])


def other_ca(folder: Path) -> Path:
    """A CA that signed nothing here."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "another CA")])
    now = datetime.now(UTC)
    end = now + timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, end)
    path = folder / "other-ca.pem"
    path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    return path
