"""Which client properties a connector may set, and what it is told about the others."""

import pytest
from confluent_kafka.admin import AdminClient
from pydantic import SecretStr

from firn.connector.config import KafkaProperty
from firn.kafka.client import kafka_client
from firn.kafka.properties import Fault, faults, judge, managed_properties
from firn.kafka.property_table import PROPERTIES
from firn.settings import Settings

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def properties(**values: str) -> list[KafkaProperty]:
    """sasl__mechanism="PLAIN" is the property sasl.mechanism."""
    return [KafkaProperty(name.replace("_", "."), SecretStr(value)) for name, value in values.items()]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bootstrap.servers", "honoured"),
        ("sasl.jaas.config", "honoured"),
        ("isolation.level", "honoured"),
        ("auto.offset.reset", "honoured"),
        ("fetch.max.bytes", "honoured"),
        ("max.poll.records", "warned"),
        ("group.id", "honoured"),
        ("group.instance.id", "warned"),
        ("enable.auto.commit", "warned"),
        ("session.timeout.ms", "warned"),
        ("key.deserializer", "refused"),
        ("interceptor.classes", "refused"),
        ("sasl.kerberos.service.name", "refused"),
        ("ssl.engine.factory.class", "refused"),
        ("config.providers", "refused"),
    ],
)
def test_a_property_has_its_judgement(name, kind):
    assert judge(name).kind == kind


def test_what_is_not_honoured_says_why():
    silent = [n for n, row in PROPERTIES.items() if row.kind != "honoured" and len(judge(n).reason) < 20]
    assert silent == []


def test_credentials_are_marked_and_so_is_everything_misspelt():
    secret = {name for name in PROPERTIES if judge(name).secret}
    assert secret >= {"sasl.jaas.config", "ssl.keystore.key", "ssl.key.password", "ssl.truststore.password"}
    assert "bootstrap.servers" not in secret
    assert judge("sasl.jass.config").secret


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("sasl.jass.config", "sasl.jaas.config"),
        ("Bootstrap.Servers", "bootstrap.servers"),
        ("sasl.mechanisms", "sasl.mechanism"),
        ("sasl.password", "sasl.jaas.config"),
        ("ssl.ca.location", "ssl.truststore.location"),
        ("fetch.wait.max.ms", "fetch.max.wait.ms"),
        ("qqq", ""),
    ],
)
def test_an_unknown_name_is_refused_with_the_one_that_was_meant(name, nearest):
    judgement = judge(name)
    assert (judgement.kind, judgement.nearest) == ("refused", nearest)


@pytest.mark.parametrize(
    ("role", "name", "kind"),
    [
        ("producer", "linger.ms", "warned"),
        ("producer", "sasl.jaas.config", "warned"),
        ("producer", "max.poll.records", "refused"),
        ("admin", "retries", "warned"),
        ("admin", "linger.ms", "refused"),
    ],
)
def test_overrides_of_other_clients_are_known_too(role, name, kind):
    assert judge(name, role).kind == kind


def test_every_faulty_value_is_found_at_once():
    given = properties(
        security_protocol="SASL-SSL",
        isolation_level="committed",
        fetch_min_bytes="many",
        sasl_login_refresh_window_factor="half",
        sasl_oauthbearer_token_endpoint_url="https://a/ -Dx=y",
        bootstrap_servers=" ",
        sasl_jaas_config=f"{PLAIN} required username=u",
        sasl_mechanism="PLAIN",
    )
    found = {fault.name: fault for fault in faults(given)}
    assert set(found) == {p.name for p in given} - {"sasl.mechanism"}
    assert found["isolation.level"].allowed == ("read_uncommitted", "read_committed")


def test_login_and_mechanism_must_agree():
    given = properties(sasl_mechanism="SCRAM-SHA-512", sasl_jaas_config=f'{PLAIN} required username="u" password="p";')
    assert faults(given) == [Fault("sasl.mechanism", "sasl.jaas.config names the login module of PLAIN.")]


