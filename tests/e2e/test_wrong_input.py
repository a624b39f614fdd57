"""What a person sees when something is wrong: a message to act on, an exit code, and no stack trace."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from cryptography.hazmat.primitives import serialization as ser
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.commands import run_here
from tests.support.kafka import Topic

pytestmark = pytest.mark.stack

TERMINAL, TRANSIENT, BAD_RECORD = 3, 4, 6


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def secret(stack) -> Callable[[str, Any], str]:
    """Stores a secret, a changed copy of another one or any text; returns its id."""
    settings = stack.settings
    client = boto3.client(
        "secretsmanager",
        region_name=settings.aws_region,
        endpoint_url=settings.aws_endpoint_url,
        aws_access_key_id="local",
        aws_secret_access_key="local",
    )

    def store(of: str, change: Any) -> str:
        name = f"test/{of}-{closed_port()}"
        if isinstance(change, dict):
            change = json.dumps(json.loads(client.get_secret_value(SecretId=of)["SecretString"]) | change)
        client.create_secret(Name=name, SecretString=change)
        return name

    return store


@pytest.fixture
def other_key() -> str:
    """A good key that Snowflake does not know."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(ser.Encoding.PEM, ser.PrivateFormat.PKCS8, ser.NoEncryption()).decode()


@pytest.fixture(scope="module")
def config(stack, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sink for a topic with one record whose schema nobody knows."""
    topic = Topic(stack.settings, "wrong")
    topic.send([b"\x00\x00\x0f\x42\x3f\x02"])
    file = tmp_path_factory.mktemp("wrong") / "sink.json"
    parameters = {"topics": topic.name, "snowflake.topic2table.map": f"{topic.name}:{topic.table}"}
    file.write_text(json.dumps({"name": topic.table, "config": parameters}))
    return file


def refused(stack, code: int, *args: str | Path, **env: str) -> str:
    """Run a command that must fail with `code`; returns what the person sees on stderr. A driver is a real process."""
    env = {"FIRN_RETRY_DEADLINE_SECONDS": "2", "FIRN_SINK_PATIENCE_SECONDS": "2"} | env
    done = run_here(stack.home, *args, check=False, env=env)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "Next:" in done.stderr
    return str(done.stderr)


def test_an_unknown_schema_id_names_the_record(stack, config: Path) -> None:
    said = refused(stack, BAD_RECORD, "sink", "run", config, "--once")
    assert "-0 offset 0" in said
    assert "999999" in said


@pytest.mark.full
def test_kafka_down(stack, config: Path, secret) -> None:
    port = closed_port()
    name = secret("confluent/kafka-cluster", {"bootstrap_servers": f"127.0.0.1:{port}"})
    said = refused(stack, TRANSIENT, "sink", "run", config, "--once", FIRN_KAFKA_SECRET_ID=name)
    assert f"127.0.0.1:{port}" in said


def test_the_registry_is_down(stack, secret) -> None:
    name = secret("confluent/schema-registry", {"url": f"http://127.0.0.1:{closed_port()}"})
    assert "egistry" in refused(stack, TRANSIENT, "produce", "--count", "1", FIRN_REGISTRY_SECRET_ID=name)


def test_a_missing_secret_is_named(stack) -> None:
    said = refused(stack, TERMINAL, "sql", "SELECT 1", FIRN_SQL_SECRET_ID="no/such")
    assert "secret no/such" in said


def test_a_malformed_secret_names_its_keys_and_no_value(stack, secret) -> None:
    name = secret("x", json.dumps({"account": "a", "user": "u", "private_key": "hunter2"}))
    said = refused(stack, TERMINAL, "sql", "SELECT 1", FIRN_SQL_SECRET_ID=name)
    assert "role" in said
    assert "hunter2" not in said


def test_a_wrong_key_is_refused_by_snowflake(stack, secret, other_key: str) -> None:
    name = secret("snowflake/svc-kafka-connector", {"private_key": other_key})
    said = refused(stack, TERMINAL, "sql", "SELECT 1", FIRN_SQL_SECRET_ID=name)
    assert "JWT token is invalid" in said


def test_a_wrong_snowflake_host(stack) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    said = refused(stack, TRANSIENT, "sql", "SELECT 1", FIRN_SNOWFLAKE_URL=url)
    assert "Snowflake does not answer" in said


def test_secrets_manager_down(stack) -> None:
    endpoint = f"http://127.0.0.1:{closed_port()}"
    said = refused(stack, TRANSIENT, "sql", "SELECT 1", FIRN_AWS_ENDPOINT_URL=endpoint)
    assert endpoint in said


def test_all_faults_of_a_configuration_at_once(stack, tmp_path: Path) -> None:
    file = tmp_path / "sink.json"
    file.write_text(json.dumps({"name": "a b", "config": {"topic": "x", "tasks.max": "0"}}))
    said = refused(stack, TERMINAL, "sink", "run", file)
    for part in ("name:", "topic: is not a known parameter; did you mean topics?", "tasks.max:", "topics: is required"):
        assert part in said


def test_debug_shows_the_stack_trace(stack) -> None:
    done = stack.run("--debug", "sql", "SELECT 1", check=False, env={"FIRN_SQL_SECRET_ID": "no/such"})
    assert "Traceback" in done.stderr
    assert done.returncode == TERMINAL
