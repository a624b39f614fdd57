"""`firn provision` through the public command: made, then found, and faults that a person can act on."""

import json
from uuid import uuid4

import boto3
import pytest

pytestmark = pytest.mark.stack
RUN = uuid4().hex[:8]
"""Part of every name, so that a stack may serve more than one test run."""


def findings(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def states(result):
    return {(finding["kind"], finding["name"]): finding["state"] for finding in findings(result)}


@pytest.fixture
def dead_registry(stack):
    """The id of a secret whose registry does not answer."""
    settings = stack.settings
    assert settings.aws_access_key_id
    assert settings.aws_secret_access_key
    client = boto3.client(
        "secretsmanager",
        region_name=settings.aws_region,
        endpoint_url=settings.aws_endpoint_url,
        aws_access_key_id=settings.aws_access_key_id.get_secret_value(),
        aws_secret_access_key=settings.aws_secret_access_key.get_secret_value(),
    )
    secret = {"url": "http://127.0.0.1:1", "api_key": "k", "api_secret": "registry-password"}
    client.create_secret(Name="test/dead-registry", SecretString=json.dumps(secret))
    yield "test/dead-registry"
    client.delete_secret(SecretId="test/dead-registry", ForceDeleteWithoutRecovery=True)


def test_everything_is_made_then_found(stack, tmp_path):
    schema = tmp_path / "note.avsc"
    schema.write_text('{"type": "record", "name": "Note", "fields": [{"name": "text", "type": "string"}]}')
    command = ("provision", "--topic", f"flow-notes-{RUN}", "--partitions", "2", "--schema", schema, "--json")
    first = states(stack.run(*command))
    assert first == {
        ("topic", f"flow-notes-{RUN}"): "made",
        ("schema", f"flow-notes-{RUN}-value"): "made",
        ("compatibility", f"flow-notes-{RUN}-value"): "made",
        ("snowflake login", "firn-local"): "ok",
        ("database", "STREAMING"): "ok",
        ("schema", "STREAMING.PUBLIC"): "ok",
        ("warehouse", "INGEST_WH"): "ok",
        ("dbt login", "ANALYTICS_DEVELOPER"): "ok",
        ("sql login", "ANALYTICS_DEVELOPER"): "ok",
    }
    second = states(stack.run(*command))
    assert second == {key: "found" if state == "made" else state for key, state in first.items()}


def test_what_is_missing_is_listed_beside_what_is_there(stack):
    result = stack.run(
        "provision",
        "--dry-run",
        "--json",
        check=False,
        env={"FIRN_SNOWFLAKE_SCHEMA": "NOWHERE", "FIRN_REGISTRY_SECRET_ID": "test/absent"},
    )
    assert result.returncode == 3
    assert states(result)["schema", "STREAMING.NOWHERE"] == "missing"
    assert states(result)["database", "STREAMING"] == "ok"
    assert "secret test/absent" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_registry_that_is_down_asks_for_another_try(stack, dead_registry):
    env = {"FIRN_REGISTRY_SECRET_ID": dead_registry, "FIRN_RETRY_DEADLINE_SECONDS": "1"}
    result = stack.run("provision", "--json", check=False, env=env)
    assert result.returncode == 4
    assert "http://127.0.0.1:1" in result.stderr
    assert "Trying again" in result.stderr
    assert "registry-password" not in result.stdout + result.stderr
    assert "Traceback" not in result.stderr
