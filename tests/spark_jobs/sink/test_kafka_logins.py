"""Spark's source, a Java client, enters Kafka with the same value as librdkafka, by every kind of login."""

from __future__ import annotations

import re
import threading

import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from firn.connector.config import KafkaProperty
from firn.connector.parse import parse_sink_config
from firn.kafka.client import KafkaClient, kafka_client
from firn.kafka.cluster import admin_client, find_topics
from firn.local.home import Home
from firn.secrets import KafkaSecret, read_secret
from firn.settings import Settings
from spark_jobs.sink.context import resolve
from spark_jobs.sink.run import SinkRun
from tests.support.kafka import Topic
from tests.support.sinks import connector, landed

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def topic(settings: Settings) -> Topic:
    """A topic of two records."""
    made = Topic(settings, "logins", partitions=1)
    made.send([b"a", b"b"])
    return made


def client(settings: Settings, values: dict[str, str], secret: KafkaSecret | None = None) -> KafkaClient:
    return kafka_client(settings, secret, [KafkaProperty(n, SecretStr(v)) for n, v in values.items()])


def values_read(spark: SparkSession, topic: Topic, options: dict[str, str]) -> list[bytes]:
    """All values of the topic, by one batch read."""
    given = {f"kafka.{name}": value for name, value in options.items()}
    frame = spark.read.format("kafka").options(**given, subscribe=topic.name, startingOffsets="earliest").load()
    return [bytes(row.value) for row in frame.select("value").collect()]


def resolved(kafka: KafkaClient) -> dict[str, str]:
    """Options with the credentials in them: the JVM of the tests' session was started for another login."""
    environment = kafka.jvm_environment()
    return {
        name: re.sub(r"\$\{env:(\w+)\}", lambda found: environment[found[1]], value)
        for name, value in kafka.jvm_options().items()
    }


def test_plain_by_the_environment_of_the_session_with_every_honoured_property(
    spark: SparkSession, settings: Settings, topic: Topic
) -> None:
    """Spark's source refuses some properties: none of those that are honoured."""
    given = {
        "client.id": "logins",
        "client.rack": "r1",
        "client.dns.lookup": "use_all_dns_ips",
        "isolation.level": "read_committed",
        "check.crcs": "false",
        "fetch.min.bytes": "1",
        "fetch.max.bytes": "1000000",
        "fetch.max.wait.ms": "100",
        "max.partition.fetch.bytes": "100000",
        "receive.buffer.bytes": "-1",
        "send.buffer.bytes": "-1",
        "request.timeout.ms": "20000",
        "default.api.timeout.ms": "20000",
        "metadata.max.age.ms": "10000",
        "metadata.recovery.strategy": "none",
        "connections.max.idle.ms": "60000",
        "socket.connection.setup.timeout.ms": "5000",
        "reconnect.backoff.ms": "10",
        "reconnect.backoff.max.ms": "100",
        "retry.backoff.ms": "10",
        "retries": "3",
        "enable.metrics.push": "false",
        "ssl.endpoint.identification.algorithm": "",
        "ssl.enabled.protocols": "TLSv1.3",
        "sasl.login.refresh.window.factor": "0.5",
    }
    secret = read_secret(settings, settings.kafka_secret_id, KafkaSecret)
    kafka = client(settings, given, secret)
    assert given.items() <= kafka.jvm_options().items()
    assert values_read(spark, topic, kafka.jvm_options()) == [b"a", b"b"]
    assert find_topics(admin_client(kafka), [topic.name])


def test_scram(spark: SparkSession, settings: Settings, topic: Topic) -> None:
    secret = read_secret(settings, settings.kafka_secret_id, KafkaSecret)
    kafka = client(settings, {"sasl.mechanism": "SCRAM-SHA-512"}, secret)
    assert values_read(spark, topic, resolved(kafka)) == [b"a", b"b"]


def test_mutual_tls_with_key_and_certificates_in_the_properties(
    spark: SparkSession, settings: Settings, topic: Topic
) -> None:
    home = Home.load(settings.home)
    key, mark, chain = home.client_certificate.read_text().partition("-----BEGIN CERTIFICATE")
    values = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": mark + chain}
    values |= {"security.protocol": "SSL", "bootstrap.servers": home.address("kafka-mutual-tls")}
    assert values_read(spark, topic, resolved(client(settings, values))) == [b"a", b"b"]


def test_a_sink_by_mutual_tls_needs_no_kafka_secret(spark: SparkSession, settings: Settings, topic: Topic) -> None:
    home = Home.load(settings.home)
    own = {
        "kafka.security.protocol": "SSL",
        "kafka.bootstrap.servers": home.address("kafka-mutual-tls"),
        "consumer.override.ssl.keystore.type": "PEM",
        "consumer.override.ssl.keystore.location": str(home.client_certificate),
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    }
    config = parse_sink_config(connector(topic) | own, where="test")
    without_secret = settings.model_copy(update={"kafka_secret_id": "absent"})
    SinkRun(resolve(config, without_secret), spark, once=True, stop=threading.Event()).run()
    assert landed(settings, topic) == [(0, 0), (0, 1)]
