"""The embedded stack as its user meets it: what runs, who is let in, and what is told about it."""

from __future__ import annotations

import json
import ssl
import stat
import urllib.error
import urllib.request
import uuid
from typing import Any

import psutil
import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from firn.secrets import KafkaSecret, RegistrySecret, SnowflakeSecret, read_secret
from tests.support.stack import SERVERS, kafka_configuration, pids

pytestmark = pytest.mark.stack


def test_status_knows_every_server(stack: Any) -> None:
    done = stack.run("status", "--json")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["server"] for row in rows} == SERVERS
    for row in rows:
        assert row["state"] == "running"
        assert psutil.pid_exists(row["pid"])
        assert (stack.home / "logs" / f"{row['server']}.log").exists()


def test_up_again_changes_nothing(stack: Any) -> None:
    before = pids(stack)
    assert "already running" in stack.run("up", timeout=60).stderr
    assert pids(stack) == before


def test_kafka_wants_the_api_key_and_makes_no_topic_by_itself(stack: Any) -> None:
    configuration = kafka_configuration(stack.settings)
    wrong = AdminClient(configuration | {"sasl.password": "wrong", "log_level": 0})
    with pytest.raises(KafkaException):
        wrong.list_topics(timeout=3)
    absent = f"absent-{uuid.uuid4().hex}"
    Producer(configuration | {"message.timeout.ms": 1500}).list_topics(absent, timeout=10)
    assert absent not in AdminClient(configuration).list_topics(timeout=10).topics


def test_the_registry_wants_its_api_key(stack: Any) -> None:
    secret = read_secret(stack.settings, stack.settings.registry_secret_id, RegistrySecret)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(f"{secret.url}/subjects", timeout=10)


def test_snowpipe_streaming_answers_whom_its_ca_convinces(stack: Any) -> None:
    settings = stack.settings
    trust = ssl.create_default_context(cafile=settings.snowflake_ca_file)
    with urllib.request.urlopen(f"{settings.snowflake_streaming_url}/health", timeout=10, context=trust) as answer:
        assert json.load(answer) == {"ok": True}
    with pytest.raises(urllib.error.URLError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(f"{settings.snowflake_streaming_url}/health", timeout=10)


def test_the_connector_role_holds_the_writer_role(stack: Any) -> None:
    grants = stack.run("sql", "SHOW GRANTS TO ROLE SVC_KAFKA_CONNECTOR").stdout
    assert "STREAMING_DB_WRITER" in grants


def test_prefect_has_the_work_pool_and_a_worker_on_it(stack: Any) -> None:
    url = f"{stack.settings.prefect_api_url}/work_pools/firn"
    with urllib.request.urlopen(url, timeout=10) as answer:
        pool = json.load(answer)
    assert (pool["type"], pool["status"]) == ("process", "READY")


def test_no_credential_is_in_a_command_line_a_log_or_an_open_file(stack: Any) -> None:
    settings = stack.settings
    kafka = read_secret(settings, settings.kafka_secret_id, KafkaSecret)
    schema_registry = read_secret(settings, settings.registry_secret_id, RegistrySecret)
    snowflake = read_secret(settings, settings.snowflake_secret_id, SnowflakeSecret)
    key_line = snowflake.private_key.get_secret_value().splitlines()[1]
    values = [kafka.api_secret.get_secret_value(), schema_registry.api_secret.get_secret_value(), key_line]
    lines = [" ".join(psutil.Process(pid).cmdline()) for pid in pids(stack).values()]
    logs = [log.read_text(errors="replace") for log in (stack.home / "logs").iterdir()]
    env = (stack.home / "stack.env").read_text()
    assert not [value for value in values for text in [*lines, *logs, env] if value in text]

    holding = [
        file
        for file in stack.home.rglob("*")
        if file.is_file() and any(value.encode() in file.read_bytes() for value in values)
    ]
    assert holding
    assert [f for f in holding if stat.S_IMODE(f.stat().st_mode) & 0o077] == []
