"""What Java's clients and librdkafka are told: the same, from the connector, the secret and the settings."""

import pickle
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from pydantic import SecretStr

from firn.connector.config import KafkaProperty
from firn.errors import ConfigError
from firn.kafka.client import KafkaClient, kafka_client, needs_secret
from firn.kafka.jaas import parse, render
from firn.secrets import KafkaSecret
from firn.settings import Settings

SECRET = KafkaSecret(bootstrap_servers="b:9092", api_key="key", api_secret='a"b\\c')
BROKERS = {"bootstrap.servers": "own:9092"}
SCRAM = {
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": render("SCRAM-SHA-512", {"username": "u", "password": "p"}),
}
TLS = {"security.protocol": "SSL"}
TOKEN_URL = "https://idp.example.com/token"
OAUTH = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.token.endpoint.url": TOKEN_URL,
    "sasl.jaas.config": render(
        "OAUTHBEARER",
        {"clientId": "me", "clientSecret": "s3cret", "scope": "kafka", "extension_a": "1", "extension_b": "2"},
    ),
}


def given(values: dict[str, str]) -> list[KafkaProperty]:
    return [KafkaProperty(name, SecretStr(value)) for name, value in values.items()]


def client(values: dict[str, str], secret: KafkaSecret | None = SECRET, **settings: object) -> KafkaClient:
    return kafka_client(Settings(**settings), secret, given(values))


def test_settings_and_secret_alone_are_enough():
    config = client({}).librdkafka()
    assert config["bootstrap.servers"] == "b:9092"
    assert (config["security.protocol"], config["sasl.mechanisms"]) == ("SASL_SSL", "PLAIN")
    assert (config["sasl.username"], config["sasl.password"]) == ("key", 'a"b\\c')
    options = client({}).jvm_options()
    assert options["security.protocol"] == "SASL_SSL"
    (jaas,) = client({}).jvm_environment().values()
    assert parse(jaas)[1] == {"username": "key", "password": 'a"b\\c'}


def test_the_connector_wins_over_secret_and_settings(tmp_path):
    ca = tmp_path / "ca.pem"
    ca.write_text("")
    own = BROKERS | SCRAM | {"ssl.truststore.certificates": "PEM", "client.id": "mine"}
    config = client(own, kafka_ssl_ca_location=ca).librdkafka()
    assert config["bootstrap.servers"] == "own:9092"
    assert (config["sasl.mechanisms"], config["sasl.username"], config["client.id"]) == ("SCRAM-SHA-512", "u", "mine")
    assert config["ssl.ca.pem"] == "PEM"
    assert "ssl.ca.location" not in config
    options = client(own, kafka_ssl_ca_location=ca).jvm_options()
    assert options["ssl.truststore.type"] == "PEM"
    assert "ssl.truststore.location" not in options


def test_a_mechanism_alone_takes_the_login_of_the_secret():
    mechanism = {"sasl.mechanism": "SCRAM-SHA-256"}
    assert client(mechanism).librdkafka()["sasl.username"] == "key"
    (jaas,) = client(mechanism).jvm_environment().values()
    assert "ScramLoginModule" in jaas


@pytest.mark.parametrize(
    ("values", "needed"),
    [
        ({}, True),
        (BROKERS, True),
        (SCRAM, True),
        (BROKERS | SCRAM, False),
        (BROKERS | TLS, False),
        (BROKERS | {"security.protocol": "sasl_ssl"}, True),
    ],
)
def test_the_secret_is_needed_unless_brokers_and_login_are_named(values, needed):
    assert needs_secret(given(values)) is needed
    if needed:
        with pytest.raises(ConfigError, match="names no"):
            client(values, None)
    else:
        assert client(values, None).brokers == "own:9092"


def test_only_layers_that_the_protocol_has_are_configured(tmp_path):
    ca = tmp_path / "ca.pem"
    ca.write_text("")
    for protocol, parts in (("PLAINTEXT", set()), ("SSL", {"ssl"}), ("SASL_PLAINTEXT", {"sasl"})):
        made = client({}, kafka_security_protocol=protocol, kafka_ssl_ca_location=ca)
        for config in (made.librdkafka(), made.jvm_options()):
            assert {name.split(".")[0] for name in config} & {"sasl", "ssl"} == parts
    assert client({}, kafka_security_protocol="PLAINTEXT").jvm_environment() == {}


