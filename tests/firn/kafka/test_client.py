"""What librdkafka is told, from the connector, the secret and the settings."""

import pickle
import subprocess
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import SimpleQueue

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

from firn.errors import ConfigError
from firn.kafka.client import KafkaClient, kafka_client, needs_secret
from firn.kafka.jaas import render
from firn.kafka.properties import KafkaProperty, store_faults
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


def test_the_connector_wins_over_secret_and_settings(tmp_path):
    ca = tmp_path / "ca.pem"
    ca.write_text("")
    own = BROKERS | SCRAM | {"ssl.truststore.certificates": "PEM", "client.id": "mine"}
    config = client(own, kafka_ssl_ca_location=ca).librdkafka()
    assert config["bootstrap.servers"] == "own:9092"
    assert (config["sasl.mechanisms"], config["sasl.username"], config["client.id"]) == ("SCRAM-SHA-512", "u", "mine")
    assert config["ssl.ca.pem"] == "PEM"
    assert "ssl.ca.location" not in config


def test_a_mechanism_alone_takes_the_login_of_the_secret():
    config = client({"sasl.mechanism": "SCRAM-SHA-256"}).librdkafka()
    assert (config["sasl.mechanisms"], config["sasl.username"]) == ("SCRAM-SHA-256", "key")


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
        config = client({}, kafka_security_protocol=protocol, kafka_ssl_ca_location=ca).librdkafka()
        assert {name.split(".")[0] for name in config} & {"sasl", "ssl"} == parts


def test_numbers_and_choices_reach_the_client():
    made = client({"request.timeout.ms": "400000", "fetch.max.bytes": "2000000", "isolation.level": "read_committed"})
    config = made.librdkafka()
    assert config["socket.timeout.ms"] == "300000"  # the most that librdkafka takes
    assert config["fetch.max.bytes"] == "2000000"
    assert config["isolation.level"] == "read_committed"
    assert made.read_committed


def test_the_last_of_several_values_counts():
    twice = [*given({"client.id": "a"}), *given({"client.id": "b"})]
    assert kafka_client(Settings(), SECRET, twice).librdkafka()["client.id"] == "b"


@pytest.mark.parametrize(
    "values",
    [
        {"max.poll.records": "1", "group.id": "g", "auto.offset.reset": "latest"},
        {"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.3", "ssl.provider": "SunJSSE"},
        {
            "default.api.timeout.ms": "1000",
            "retries": "3",
            "metrics.num.samples": "2",
            "allow.auto.create.topics": "true",
        },
    ],
)
def test_what_changes_nothing_reaches_no_client(values):
    assert client(values) == client({})


def test_without_host_names_in_certificates():
    values = {"ssl.endpoint.identification.algorithm": ""}
    assert client(values).librdkafka()["ssl.endpoint.identification.algorithm"] == "none"
    assert client({}).librdkafka()["ssl.endpoint.identification.algorithm"] == "https"


def test_all_refused_properties_and_values_are_told_without_their_values():
    with pytest.raises(ConfigError) as refused:
        client({"key.deserializer": "x", "fetch.max.bytes": "lots", "sasl.jaas.config": "hunter2"})
    for part in ("key.deserializer", "fetch.max.bytes", "sasl.jaas.config"):
        assert part in refused.value.what
    assert "hunter2" not in str(refused.value)


def test_oauthbearer_is_librdkafkas_own_oidc():
    config = client(BROKERS | OAUTH, None).librdkafka()
    assert config["sasl.oauthbearer.method"] == "oidc"
    assert config["sasl.oauthbearer.token.endpoint.url"] == TOKEN_URL
    assert (config["sasl.oauthbearer.client.id"], config["sasl.oauthbearer.client.secret"]) == ("me", "s3cret")
    assert (config["sasl.oauthbearer.scope"], config["sasl.oauthbearer.extensions"]) == ("kafka", "a=1,b=2")
    AdminClient(config | {"log_level": 0})


def test_a_token_login_in_properties_of_its_own_says_the_same():
    split = OAUTH | {
        "sasl.jaas.config": render("OAUTHBEARER", {"extension_a": "1", "extension_b": "2"}),
        "sasl.oauthbearer.client.credentials.client.id": "me",
        "sasl.oauthbearer.client.credentials.client.secret": "s3cret",
        "sasl.oauthbearer.scope": "kafka",
    }
    made = client(BROKERS | split, None)
    assert made.librdkafka() == client(BROKERS | OAUTH, None).librdkafka()
    assert "s3cret" not in repr(made)


