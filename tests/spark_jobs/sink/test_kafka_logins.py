"""Spark's source, a Java client, enters Kafka with the same value as librdkafka, by every kind of login."""

from __future__ import annotations

import re

import pytest
from pydantic import SecretStr
from pyspark.sql import SparkSession

from firn.connector.config import KafkaProperty
from firn.kafka_client import KafkaClient, kafka_client
from firn.local.home import Home
from firn.secrets import KafkaSecret, read_secret
from firn.settings import Settings
from tests.support.kafka import Topic

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


def test_plain_by_the_environment_of_the_session(spark: SparkSession, settings: Settings, topic: Topic) -> None:
    assert values_read(spark, topic, topic.client.jvm_options()) == [b"a", b"b"]


def test_scram(spark: SparkSession, settings: Settings, topic: Topic) -> None:
    secret = read_secret(settings, settings.kafka_secret_id, KafkaSecret)
    kafka = client(settings, {"sasl.mechanism": "SCRAM-SHA-512"}, secret)
    assert values_read(spark, topic, resolved(kafka)) == [b"a", b"b"]


@pytest.mark.parametrize("inline", [False, True])
def test_mutual_tls_by_file_and_inline(spark: SparkSession, settings: Settings, topic: Topic, inline: bool) -> None:
    home = Home.load(settings.home)
    values = {"security.protocol": "SSL", "bootstrap.servers": home.address("kafka-mutual-tls")}
    if inline:
        key, mark, chain = home.client_certificate.read_text().partition("-----BEGIN CERTIFICATE")
        values |= {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": mark + chain}
    else:
        values |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(home.client_certificate)}
    assert values_read(spark, topic, resolved(client(settings, values))) == [b"a", b"b"]