def test_numbers_and_choices_reach_both_clients():
    made = client({"request.timeout.ms": "400000", "fetch.max.wait.ms": "100", "isolation.level": "read_committed"})
    assert made.jvm_options()["request.timeout.ms"] == "400000"
    config = made.librdkafka()
    assert config["socket.timeout.ms"] == "300000"  # the most that librdkafka takes
    assert config["fetch.wait.max.ms"] == "100"
    assert config["isolation.level"] == "read_committed"
    assert made.read_committed


def test_the_last_of_several_values_counts():
    twice = [*given({"client.id": "a"}), *given({"client.id": "b"})]
    assert kafka_client(Settings(), SECRET, twice).librdkafka()["client.id"] == "b"


def test_what_has_no_effect_reaches_no_client():
    made = client({"max.poll.records": "1", "group.id": "g", "auto.offset.reset": "latest"})
    assert made == client({})
    assert not {"max.poll.records", "group.id", "auto.offset.reset"} & made.jvm_options().keys()


def test_reading_never_makes_a_topic():
    assert client({"allow.auto.create.topics": "true"}).jvm_options()["allow.auto.create.topics"] == "false"


def test_what_only_java_knows_reaches_java_alone():
    values = {"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "default.api.timeout.ms": "1000"}
    assert client(values).jvm_options().items() >= values.items()
    assert client(values).librdkafka() == client({}).librdkafka()


def test_without_host_names_in_certificates():
    values = {"ssl.endpoint.identification.algorithm": ""}
    assert client(values).librdkafka()["ssl.endpoint.identification.algorithm"] == "none"
    assert client(values).jvm_options()["ssl.endpoint.identification.algorithm"] == ""
    assert client({}).librdkafka()["ssl.endpoint.identification.algorithm"] == "https"


def test_all_refused_properties_and_values_are_told_without_their_values():
    with pytest.raises(ConfigError) as refused:
        client({"key.deserializer": "x", "fetch.min.bytes": "lots", "sasl.jaas.config": "hunter2"})
    for part in ("key.deserializer", "fetch.min.bytes", "sasl.jaas.config"):
        assert part in refused.value.what
    assert "hunter2" not in str(refused.value)


def test_oauthbearer_is_told_to_both_clients():
    made = client(BROKERS | OAUTH, None)
    config = made.librdkafka()
    assert config["sasl.oauthbearer.method"] == "oidc"
    assert config["sasl.oauthbearer.token.endpoint.url"] == TOKEN_URL
    assert (config["sasl.oauthbearer.client.id"], config["sasl.oauthbearer.client.secret"]) == ("me", "s3cret")
    assert (config["sasl.oauthbearer.scope"], config["sasl.oauthbearer.extensions"]) == ("kafka", "a=1,b=2")
    AdminClient(config | {"log_level": 0})
    options = made.jvm_options()
    assert options["sasl.login.callback.handler.class"].endswith("OAuthBearerLoginCallbackHandler")
    assert options["sasl.oauthbearer.token.endpoint.url"] == TOKEN_URL
    assert "OAuthBearerLoginModule" in made.jvm_environment()["FIRN_KAFKA_JAAS"]
    assert made.jvm_system_properties() == {"org.apache.kafka.sasl.oauthbearer.allowed.urls": TOKEN_URL}
    assert client({}).jvm_system_properties() == {}


def test_oauthbearer_wants_its_own_login():
    with pytest.raises(ConfigError, match="without a login"):
        client({"sasl.mechanism": "OAUTHBEARER"})


def test_no_credential_is_in_options_texts_or_keys_of_the_environment():
    hidden = ["hunter2", "key-pass", "store-pass", "trust-pass"]
    login = render("PLAIN", {"username": "u", "password": hidden[0]})
    passwords = dict(
        zip(("ssl.key.password", "ssl.keystore.password", "ssl.truststore.password"), hidden[1:], strict=True)
    )
    made = client(BROKERS | {"sasl.jaas.config": login, "ssl.keystore.key": "-----KEY"} | passwords, None)
    shown = [repr(made), str(made), str(made.jvm_options()), str(list(made.jvm_environment()))]
    assert not [(text, value) for text in shown for value in [*hidden, "-----KEY"] if value in text]
    referred = {value for value in made.jvm_options().values() if value.startswith("${env:")}
    assert referred == {f"${{env:{name}}}" for name in made.jvm_environment()}


def test_it_travels_and_can_be_a_key():
    made = client(SCRAM)
    assert pickle.loads(pickle.dumps(made)) == made
    assert len({made, client(SCRAM), client({})}) == 2


def test_a_ca_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ConfigError, match="CA file") as refused:
        client({}, kafka_ssl_ca_location=tmp_path / "ca.pem")
    assert str(tmp_path) in refused.value.where


