"""The embedded stack is stopped, killed and started again, one of this file's own: what survives, what is mended."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import psutil
import pytest
from confluent_kafka import Consumer, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient

from firn.secrets import RegistrySecret, read_secret
from firn.settings import Settings
from tests.support.stack import SERVERS, kafka_configuration, pids, status

pytestmark = [pytest.mark.stack, pytest.mark.full]


@pytest.fixture(scope="module")
def stack(new_stack: Callable[[str], Any]) -> Any:
    return new_stack("restarted")


def registry(settings: Settings) -> SchemaRegistryClient:
    secret = read_secret(settings, settings.registry_secret_id, RegistrySecret)
    user = f"{secret.api_key.get_secret_value()}:{secret.api_secret.get_secret_value()}"
    return SchemaRegistryClient({"url": secret.url, "basic.auth.user.info": user})


def secrets_manager(settings: Settings) -> Any:
    assert settings.aws_access_key_id is not None
    key = settings.aws_access_key_id.get_secret_value()
    return boto3.client(
        "secretsmanager",
        region_name=settings.aws_region,
        endpoint_url=settings.aws_endpoint_url,
        aws_access_key_id=key,
        aws_secret_access_key=key,
    )


class Traces:
    """One of everything a user leaves in a stack, and the proof that it is still there."""

    def __init__(self, stack: Any) -> None:
        self.stack, self.name = stack, f"t{uuid.uuid4().hex[:8]}"
        settings = stack.settings
        kafka = kafka_configuration(settings)
        admin = AdminClient(kafka)
        (created,) = admin.create_topics([NewTopic(self.name, 2)]).values()
        created.result(30)
        self.topic_id = self.read_topic_id()
        # Transactions, because they also need the broker to reach itself through its TLS listener.
        producer = Producer(kafka | {"transactional.id": self.name})
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(self.name, b"kept", partition=1)
        producer.commit_transaction(30)
        self.schema = Schema(json.dumps({"type": "record", "name": self.name, "fields": []}), "AVRO")
        self.schema_id = registry(settings).register_schema(f"{self.name}-value", self.schema)
        self.user_secret = secrets_manager(settings).create_secret(Name=self.name, SecretString="one")["ARN"]
        secrets_manager(settings).put_secret_value(SecretId=self.name, SecretString="two")
        stack.run("sql", f"CREATE TABLE {self.name} (A INT)")
        stack.run("sql", f"INSERT INTO {self.name} VALUES (1), (2)")

    def read_topic_id(self) -> str:
        admin = AdminClient(kafka_configuration(self.stack.settings))
        (topic,) = admin.describe_topics(TopicCollection([self.name])).values()
        return str(topic.result(30).topic_id)

    def assert_kept(self) -> None:
        settings = self.stack.settings
        assert self.read_topic_id() == self.topic_id
        consumer = Consumer(
            kafka_configuration(settings)
            | {"group.id": self.name, "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        )
        consumer.assign([TopicPartition(self.name, 1, 0)])
        message = consumer.poll(30)
        consumer.close()
        assert message is not None
        assert message.value() == b"kept"
        assert registry(settings).get_latest_version(f"{self.name}-value").schema_id == self.schema_id
        assert registry(settings).register_schema(f"{self.name}-value", self.schema) == self.schema_id
        kept = secrets_manager(settings).get_secret_value(SecretId=self.user_secret)
        assert kept["SecretString"] == "two"
        rows = self.stack.run("sql", f"SELECT SUM(A) AS S FROM {self.name}", "--json").stdout
        assert json.loads(rows)["S"] == 3


@pytest.fixture(scope="module")
def traces(stack: Any) -> Traces:
    return Traces(stack)


@pytest.fixture
def healed(stack: Any) -> Iterator[None]:
    yield
    stack.run("up", timeout=300)


def test_down_and_up_keep_topics_schema_ids_secrets_tables_and_ports(stack: Any, traces: Traces, healed: None) -> None:
    ports = (stack.home / "stack.json").read_text()
    old = set(pids(stack).values())
    stack.run("down", timeout=200)
    stopped = stack.run("status", check=False)
    assert stopped.returncode == 1
    assert {row["state"] for row in status(stack).values()} == {"stopped"}
    assert not any(psutil.pid_exists(pid) for pid in old)
    assert not (stack.home / "stack.env").exists()

    stack.run("up", timeout=300)
    assert (stack.home / "stack.json").read_text() == ports
    traces.assert_kept()


@pytest.mark.parametrize(
    "victims", [{"kafka", "schema-registry", "secrets-manager"}, {"snowflake", "prefect", "prefect-worker"}]
)
def test_up_heals_killed_servers_and_only_those(stack: Any, traces: Traces, healed: None, victims: set[str]) -> None:
    before = pids(stack)
    for name in victims:
        os.kill(before[name], signal.SIGKILL)
    psutil.wait_procs([psutil.Process(before[n]) for n in victims if psutil.pid_exists(before[n])], timeout=10)
    seen = status(stack)
    assert {name for name, row in seen.items() if row["state"] == "crashed"} == victims
    assert stack.run("status", check=False).returncode == 1

    stack.run("up", timeout=300)
    after = pids(stack)
    assert {name for name in SERVERS if after[name] != before[name]} == victims
    traces.assert_kept()


def test_a_stopped_server_is_called_unhealthy(stack: Any, healed: None) -> None:
    pid = pids(stack)["schema-registry"]
    os.kill(pid, signal.SIGSTOP)
    try:
        seen = status(stack)["schema-registry"]
        assert (seen["state"], seen["pid"]) == ("unhealthy", pid)
        assert seen["reason"]
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_broken_endpoint_in_a_secret_is_mended_and_the_rest_is_left(stack: Any, healed: None) -> None:
    settings = stack.settings
    client = secrets_manager(settings)
    good = json.loads(client.get_secret_value(SecretId=settings.registry_secret_id)["SecretString"])
    client.put_secret_value(
        SecretId=settings.registry_secret_id, SecretString=json.dumps(good | {"url": "http://127.0.0.1:1", "note": "x"})
    )
    os.kill(pids(stack)["secrets-manager"], signal.SIGKILL)
    stack.run("up", timeout=300)
    mended = json.loads(client.get_secret_value(SecretId=settings.registry_secret_id)["SecretString"])
    assert mended == good | {"note": "x"}
