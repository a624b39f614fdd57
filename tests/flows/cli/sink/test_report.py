"""`firn sink report`: everything in one file, no secret in any part of it, and never a failure as a whole."""

from __future__ import annotations

import base64
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from firn.errors import ConfigError
from firn.ledger.control import ControlTable
from firn.ledger.control_record import State
from firn.ledger.schema_changes import SchemaChange, SchemaChanges
from firn.secrets import KafkaSecret, RegistrySecret, SnowflakeSecret, read_secret
from firn.settings import load_settings
from firn.snowflake.connection import connect
from firn.snowflake.identifiers import Namespace
from flows.cli.sink import add
from tests.support.kafka import Topic
from tests.support.proxies import closed_port
from tests.support.sinks import connector_file, forget, login_of

pytestmark = pytest.mark.stack

PARTS = {
    "configuration.json",
    "settings.json",
    "versions.json",
    "status.json",
    "schema_changes.json",
    "sink.log",
    "spark.log",
}
BY_REFERENCE = 'by/reference "42" & more'


@pytest.fixture
def firn(stack, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs `firn sink report ...` within this process."""
    monkeypatch.setenv("FIRN_HOME", str(stack.home))
    load_settings.cache_clear()
    app = typer.Typer()
    add(app)
    return lambda *arguments: CliRunner().invoke(app, ["sink", "report", *map(str, arguments)])


@pytest.fixture
def topic(stack) -> Topic:
    return Topic(stack.settings, "report")


@pytest.fixture
def logs(stack, topic: Topic) -> Iterator[list[Path]]:
    """The sink's log files, which a test fills."""
    files = [stack.home / "logs" / f"{kind}-s_{topic.table}.log" for kind in ("sink", "spark")]
    yield files
    for file in files:
        file.unlink(missing_ok=True)


def contents(file: Path) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The texts of a bundle by name, and what it says of its parts."""
    with zipfile.ZipFile(file) as bundle:
        texts = {name: bundle.read(name).decode() for name in bundle.namelist()}
    return texts, {part["name"]: part for part in json.loads(texts["contents.json"])["parts"]}


def known_secrets(stack) -> list[str]:
    """All secrets of the stack, in the forms in which a careless program writes them."""
    settings = stack.settings
    kafka = read_secret(settings, settings.kafka_secret_id, KafkaSecret)
    registry = read_secret(settings, settings.registry_secret_id, RegistrySecret)
    key = read_secret(settings, settings.snowflake_secret_id, SnowflakeSecret).private_key.get_secret_value()
    pairs = [f"{each.api_key.get_secret_value()}:{each.api_secret.get_secret_value()}" for each in (kafka, registry)]
    plain = [each.api_secret.get_secret_value() for each in (kafka, registry)]
    headers = [base64.b64encode(pair.encode()).decode() for pair in pairs]
    lines = [line for line in key.splitlines() if len(line) > 20 and "PRIVATE KEY" not in line]
    return [*plain, *pairs, *headers, key, key.replace("\n", "\\n"), *lines]


def test_everything_is_there_and_no_secret_is(stack, firn, topic, logs, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("PLANTED", BY_REFERENCE)
    parameters = {"value.converter.basic.auth.user.info": "me:${env:PLANTED}"}
    url = {"value.converter.schema.registry.url": "http://127.0.0.1:1"}
    source = {"value.converter.basic.auth.credentials.source": "USER_INFO"}
    file = connector_file(tmp_path, topic, **parameters, **url, **source)
    secrets = [*known_secrets(stack), BY_REFERENCE, json.dumps(BY_REFERENCE)[1:-1]]
    for log in logs:
        log.write_text("".join(f"a line with {secret} in it\n" for secret in secrets) + "the last line\n")
    sink = f"s_{topic.table}"
    namespace = Namespace("STREAMING", "PUBLIC")
    records, changes = ControlTable(namespace, sink), SchemaChanges(namespace, sink)
    with connect(login_of(stack.settings)) as connection:
        records.ensure(connection)
        changes.ensure(connection)
        said = " ".join(secrets)
        records.report(connection, State.FAILED, reason=said, next_step=said, stats={"last_error": said})
        changes.record(connection, SchemaChange("T", topic.name, 7, f"ALTER TABLE T /* {said} */"))
    output = tmp_path / "report.zip"
    try:
        done = firn(file, "--output", output, "--json")
    finally:
        forget(stack.settings, sink)
    assert done.exit_code == 0, done.exception
    assert {json.loads(line)["state"] for line in done.stdout.splitlines()} == {"collected"}
    texts, _ = contents(output)
    assert set(texts) == PARTS | {"contents.json"}
    for name, text in texts.items():
        assert [secret for secret in secrets if secret in text] == [], name
    for name in ("sink.log", "spark.log"):
        assert texts[name].endswith("the last line\n")
        assert "a line with (hidden) in it" in texts[name]
    status = json.loads(texts["status.json"])
    assert (status["status"]["state"], status["firn_sinks"]["state"]) == ("Failed", "failed")
    assert [row["SCHEMA_ID"] for row in json.loads(texts["schema_changes.json"])] == [7]
    assert json.loads(texts["versions.json"])["packages"]["pyspark"].startswith("4.")
    shown = {each["name"]: each["value_shown"] for each in json.loads(texts["configuration.json"])["effective"]}
    assert shown["topics"] == topic.name
    assert output.stat().st_mode & 0o077 == 0


def test_nothing_that_cannot_be_reached_hides_the_rest(stack, firn, topic, logs, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("FIRN_AWS_ENDPOINT_URL", f"http://127.0.0.1:{closed_port()}")
    load_settings.cache_clear()
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="inline-password";'
    literal = {"snowflake.private.key": "a-literal-key-body", "snowflake.private.kee": "under-a-misspelt-name"}
    file = connector_file(tmp_path, topic, **literal, **{"kafka.sasl.jaas.config": jaas})
    for log in logs:
        log.write_text("who knows what stands here\n")
    output = tmp_path / "report.zip"
    done = firn(file, "--output", output)
    assert done.exit_code == 0, done.exception
    texts, parts = contents(output)
    missing = {name for name, part in parts.items() if part["state"] == "missing"}
    assert missing == {"status.json", "schema_changes.json", "sink.log", "spark.log"}
    assert "Secrets Manager does not answer" in parts["sink.log"]["detail"]
    assert "snowflake.private.kee" in texts["configuration.json"]
    for name, text in texts.items():
        for secret in ("a-literal-key-body", "under-a-misspelt-name", "inline-password"):
            assert secret not in text, name


def test_a_sink_that_ran_elsewhere_has_a_report_without_logs(firn, topic, tmp_path) -> None:
    output = tmp_path / "report.zip"
    file = connector_file(tmp_path, topic)
    assert firn(file, "--output", output).exit_code == 0
    _, parts = contents(output)
    assert "the sink ran elsewhere, or never" in parts["sink.log"]["detail"]
    assert parts["status.json"]["state"] == "collected"
    again = firn(file, "--output", output)
    assert isinstance(again.exception, ConfigError)  # what is there stays