class Stores:
    """One certificate in every kind of store, as files."""

    def __init__(self, folder: Path) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        name, now = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "c")]), datetime.now(UTC)
        ends = now + timedelta(days=1)
        made = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, ends)
        certificate = made.sign(key, hashes.SHA256())
        self.folder = folder
        self.pem = certificate.public_bytes(Encoding.PEM).decode()
        self.key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        self.locked_key = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"kp")).decode()
        (folder / "ca.pem").write_text(self.pem)
        (folder / "client.pem").write_text(self.key + self.pem)
        (folder / "client.p12").write_bytes(
            pkcs12.serialize_key_and_certificates(b"c", key, certificate, None, BestAvailableEncryption(b"changeit"))
        )

    def keytool(self, kind: str) -> Path:
        """A trust store as Java's own tool writes it."""
        path = self.folder / f"trust.{kind.lower()}"
        arguments = ["-importcert", "-noprompt", "-alias", "ca", "-file", str(self.folder / "ca.pem")]
        store = ["-keystore", str(path), "-storetype", kind, "-storepass", "changeit"]
        subprocess.run(["keytool", *arguments, *store], check=True, capture_output=True, timeout=60)
        return path


@pytest.fixture(scope="module")
def stores(tmp_path_factory) -> Stores:
    return Stores(tmp_path_factory.mktemp("stores"))


def test_librdkafka_takes_every_store_that_java_takes(stores):
    trust = {"ssl.truststore.location": str(stores.keytool("PKCS12")), "ssl.truststore.password": "changeit"}
    for values in (
        trust,
        {"ssl.truststore.certificates": stores.pem},
        {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(stores.folder / "ca.pem")},
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(stores.folder / "client.pem")},
        {"ssl.keystore.key": stores.key, "ssl.keystore.certificate.chain": stores.pem},
        {"ssl.keystore.key": stores.locked_key, "ssl.keystore.certificate.chain": stores.pem, "ssl.key.password": "kp"},
        {"ssl.keystore.location": str(stores.folder / "client.p12"), "ssl.keystore.password": "changeit"},
    ):
        AdminClient(client(values | TLS).librdkafka() | {"log_level": 0})
    # Java's clients open the same files themselves.
    assert client(trust | TLS).librdkafka()["ssl.ca.pem"] == stores.pem
    assert client(trust | TLS).jvm_options()["ssl.truststore.location"] == trust["ssl.truststore.location"]


def test_a_jks_store_is_refused_with_the_way_out(stores):
    path = stores.keytool("JKS")
    with pytest.raises(ConfigError, match="JKS") as refused:
        client(TLS | {"ssl.truststore.location": str(path)}).librdkafka()
    assert f"keytool -importkeystore -srckeystore {path}" in refused.value.next_step


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ssl.truststore.location": "nowhere.p12"}, "does not exist"),
        ({"ssl.truststore.location": "ca.pem"}, "PEM"),
        ({"ssl.truststore.location": "client.p12", "ssl.truststore.password": "wrong"}, "cannot be opened"),
        ({"ssl.truststore.location": "client.p12", "ssl.truststore.password": "changeit"}, "no trusted certificate"),
        ({"ssl.keystore.location": "client.pem"}, "PEM"),
    ],
)
def test_a_store_that_cannot_be_used_is_named(stores, values, message):
    placed = {n: str(stores.folder / v) if n.endswith("location") else v for n, v in values.items()}
    with pytest.raises(ConfigError, match=message) as refused:
        client(placed | TLS).librdkafka()
    assert "location" in refused.value.where
    assert "wrong" not in str(refused.value)
