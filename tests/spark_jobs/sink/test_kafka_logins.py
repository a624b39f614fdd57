"""Records are read by every kind of login, with every property that is honoured."""

from __future__ import annotations

import threading

import pytest
from pydantic import SecretStr

from firn.connector.parse import parse_sink_config
from firn.kafka.client import KafkaClient, kafka_client
from firn.kafka.cluster import admin_client, find_topics
from firn.kafka.partitions import OffsetRange
from firn.kafka.properties import KafkaProperty
from firn.kafka.property_table import NOT_FOR_READERS, PROPERTIES
from firn.kafka.ranges import RangeReader
from firn.secrets import KafkaSecret, read_secret
from firn.settings import Settings
from firn.sinks.context import resolve
from firn_local.home import Home
from spark_jobs.sink.run import SinkRun
from spark_jobs.spark.engine import Engine
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


def values_read(kafka: KafkaClient, topic: Topic) -> list[bytes]:
    """The values of the topic's two records."""
    reader = RangeReader(kafka, patience=20.0)
    try:
        return [
            value for batch in reader.read(OffsetRange(topic.name, 0, 0, 2)) for value in batch["value"].to_pylist()
        ]
    finally:
        reader.close()


def test_plain_with_every_property_that_is_honoured_beside_the_login(settings: Settings, topic: Topic) -> None:
    given = {
        "client.id": "logins",
        "client.rack": "r1",
        "client.dns.lookup": "use_all_dns_ips",
        "isolation.level": "read_committed",
        "check.crcs": "false",
        "fetch.max.bytes": "1000000",
        "fetch.max.wait.ms": "100",
        "max.partition.fetch.bytes": "100000",
        "receive.buffer.bytes": "-1",
        "send.buffer.bytes": "-1",
        "request.timeout.ms": "20000",
        "metadata.max.age.ms": "10000",
        "metadata.recovery.strategy": "none",
        "metadata.recovery.rebootstrap.trigger.ms": "10000",
        "connections.max.idle.ms": "60000",
        "socket.connection.setup.timeout.ms": "5000",
        "reconnect.backoff.ms": "10",
        "reconnect.backoff.max.ms": "100",
        "retry.backoff.ms": "10",
        "retry.backoff.max.ms": "100",
        "enable.metrics.push": "false",
        "ssl.endpoint.identification.algorithm": "",
    }
    translated = {n for n, row in PROPERTIES.items() if row.librdkafka and not n.startswith("sasl.")}
    assert translated - given.keys() <= {"bootstrap.servers"} | NOT_FOR_READERS
    kafka = client(settings, given, read_secret(settings, settings.kafka_secret_id, KafkaSecret))
    assert values_read(kafka, topic) == [b"a", b"b"]
    assert find_topics(admin_client(kafka), [topic.name])


def test_scram(settings: Settings, topic: Topic) -> None:
    secret = read_secret(settings, settings.kafka_secret_id, KafkaSecret)
    assert values_read(client(settings, {"sasl.mechanism": "SCRAM-SHA-512"}, secret), topic) == [b"a", b"b"]


def test_mutual_tls_with_key_and_certificates_in_the_properties(settings: Settings, topic: Topic) -> None:
    home = Home.load(settings.home)
    key, mark, chain = home.client_certificate.read_text().partition("-----BEGIN CERTIFICATE")
    values = {"ssl.keystore.key": key, "ssl.keystore.certificate.chain": mark + chain}
    values |= {"security.protocol": "SSL", "bootstrap.servers": home.address("kafka-mutual-tls")}
    assert values_read(client(settings, values), topic) == [b"a", b"b"]


def test_a_sink_by_mutual_tls_needs_no_kafka_secret(spark: Engine, settings: Settings, topic: Topic) -> None:
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
