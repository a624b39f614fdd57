"""Which client properties a connector may set, and what it is told about the others."""

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from pydantic import SecretStr

from firn.kafka.client import kafka_client
from firn.kafka.properties import KafkaProperty, PropertyFault, faults, managed_properties, treatment
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
        ("max.poll.records", "no effect"),
        ("group.id", "honoured"),
        ("group.instance.id", "no effect"),
        ("enable.auto.commit", "no effect"),
        ("session.timeout.ms", "no effect"),
        ("key.deserializer", "refused"),
        ("interceptor.classes", "refused"),
        ("sasl.kerberos.service.name", "refused"),
        ("ssl.engine.factory.class", "refused"),
        ("sasl.client.callback.handler.class", "refused"),
        ("sasl.oauthbearer.assertion.file", "refused"),
        ("config.providers", "refused"),
        ("sasl.oauthbearer.client.credentials.client.secret", "honoured"),
        ("metadata.recovery.rebootstrap.trigger.ms", "honoured"),
        ("ssl.cipher.suites", "no effect"),
        ("ssl.enabled.protocols", "no effect"),
        ("ssl.keymanager.algorithm", "no effect"),
        ("sasl.login.refresh.window.factor", "no effect"),
        ("default.api.timeout.ms", "no effect"),
        ("metric.reporters", "no effect"),
    ],
)
def test_a_property_has_its_judgement(name, kind):
    assert treatment(name).kind == kind


def test_what_is_not_honoured_says_why():
    silent = [n for n, row in PROPERTIES.items() if row.kind != "honoured" and len(treatment(n).reason) < 20]
    assert silent == []


def test_a_property_that_is_honoured_reaches_the_client_or_is_the_sinks_own():
    """None of them is only kept: whoever sets it gets what it says."""
    by_others = {
        *("security.protocol", "sasl.mechanism", "sasl.jaas.config", "sasl.oauthbearer.header.urlencode"),
        *("sasl.oauthbearer.client.credentials.client.id", "sasl.oauthbearer.client.credentials.client.secret"),
        *("sasl.oauthbearer.scope", "auto.offset.reset", "group.id"),
    }
    the_only_choice = {n for n, row in PROPERTIES.items() if n.endswith(".class") and row.allowed}
    mapped = {n for n, row in PROPERTIES.items() if row.librdkafka or n.startswith(("ssl.truststore", "ssl.keystore"))}
    mapped |= {"ssl.key.password", "ssl.endpoint.identification.algorithm"}
    honoured = {n for n, row in PROPERTIES.items() if row.kind == "honoured"}
    assert honoured == mapped | by_others | the_only_choice


def test_credentials_are_marked_and_so_is_everything_misspelt():
    secret = {name for name in PROPERTIES if treatment(name).secret}
    assert secret >= {"sasl.jaas.config", "ssl.keystore.key", "ssl.key.password", "ssl.truststore.password"}
    assert "sasl.oauthbearer.client.credentials.client.secret" in secret
    assert "bootstrap.servers" not in secret
    assert treatment("sasl.jass.config").secret


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("sasl.jass.config", "sasl.jaas.config"),
        ("Bootstrap.Servers", "bootstrap.servers"),
        ("sasl.mechanisms", "sasl.mechanism"),
        ("sasl.password", "sasl.jaas.config"),
        ("ssl.ca.location", "ssl.truststore.location"),
        ("sasl.oauthbearer.client.secret", "sasl.oauthbearer.client.credentials.client.secret"),
        ("fetch.wait.max.ms", "fetch.max.wait.ms"),
        ("qqq", ""),
    ],
)
def test_an_unknown_name_is_refused_with_the_one_that_was_meant(name, nearest):
    found = treatment(name)
    assert (found.kind, found.nearest) == ("refused", nearest)


