"""The producer accounts for every record, also when Kafka does not answer."""

import pytest
from confluent_kafka import KafkaError

from firn.errors import ConfigError, TransientError
from firn.kafka.client import client_from_settings, kafka_client
from firn.kafka.cluster import admin_client
from firn.produce.producer import RejectedError, UndeliveredError, delivery_line, produce_all, stopped
from firn.produce.records import BadRowError, Record
from firn.provision.topic import ensure_topic, topic_spec
from firn.secrets import KafkaSecret
from firn.settings import Settings

NOWHERE = KafkaSecret(bootstrap_servers="127.0.0.1:1", api_key="k", api_secret="s")


def records(count, then=None):
    for number in range(count):
        yield Record(str(number), b"\x00" * 10)
    if then:
        raise then


def with_topic(settings, topic):
    """The client, after making `topic`."""
    client = client_from_settings(settings)
    ensure_topic(admin_client(client), topic_spec(settings, topic))
    return client


def test_records_that_kafka_never_acknowledged_are_failed_and_may_be_sent_again():
    settings = Settings(kafka_security_protocol="PLAINTEXT", retry_deadline_seconds=1)
    report = produce_all(settings, kafka_client(settings, NOWHERE), "t", records(3), headers={})
    assert (report.delivered, report.failed, report.partitions) == (0, 3, [])
    error = stopped(report)
    assert isinstance(error, UndeliveredError)
    assert isinstance(error, TransientError)
    assert "Connection refused" in error.what
    assert "3 were not" in error.what


def test_a_configuration_the_client_refuses_is_an_error_of_the_settings():
    settings = Settings(kafka_security_protocol="PLAINTEXT", retry_deadline_seconds=1e12)
    with pytest.raises(ConfigError, match=r"message\.timeout\.ms"):
        produce_all(settings, kafka_client(settings, NOWHERE), "t", records(1), headers={})


@pytest.mark.stack
def test_what_came_before_a_bad_row_is_delivered_and_accounted_for(stack):
    client = with_topic(stack.settings, "producer-bad")
    bad = BadRowError("Field a: expected int.", where="a.csv, line 7")
    report = produce_all(stack.settings, client, "producer-bad", records(5, then=bad), headers={})
    assert (report.delivered, report.failed) == (5, 0)
    assert sum(partition.records for partition in report.partitions) == 5
    error = stopped(report)
    assert isinstance(error, RejectedError)
    assert error.where == "a.csv, line 7"
    assert error.report is report


@pytest.mark.stack
def test_a_record_kafka_does_not_take_is_refused_for_good(stack):
    client = with_topic(stack.settings, "producer-large")
    report = produce_all(stack.settings, client, "producer-large", [Record(None, b"x" * 5_000_000)], headers={})
    assert isinstance(stopped(report), RejectedError)


def test_the_lines_about_deliveries():
    class Delivered:
        def topic(self):
            return "order-events"

        def partition(self):
            return 2

        def offset(self):
            return 17

    assert delivery_line(None, Delivered()) == "✅ Delivered to order-events [2] @ offset 17"
    assert delivery_line(KafkaError(KafkaError._MSG_TIMED_OUT), Delivered()).startswith("❌ Failed: KafkaError")