@pytest.mark.parametrize(("encoded", "sent"), [("true", "m%2Fe:s+3%3Acret"), ("false", "m/e:s 3:cret")])
def test_id_and_secret_come_to_the_token_endpoint_as_kafka_would_write_them(encoded, sent):
    """librdkafka writes what it is given: where an encoded form is wanted, it is given that."""
    with token_endpoint() as (url, asked):
        values = {"sasl.oauthbearer.token.endpoint.url": url, "sasl.oauthbearer.header.urlencode": encoded}
        values["sasl.jaas.config"] = render("OAUTHBEARER", {"clientId": "m/e", "clientSecret": "s 3:cret"})
        made = client({"bootstrap.servers": "127.0.0.1:1"} | OAUTH | values, None)
        consumer = AdminClient(made.librdkafka() | {"log_level": 0})
        assert b64decode(asked.get(timeout=20).removeprefix("Basic ")).decode() == sent
        del consumer


@contextmanager
def token_endpoint() -> Iterator[tuple[str, "SimpleQueue[str]"]]:
    """An OAuth server that refuses everybody: its address, and the Authorization headers that it got."""
    asked: SimpleQueue[str] = SimpleQueue()

    class Refusal(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.put(self.headers["Authorization"])
            self.send_error(401)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusal)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/token", asked
    server.shutdown()
    server.server_close()


def test_oauthbearer_wants_its_own_login():
    with pytest.raises(ConfigError, match="without a login"):
        client({"sasl.mechanism": "OAUTHBEARER"})


def test_no_text_of_a_client_holds_a_credential():
    hidden = ["hunter2", "key-pass", "store-pass", "trust-pass"]
    login = render("PLAIN", {"username": "u", "password": hidden[0]})
    passwords = dict(
        zip(("ssl.key.password", "ssl.keystore.password", "ssl.truststore.password"), hidden[1:], strict=True)
    )
    made = client(BROKERS | {"sasl.jaas.config": login, "ssl.keystore.key": "-----KEY"} | passwords, None)
    shown = [repr(made), str(made)]
    assert not [(text, value) for text in shown for value in [*hidden, "-----KEY"] if value in text]


def test_it_travels_and_can_be_a_key():
    made = client(SCRAM)
    assert pickle.loads(pickle.dumps(made)) == made
    assert len({made, client(SCRAM), client({})}) == 2


def test_a_ca_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(ConfigError, match="CA file") as refused:
        client({}, kafka_ssl_ca_location=tmp_path / "ca.pem")
    assert str(tmp_path) in refused.value.where


class Stores:
    """A client certificate with its issuers in every kind of store, as files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        root, middle, own = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
        self.root = _certificate("root", root, "root", root)
        self.middle = _certificate("middle", middle, "root", root)
        self.own = _certificate("own", own, "middle", middle)
        self.pem = _pem(self.own)
        self.key = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        self.locked_key = own.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"kp")).decode()
        (folder / "ca.pem").write_text(self.pem)
        (folder / "client.pem").write_text(self.key + self.pem)
        locked, others = BestAvailableEncryption(b"changeit"), [self.root, self.middle]
        chained = pkcs12.serialize_key_and_certificates(b"c", own, self.own, others, locked)
        (folder / "client.p12").write_bytes(chained)
        (folder / "alone.p12").write_bytes(pkcs12.serialize_key_and_certificates(b"c", own, self.own, None, locked))

    def keytool(self, name: str, *arguments: str, password: str = "changeit") -> Path:
        """A store as Java's own tool writes it."""
        path = self.folder / name
        path.unlink(missing_ok=True)
        store = ["-keystore", str(path), "-storepass", password]
        subprocess.run(["keytool", *arguments, *store], check=True, capture_output=True, timeout=60)
        return path

    def trust(self, kind: str) -> Path:
        """A trust store."""
        ca = ["-importcert", "-noprompt", "-alias", "ca", "-file", str(self.folder / "ca.pem")]
        return self.keytool(f"trust.{kind.lower()}", *ca, "-storetype", kind)


def _certificate(name: str, key: ec.EllipticCurvePrivateKey, by: str, signer: ec.EllipticCurvePrivateKey):
    subject, issuer = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, each)]) for each in (name, by))
    now = datetime.now(UTC)
    ends = now + timedelta(days=1)
    made = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number(), now, ends)
    return made.sign(signer, hashes.SHA256())


def _pem(*certificates: x509.Certificate) -> str:
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)


