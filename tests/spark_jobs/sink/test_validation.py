"""Live checks of a sink against the embedded stack: what is in order, and what each fault looks like."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import uuid4

import pytest
from cryptography.hazmat.primitives import serialization as ser
from cryptography.hazmat.primitives.asymmetric import rsa
from pydantic import SecretStr

from firn.connector.config import ConverterConfig, ErrorsConfig, Method, SinkConfig, SnowflakeConfig
from firn.connector.formats import Format
from firn.kafka.client import client_from_settings
from firn.kafka.properties import KafkaProperty
from firn.operations.validation.kafka_and_registry import check_dead_letters
from firn.operations.validation.live_check import LiveCheck
from firn.proxy import ProxyConfig
from firn.registry.endpoint import RegistryConfig
from firn.snowflake.connection import connect, execute
from spark_jobs.sink.validation import live_checks
from tests.support.kafka import Topic
from tests.support.proxies import closed_port
from tests.support.sinks import login_of

pytestmark = pytest.mark.stack

ROLE, OTHER = "SVC_KAFKA_CONNECTOR", "ANALYTICS_DEVELOPER"
SCHEMA_OF_A_RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}


@pytest.fixture(scope="module")
def topic(stack) -> Topic:
    topic = Topic(stack.settings, "validate")
    topic.register(SCHEMA_OF_A_RECORD)
    topic.send([b"\x00", b"\x01"])
    return topic


@pytest.fixture
def sql(stack) -> Iterator[Callable[..., None]]:
    """Runs statements as the service user."""
    with connect(login_of(stack.settings)) as connection:

        def run(*statements: str) -> None:
            for statement in statements:
                execute(connection, statement)

        yield run


@pytest.fixture
def config(topic: Topic, sql: Callable[..., None]) -> Iterator[SinkConfig]:
    """A sink whose schema belongs to somebody else, with exactly the privileges that a first start needs."""
    schema = f"VALIDATE_{uuid4().hex[:8].upper()}"
    sql(
        f"USE ROLE {OTHER}",
        f"CREATE SCHEMA STREAMING.{schema}",
        f"GRANT USAGE, CREATE TABLE, CREATE STAGE ON SCHEMA STREAMING.{schema} TO ROLE STREAMING_DB_WRITER",
    )
    yield SinkConfig(
        name="validated",
        topics=(topic.name,),
        table_map=((topic.name, "TARGET"),),
        snowflake=SnowflakeConfig(schema=schema),
    )
    sql(f"DROP SCHEMA STREAMING.{schema}")


def not_ok(checks: list[LiveCheck]) -> dict[str, LiveCheck]:
    return {check.subject: check for check in checks if check.state != "ok"}


def failures(checks: list[LiveCheck]) -> dict[str, LiveCheck]:
    return {check.subject: check for check in checks if check.state == "failed"}


def test_all_is_well(stack, config: SinkConfig, topic: Topic):
    errors = ErrorsConfig("all", dead_letter_topic="absent", dead_letter_replication=1)
    checks = live_checks(replace(config, errors=errors), stack.settings)
    assert not_ok(checks) == {}
    found = {check.subject: check.found for check in checks}
    assert "2 partitions, about 2 records held" in found[f"topic {topic.name}"]
    assert "will be made" in found[f"table STREAMING.{config.snowflake.schema}.TARGET"]
    assert f"role {ROLE} holds all" in found["snowflake privileges"]
    for part in (
        "credentials kafka",
        "registry login",
        f"subject {topic.name}-value",
        "warehouse INGEST_WH",
        "dead-letter topic absent",
    ):
        assert part in found
    assert any(subject.startswith("certificate broker") for subject in found)


@pytest.mark.parametrize("key", ["right", "wrong"])
def test_the_streaming_service_is_asked_for_the_pipe_of_each_table(stack, config, sql, key: str):
    columns = "(RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)"
    table = f"STREAMING.{config.snowflake.schema}.TARGET"
    sql(f"USE ROLE {ROLE}", f"CREATE TABLE {table} {columns}", f"USE ROLE {OTHER}")
    streaming, settings = replace(config, method=Method.SNOWPIPE_STREAMING), stack.settings
    if key == "wrong":
        settings = settings.model_copy(update={"snowflake_ca_file": settings.kafka_ssl_ca_location})
    found = {check.subject: check for check in live_checks(streaming, settings)}
    service = found["snowpipe streaming login"]
    if key == "right":
        assert (service.state, service.found) == ("ok", "pipe TARGET-STREAMING takes rows")
        assert any(subject.startswith("certificate snowpipe streaming") for subject in found)
    else:
        assert service.state == "failed"
        assert any(subject.startswith("snowpipe streaming") and each.state != "ok" for subject, each in found.items())


def test_a_dead_letter_topic_exists_or_can_be_made(stack, topic: Topic):
    client = client_from_settings(stack.settings)

    def found(name: str, replicas: int = 1) -> LiveCheck:
        (check,) = check_dead_letters(client, name, replicas)
        return check

    assert found(topic.name) == LiveCheck(f"dead-letter topic {topic.name}", "ok", "exists, 2 partitions")
    assert (found("absent").state, found("absent", -1).state) == ("ok", "ok")
    assert "will be made" in found("absent").found
    refused = found("absent", 3)
    assert (refused.state, refused.found) == ("failed", "cannot be made with 3 replicas by 1 brokers")
    assert "errors.deadletterqueue.topic.replication.factor to 1 or less" in refused.next_step


def test_a_revoked_grant_is_printed_as_the_statement_that_gives_it_back(stack, config, sql):
    schema = f"STREAMING.{config.snowflake.schema}"
    sql(f"REVOKE CREATE STAGE ON SCHEMA {schema} FROM ROLE STREAMING_DB_WRITER")
    failed = failures(live_checks(config, stack.settings))
    assert list(failed) == [f"privilege CREATE STAGE on schema {schema}"]
    (check,) = failed.values()
    grant = f"GRANT CREATE STAGE ON SCHEMA {schema} TO ROLE {ROLE}"
    assert check.next_step.startswith(f"{grant};")
    # A stage that is hidden from the role cannot be told from none; nor can a wrong role from one without its grants.
    assert (
        f"If FIRN_STAGE exists, hidden from this role, instead: GRANT READ, WRITE ON STAGE {schema}" in check.next_step
    )
    assert "Or correct snowflake.role.name" in check.next_step
    sql(grant)
    assert failures(live_checks(config, stack.settings)) == {}


def test_what_exists_needs_other_privileges(stack, config, sql):
    schema = f"STREAMING.{config.snowflake.schema}"
    variants = "(RECORD_METADATA VARIANT, RECORD_CONTENT VARIANT)"
    sql(
        f"CREATE TABLE {schema}.TARGET {variants}",
        f"CREATE TABLE {schema}.FIRN_OFFSETS (SINK VARCHAR)",
        f"CREATE TABLE {schema}.FIRN_SINKS (SINK VARCHAR)",
        f"CREATE TABLE {schema}.FIRN_REQUESTS (SINK VARCHAR)",
        f"CREATE STAGE {schema}.FIRN_STAGE",
        f"REVOKE CREATE TABLE, CREATE STAGE ON SCHEMA {schema} FROM ROLE STREAMING_DB_WRITER",
        f"GRANT SELECT ON TABLE {schema}.FIRN_OFFSETS TO ROLE {ROLE}",
        f"GRANT SELECT ON TABLE {schema}.FIRN_SINKS TO ROLE {ROLE}",
        f"GRANT SELECT ON TABLE {schema}.FIRN_REQUESTS TO ROLE {ROLE}",
        # Something must be held on each, or they are as good as absent.
        f"GRANT SELECT ON TABLE {schema}.TARGET TO ROLE {ROLE}",
        f"GRANT READ ON STAGE {schema}.FIRN_STAGE TO ROLE {ROLE}",
    )
    failed = failures(live_checks(config, stack.settings))
    wanted = [
        f"GRANT INSERT ON TABLE {schema}.TARGET TO ROLE {ROLE};",
        f"GRANT INSERT ON TABLE {schema}.FIRN_OFFSETS TO ROLE {ROLE};",
        f"GRANT UPDATE ON TABLE {schema}.FIRN_OFFSETS TO ROLE {ROLE};",
        f"GRANT INSERT ON TABLE {schema}.FIRN_SINKS TO ROLE {ROLE};",
        f"GRANT UPDATE ON TABLE {schema}.FIRN_SINKS TO ROLE {ROLE};",
        f"GRANT INSERT ON TABLE {schema}.FIRN_REQUESTS TO ROLE {ROLE};",
        f"GRANT UPDATE ON TABLE {schema}.FIRN_REQUESTS TO ROLE {ROLE};",
        f"GRANT WRITE ON STAGE {schema}.FIRN_STAGE TO ROLE {ROLE};",
    ]
    other_role = " Or correct snowflake.role.name (`role` in the Snowflake secret)."
    assert [check.next_step for check in failed.values()] == [grant + other_role for grant in wanted]
    sql(*(statement.rstrip(";") for statement in wanted))
    assert failures(live_checks(config, stack.settings)) == {}
    sql(f"ALTER TABLE {schema}.TARGET ADD COLUMN MORE INT NOT NULL")
    (columns,) = failures(live_checks(config, stack.settings)).values()
    assert "MORE: has type NUMBER(38,0) and is NOT NULL" in columns.found


def test_a_schema_that_is_not_there(stack, config):
    checks = live_checks(replace(config, snowflake=SnowflakeConfig(schema="NOWHERE")), stack.settings)
    failed = failures(checks)
    assert failed["schema STREAMING.NOWHERE"].next_step.endswith(f"TO ROLE {ROLE}")
    assert {"topic", "registry login"} & {check.subject.split(" ")[0] for check in checks if check.state == "ok"}


def test_a_missing_topic_names_similar_ones_and_hides_nothing(stack, config, topic: Topic):
    checks = live_checks(replace(config, topics=(topic.name, topic.name + "x")), stack.settings)
    failed = failures(checks)
    assert list(failed) == [f"topic {topic.name}x"]
    assert f"Did you mean {topic.name}" in failed[f"topic {topic.name}x"].next_step
    assert not_ok(checks)[f"subject {topic.name}x-value"].state == "warning"


def test_a_regular_expression_shows_its_topics(stack, config, topic: Topic):
    by_regex = replace(config, topics=(), topics_regex=f"{topic.name}.*")
    found = {check.subject: check for check in live_checks(by_regex, stack.settings)}
    assert topic.name in found["topics.regex"].found
    assert found[f"topic {topic.name}"].state == "ok"
    none = {check.subject: check for check in live_checks(replace(by_regex, topics_regex="no-such.+"), stack.settings)}
    assert none["topics.regex"].state == "warning"


def test_a_trust_store_that_is_not_here(stack, config):
    kafka = (KafkaProperty("ssl.truststore.location", SecretStr("/nowhere/trust.p12")),)
    failed = failures(live_checks(replace(config, kafka=kafka), stack.settings))
    assert list(failed) == ["credentials kafka"]
    assert "does not exist" in failed["credentials kafka"].found


def test_everything_is_down_and_each_says_so(stack, config):
    broker, registry, snowflake = closed_port(), closed_port(), closed_port()
    broken = replace(
        config,
        kafka=(KafkaProperty("bootstrap.servers", SecretStr(f"127.0.0.1:{broker}")),),
        value=ConverterConfig(Format.AVRO, RegistryConfig((f"http://127.0.0.1:{registry}",), SecretStr("u:s3cret"))),
        snowflake=SnowflakeConfig(url=f"http://127.0.0.1:{snowflake}"),
    )
    checks = live_checks(broken, stack.settings)
    failed = failures(checks)
    for subject, port in (("broker", broker), ("registry", registry), ("snowflake", snowflake)):
        assert "refused" in failed[f"connection {subject} 127.0.0.1:{port}"].found
    assert {"kafka login", "registry login", "snowflake login"} <= set(failed)
    assert all(check.next_step for check in failed.values())
    assert "s3cret" not in repr(checks)


def test_an_unknown_host_a_missing_secret_and_a_proxy_that_is_down(stack, config):
    proxy = ProxyConfig("127.0.0.1", closed_port(), "user", SecretStr("s3cret"), bypass=("127.0.*",))
    broken = replace(config, proxy=proxy, snowflake=SnowflakeConfig(url="https://account.nowhere.invalid"))
    settings = stack.settings.model_copy(update={"registry_secret_id": "no/such"})
    checks = live_checks(broken, settings)
    failed = failures(checks)
    assert "secret no/such" in failed["credentials registry"].found
    assert (
        f"proxy 127.0.0.1:{proxy.port} does not answer"
        in failed["connection snowflake account.nowhere.invalid:443"].found
    )
    assert failed["snowflake login"].found == "not tried: there is no connection"
    assert {check.subject for check in checks if check.state == "ok"} >= {"credentials kafka", "kafka login"}
    assert "s3cret" not in repr(checks)


def test_refused_logins_are_told_apart_from_dead_servers(stack, config):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, ser.NoEncryption()).decode()
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    jaas = f'{module} required username="nobody" password="s3cret";'
    broken = replace(
        config,
        kafka=(KafkaProperty("sasl.jaas.config", SecretStr(jaas)),),
        snowflake=replace(config.snowflake, private_key=SecretStr(pem)),
    )
    checks = live_checks(broken, stack.settings)
    failed = failures(checks)
    assert set(failed) == {"kafka login", "snowflake login"}
    assert "refuse" in failed["kafka login"].found
    assert "JWT token is invalid" in failed["snowflake login"].found
    assert "s3cret" not in repr(checks)