@pytest.mark.parametrize(
    ("role", "name", "kind"),
    [
        ("producer", "linger.ms", "no effect"),
        ("producer", "sasl.jaas.config", "no effect"),
        ("producer", "max.poll.records", "refused"),
        ("admin", "retries", "no effect"),
        ("admin", "linger.ms", "refused"),
    ],
)
def test_overrides_of_other_clients_are_known_too(role, name, kind):
    assert treatment(name, role).kind == kind


def test_every_faulty_value_is_found_at_once():
    given = properties(
        security_protocol="SASL-SSL",
        isolation_level="committed",
        fetch_max_bytes="many",
        retry_backoff_ms="half",
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
    assert faults(given) == [PropertyFault("sasl.mechanism", "sasl.jaas.config names the login module of PLAIN.")]


def test_values_are_read_as_kafka_reads_them():
    given = properties(security_protocol=" sasl_ssl ", isolation_level="READ_COMMITTED", receive_buffer_bytes="-1")
    assert faults(given) == []
    config = kafka_client(Settings(), None, [*given, *managed("b:1")]).librdkafka()
    assert (config["security.protocol"], config["isolation.level"]) == ("SASL_SSL", "read_committed")


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
    Consumer(config | {"group.id": "g", "log_level": 0}).close()


@pytest.mark.parametrize(
    ("name", "within", "beyond"),
    [
        ("fetch.max.bytes", "2147483647", "99999999999999"),
        ("request.timeout.ms", "0", "-5"),
        ("receive.buffer.bytes", "-1", "-2"),
        ("metadata.max.age.ms", "99999999999", str(2**63)),
        ("connections.max.idle.ms", "-1", "9" * 5000),
        ("max.partition.fetch.bytes", "+1", "-1"),
    ],
)
def test_numbers_have_the_range_that_kafka_connect_takes(name, within, beyond):
    assert faults([KafkaProperty(name, SecretStr(within))]) == []
    (fault,) = faults([KafkaProperty(name, SecretStr(beyond))])
    assert "range" in fault.what
    assert " to " in fault.allowed[0]


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("sasl.mechanism", "GSSAPI", "Use PLAIN, SCRAM, OAUTHBEARER or client certificates"),
        ("sasl.login.callback.handler.class", "com.example.Handler", "loads a Java class"),
        ("sasl.oauthbearer.jwt.retriever.class", "com.example.Retriever", "client credentials"),
        ("ssl.truststore.type", "BCFKS", "keytool -importkeystore"),
    ],
)
def test_what_only_java_can_do_is_refused_with_the_way_out(name, value, said):
    (fault,) = faults([KafkaProperty(name, SecretStr(value))])
    assert said in fault.what
    assert fault.allowed == PROPERTIES[name].allowed


OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
ID, KEY = (f"sasl.oauthbearer.client.credentials.client.{part}" for part in ("id", "secret"))


def login_faults(jaas: str, *unknown: str, **options: str) -> list[str]:
    names = {"id": ID, "secret": KEY, "scope": "sasl.oauthbearer.scope"}
    values = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas} | {names[n]: v for n, v in options.items()}
    return [fault.what for fault in faults([KafkaProperty(n, SecretStr(v)) for n, v in values.items()], unknown)]


def test_a_token_login_may_stand_in_properties_of_its_own():
    assert login_faults(f"{OAUTH};", id="me", secret="hunter2", scope="kafka") == []
    assert login_faults(f"{OAUTH} clientId=me;", id="me", secret="hunter2") == []
    assert login_faults(f"{OAUTH};", id="me") == ["The login lacks clientSecret."]


def test_a_token_login_that_is_given_twice_must_be_the_same():
    (what,) = login_faults(f"{OAUTH} clientId=me clientSecret=hunter2;", id="me", secret="hunter3")
    assert what == f"clientSecret and {KEY} differ: give one of them."


def test_a_secret_that_is_not_resolved_yet_is_not_missed():
    assert login_faults(f"{OAUTH};", KEY, id="me") == []
    assert login_faults(f"{OAUTH} clientId=me clientSecret=hunter2;", KEY) == []


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