@pytest.fixture(scope="module")
def stores(tmp_path_factory) -> Stores:
    return Stores(tmp_path_factory.mktemp("stores"))


def test_librdkafka_takes_every_store_that_java_takes_but_jks(stores):
    trust = {"ssl.truststore.location": str(stores.trust("PKCS12")), "ssl.truststore.password": "changeit"}
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
    assert client(trust | TLS).librdkafka()["ssl.ca.pem"] == stores.pem


def test_the_certificates_between_client_and_root_are_sent_in_their_order(stores):
    values = {"ssl.keystore.location": str(stores.folder / "client.p12"), "ssl.keystore.password": "changeit"}
    config = client(values | TLS).librdkafka()
    assert config["ssl.certificate.pem"] == _pem(stores.own, stores.middle, stores.root)


def test_a_key_store_of_java_8_is_taken(stores):
    """Its ciphers are not in librdkafka's OpenSSL."""
    key = ["-genkeypair", "-alias", "c", "-dname", "CN=c", "-keyalg", "EC"]
    path = stores.keytool("java8.p12", *key, "-storetype", "PKCS12", "-J-Dkeystore.pkcs12.legacy")
    values = {"ssl.keystore.location": str(path), "ssl.keystore.password": "changeit", "ssl.keystore.type": "PKCS12"}
    AdminClient(client(values | TLS).librdkafka() | {"log_level": 0})


@pytest.mark.parametrize("password", [{}, {"ssl.truststore.password": "changeit"}])
def test_a_jks_store_is_refused_with_the_way_out_which_works(stores, password):
    path = stores.trust("JKS")
    given = TLS | {"ssl.truststore.location": str(path), "ssl.truststore.type": "JKS"} | password
    with pytest.raises(ConfigError, match="JKS") as refused:
        client(given).librdkafka()
    step = refused.value.next_step
    assert ("press Enter where keytool asks" in step) == (not password)
    line = step.removeprefix("Convert it: ").partition(". Then set ")[0]
    typed = "newpass\nnewpass\n" + (password.get("ssl.truststore.password", "") or "") + "\n"
    path.with_suffix(".p12").unlink(missing_ok=True)
    subprocess.run(line.split(), input=typed, text=True, check=True, capture_output=True, timeout=60)
    moved = {"ssl.truststore.location": str(path.with_suffix(".p12")), "ssl.truststore.password": "newpass"}
    assert client(TLS | moved).librdkafka()["ssl.ca.pem"] == stores.pem


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ssl.truststore.location": "nowhere.p12"}, "does not exist"),
        ({"ssl.truststore.location": "ca.pem"}, "PEM"),
        ({"ssl.truststore.location": "client.p12", "ssl.truststore.password": "wrong"}, "cannot be opened"),
        ({"ssl.truststore.location": "client.p12"}, "cannot be opened"),
        ({"ssl.truststore.location": "alone.p12", "ssl.truststore.password": "changeit"}, "no trusted certificate"),
        ({"ssl.keystore.location": "client.pem"}, "PEM"),
        ({"ssl.keystore.location": "client.p12", "ssl.keystore.password": "wrong"}, "cannot be opened"),
        ({"ssl.keystore.location": "trust.pkcs12", "ssl.keystore.password": "changeit"}, "no key"),
    ],
)
def test_a_store_that_cannot_be_used_is_named(stores, values, message):
    stores.trust("PKCS12")
    placed = {n: str(stores.folder / v) if n.endswith("location") else v for n, v in values.items()}
    with pytest.raises(ConfigError, match=message) as refused:
        client(placed | TLS).librdkafka()
    assert "location" in refused.value.where
    assert "wrong" not in str(refused.value)


def test_what_is_wrong_with_a_store_is_found_where_the_file_is(stores):
    jks = {"ssl.keystore.location": str(stores.trust("JKS"))}
    (fault,) = store_faults(given(jks))
    assert fault.name == "ssl.keystore.location"
    assert "keytool -importkeystore" in fault.what
    wrong = {"ssl.truststore.location": str(stores.folder / "client.p12"), "ssl.truststore.password": "wrong"}
    (fault,) = store_faults(given(wrong))
    assert "cannot be opened" in fault.what
    assert store_faults(given(wrong), ["ssl.truststore.password"]) == []
    for elsewhere in ("/nowhere/trust.jks", "with\0zero"):
        assert store_faults(given({"ssl.truststore.location": elsewhere})) == []
    assert store_faults(given(jks | {"security.protocol": "sasl_plaintext"})) == []