def test_values_are_read_as_kafka_reads_them():
    given = properties(security_protocol=" sasl_ssl ", isolation_level="READ_COMMITTED", receive_buffer_bytes="-1")
    assert faults(given) == []
    options = kafka_client(Settings(), None, [*given, *managed("b:1")]).jvm_options()
    assert (options["security.protocol"], options["isolation.level"]) == ("SASL_SSL", "read_committed")


def test_confluent_clouds_managed_names_mean_sasl_plain_over_tls():
    client = kafka_client(Settings(kafka_security_protocol="PLAINTEXT"), None, managed("SASL_SSL://a:9092,SSL://b:1"))
    config = client.librdkafka()
    assert config["bootstrap.servers"] == "a:9092,b:1"
    assert (config["security.protocol"], config["sasl.mechanisms"]) == ("SASL_SSL", "PLAIN")
    assert (config["sasl.username"], config["sasl.password"]) == ("key", 's"\\ecret')


def managed(endpoint: str) -> tuple[KafkaProperty, ...]:
    return managed_properties(endpoint, SecretStr("key"), SecretStr('s"\\ecret'))


def examples() -> list[tuple[str, str]]:
    """Values of every translated property; numbers also beyond librdkafka's range, as far as Java allows."""
    translated = {name: row for name, row in PROPERTIES.items() if row.librdkafka}
    numbers = [(n, str(v)) for n, row in translated.items() if row.form != "text" for v in {row.least, 0, row.most}]
    return numbers + [
        (n, row.allowed[0] if row.allowed else "http://x") for n, row in translated.items() if row.form == "text"
    ]


@pytest.mark.parametrize(("name", "value"), examples())
def test_librdkafka_takes_what_a_property_becomes(name, value):
    given = [*managed("127.0.0.1:1"), KafkaProperty(name, SecretStr(value))]
    config = kafka_client(Settings(), None, given).librdkafka()
    assert PROPERTIES[name].librdkafka in config
    AdminClient(config | {"log_level": 0})


@pytest.mark.parametrize(
    ("name", "within", "beyond"),
    [
        ("fetch.max.bytes", "2147483647", "99999999999999"),
        ("request.timeout.ms", "0", "-5"),
        ("receive.buffer.bytes", "-1", "-2"),
        ("metadata.max.age.ms", "99999999999", str(2**63)),
        ("connections.max.idle.ms", "-1", "9" * 5000),
        ("sasl.login.connect.timeout.ms", "-1", str(2**31)),
        ("sasl.login.refresh.buffer.seconds", "3600", "3601"),
        ("sasl.login.refresh.window.factor", "0.5", "7"),
        ("sasl.login.refresh.window.jitter", ".25", "0.3"),
    ],
)
def test_numbers_have_the_range_that_java_checks_when_a_client_starts(name, within, beyond):
    assert faults([KafkaProperty(name, SecretStr(within))]) == []
    (fault,) = faults([KafkaProperty(name, SecretStr(beyond))])
    assert "range" in fault.what
    assert " to " in fault.allowed[0]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("sasl.oauthbearer.token.endpoint.url", "https://u:p@idp.example/token", "clientSecret"),
        ("sasl.oauthbearer.token.endpoint.url", "https://token@idp.example", "clientSecret"),
        ("sasl.oauthbearer.token.endpoint.url", "https://u:p/q@idp.example", "not an http or https address"),
        ("bootstrap.servers", "u:p@broker:9092", "sasl.jaas.config"),
    ],
)
def test_a_login_inside_an_address_is_refused_with_where_it_belongs(name, value, said):
    (fault,) = faults([KafkaProperty(name, SecretStr(value))])
    assert said in fault.what
    assert faults([KafkaProperty("sasl.oauthbearer.token.endpoint.url", SecretStr("https://idp.example/a@b"))]) == []
