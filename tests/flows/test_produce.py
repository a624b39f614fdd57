"""`firn produce` through the public command: what arrives in the topic, and what a bad file does."""

import io
import json
import signal
import subprocess
import time
from collections import Counter
from uuid import uuid4

import fastavro
import pytest
from confluent_kafka import Consumer, TopicPartition

from firn.errors import ConfigError, TransientError
from firn.kafka.client import client_from_settings
from firn.kafka.cluster import admin_client, find_topics, offsets
from firn.produce.run import order_schema
from firn.registry.login import login_from_secret, registry_client
from firn.registry.schemas import registered_schema
from firn.secrets import RegistrySecret, read_secret
from tests.conftest import FIRN
from tests.support.sinks import wait_until

pytestmark = pytest.mark.stack
RUN = uuid4().hex[:8]
"""Part of every name, so that a stack may serve more than one test run."""
READING = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "sensor", "type": "string"},
        {"name": "celsius", "type": ["null", "double"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def consumed(stack, topic):
    """Every record of the topic, as messages."""
    client = client_from_settings(stack.settings)
    admin = admin_client(client)
    partitions = [(topic, number) for number in range(find_topics(admin, [topic])[topic].partitions)]
    total = sum(offsets(admin, partitions, "latest").values())
    consumer = Consumer({**client.librdkafka(), "group.id": "test", "enable.auto.commit": False})
    consumer.assign([TopicPartition(*partition, 0) for partition in partitions])
    messages = []
    deadline = time.monotonic() + 30
    while len(messages) < total and time.monotonic() < deadline:
        messages += consumer.consume(total - len(messages), timeout=1)
    consumer.close()
    return messages


def decoded(stack, message):
    settings = stack.settings
    secret = read_secret(settings, settings.registry_secret_id, RegistrySecret)
    client = registry_client(login_from_secret(secret))
    assert message.value()[0] == 0
    schema = json.loads(registered_schema(client, int.from_bytes(message.value()[1:5], "big")).text)
    return schema, fastavro.schemaless_reader(io.BytesIO(message.value()[5:]), schema)


def partitions(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_orders_arrive_with_key_headers_and_framing(stack):
    result = stack.run("produce", "--topic", f"flow-orders-{RUN}", "--count", "500", "--seed", "1", "--json")
    messages = consumed(stack, f"flow-orders-{RUN}")
    assert len(messages) == 500
    assert Counter(message.partition() for message in messages) == {
        row["partition"]: row["records"] for row in partitions(result)
    }
    assert all(row["last_offset"] - row["first_offset"] == row["records"] - 1 for row in partitions(result))
    schema, order = decoded(stack, messages[0])
    assert schema == json.loads(order_schema())
    assert messages[0].key().decode() == str(order["order_id"])
    assert dict(messages[0].headers()) == {
        "source": b"firn-produce",
        "event-type": b"com.company.streaming.OrderEvent",
    }


def written(tmp_path, rows):
    (tmp_path / "reading.avsc").write_text(json.dumps(READING))
    (tmp_path / "readings.csv").write_text("sensor,celsius,at\n" + rows)
    return ("--from-file", tmp_path / "readings.csv", "--schema", tmp_path / "reading.avsc", "--key", "sensor")


def test_a_csv_with_empty_cells_arrives_typed(stack, tmp_path):
    file = written(tmp_path, "a,21.5,2026-03-05T12:00:00Z\nb,,1772712000000\n")
    stack.run("produce", "--topic", f"flow-readings-{RUN}", *file)
    values = {message.key(): decoded(stack, message)[1] for message in consumed(stack, f"flow-readings-{RUN}")}
    assert values[b"a"]["celsius"] == 21.5
    assert values[b"b"]["celsius"] is None
    assert values[b"a"]["at"] == values[b"b"]["at"]


def test_a_bad_row_stops_the_run_after_the_rows_before_it(stack, tmp_path):
    file = written(tmp_path, "a,1,0\nb,2,0\nc,warm,0\nd,4,0\n")
    result = stack.run("produce", "--topic", f"flow-bad-row-{RUN}", *file, "--json", check=False)
    assert result.returncode == 3
    assert "readings.csv, line 4" in result.stderr
    assert "Field celsius: expected double" in result.stderr
    assert "Traceback" not in result.stderr
    assert sum(row["records"] for row in partitions(result)) == 2
    assert {message.key() for message in consumed(stack, f"flow-bad-row-{RUN}")} == {b"a", b"b"}


def test_a_file_that_does_not_fit_makes_no_topic(stack, tmp_path):
    file = written(tmp_path, "a,1,0\n")
    (tmp_path / "readings.csv").write_text("sensr,at\na,0\n")
    result = stack.run("produce", "--topic", f"flow-never-{RUN}", *file, check=False)
    assert result.returncode == 3
    assert "did you mean sensor?" in result.stderr
    assert find_topics(admin_client(client_from_settings(stack.settings)), [f"flow-never-{RUN}"]) == {}


def produced(admin, places):
    """How many records there are; a topic that is just being made has none."""
    try:
        return sum(offsets(admin, places, "latest").values())
    except (ConfigError, TransientError):
        return 0


def test_an_interrupt_delivers_what_is_under_way_and_reports_it(stack):
    client = client_from_settings(stack.settings)
    admin = admin_client(client)
    topic = f"flow-stop-{RUN}"
    command = [FIRN, "produce", "--topic", topic, "--count", "100000", "--rate", "100", "--json"]
    child = subprocess.Popen(command, env=stack.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        places = [(topic, number) for number in range(3)]
        wait_until(lambda: produced(admin, places), seconds=180, what="a first record")
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=120)
    finally:
        child.kill()
    assert child.returncode == 130, err
    reported = sum(json.loads(line)["records"] for line in out.splitlines())
    assert reported == sum(offsets(admin, places, "latest").values()) > 0


@pytest.mark.parametrize(("value_format", "start"), [("json", b"{"), ("json-schema", b"\x00"), ("protobuf", b"\x00")])
def test_orders_in_other_formats_arrive_and_each_delivery_is_a_line(stack, value_format, start):
    topic = f"flow-{value_format}-{RUN}"
    result = stack.run("produce", "--topic", topic, "--count", "3", "--format", value_format, "--verbose")
    messages = consumed(stack, topic)
    assert [message.value()[:1] for message in messages] == [start] * 3
    assert all(
        f"✅ Delivered to {topic} [{each.partition()}] @ offset {each.offset()}" in result.stderr for each in messages
    )
