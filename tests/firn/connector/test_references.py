"""References: resolved wherever they stand, and what came from one is shown nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firn.connector.config import SinkConfig
from firn.connector.parse import check_sink_config, parse_sink_config
from firn.connector.references import ReferenceFault, Resolver
from firn.errors import ConfigError, TransientError
from firn.secrets import secret_reader
from firn.settings import Settings
from tests.support.connectors import MINIMAL, private_key

SECRET = "hunter2"


class Fake(Resolver):
    """A resolver whose Secrets Manager is a dict."""

    def __init__(self, **secrets: str) -> None:
        super().__init__()
        self._secrets = secrets

    def look_up(self, provider: str, rest: str) -> str:
        if provider != "secretsmanager":
            return super().look_up(provider, rest)
        if rest not in self._secrets:
            raise ReferenceFault(f"${{secretsmanager:{rest}}} leads nowhere")
        return self._secrets[rest]


def user_of(reference: str) -> str | None:
    return parse_sink_config(MINIMAL | {"snowflake.user.name": reference}, where="x").snowflake.user


def test_environment_and_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SINK_USER", "ANNA")
    properties, document = tmp_path / "a.properties", tmp_path / "a.json"
    properties.write_text("user.name = BERT\n")
    document.write_text(json.dumps({"user": "CARL", "number": 7, "nested": {"a": 1}}))
    assert user_of("${env:SINK_USER}") == "ANNA"
    assert user_of("${file:" + str(properties) + ":user.name}") == "BERT"
    assert user_of("${file:" + str(document) + ":user}") == "CARL"
    assert user_of("svc-${env:SINK_USER}-${file:" + str(document) + ":number}") == "svc-ANNA-7"


def test_secrets_manager() -> None:
    key = private_key()
    raw = MINIMAL | {"snowflake.private.key": "${secretsmanager:team/snowflake:private_key}"}
    config = parse_sink_config(raw, where="x", resolver=Fake(**{"team/snowflake:private_key": key}))
    assert config.snowflake.private_key is not None
    assert config.snowflake.private_key.get_secret_value() == key.strip()


def test_an_unasked_secrets_manager_leaves_its_references_unchecked() -> None:
    raw = MINIMAL | {"snowflake.private.key": "${secretsmanager:s:k}", "buffer.count.records": "${secretsmanager:s:n}"}
    checked = check_sink_config(raw, where="x")
    assert (checked.faults, checked.unchecked) == ((), ("snowflake.private.key", "buffer.count.records"))
    assert checked.config is None
    shown = {line.name: line for line in checked.effective}
    assert shown["snowflake.private.key"].value_shown == "${secretsmanager:s:k}"
    assert shown["snowflake.private.key"].note == "not resolved here"
    with pytest.raises(ConfigError, match="Secrets Manager, which was not asked"):
        parse_sink_config(raw, where="x")


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("${env:NO_SUCH_NAME}", "${env:NO_SUCH_NAME} names an environment variable that is not set"),
        ("${file:/no/such.json:key}", "${file:/no/such.json:key} names a file that cannot be read"),
        ("${file:/etc}", "does not have the form ${file:<path>:<key>}"),
        ("${vault:a:b}", "${vault:a:b} names an unknown source: secretsmanager, env, file"),
        ("${secretsmanager:a:b}", "${secretsmanager:a:b} leads nowhere"),
        ("${secretsmanager:a}", "leads nowhere"),
    ],
)
def test_a_reference_that_leads_nowhere_is_a_fault_that_names_it(reference: str, said: str) -> None:
    checked = check_sink_config(MINIMAL | {"snowflake.user.name": reference}, where="x", resolver=Fake())
    assert [fault.name for fault in checked.faults] == ["snowflake.user.name"]
    assert said in str(checked.faults[0])


def test_a_file_without_the_key_is_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"other": SECRET}))
    broken = tmp_path / "b.json"
    broken.write_text(SECRET)
    for path in (file, broken):
        checked = check_sink_config(MINIMAL | {"snowflake.user.name": f"${{file:{path}:user}}"}, where="x")
        assert str(path) in str(checked.faults[0])
        assert SECRET not in str(checked.faults)


@pytest.mark.parametrize(
    "name",
    [
        *("topics", "name", "snowflake.topic2table.map", "buffer.count.records", "snowflake.url.name", "tasks.max"),
        *("value.converter", "value.converter.schema.registry.url", "kafka.bootstrap.servers", "transforms", "jmx"),
        *("snowflake.private.key", "consumer.override.auto.offset.reset", "kafka.sasl.jaas.config", "predicates"),
        *("value.converter.basic.auth.user.info", "kafka.nonsense", "nonsense", "jvm.proxy.host", "topics.regex"),
    ],
)
def test_what_came_from_a_reference_is_shown_nowhere(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (SECRET, f"{SECRET}:{SECRET}", f"{SECRET}:{SECRET},{SECRET}:x1", f"({SECRET}", f"http://u:p@{SECRET}"):
        monkeypatch.setenv("HIDE_ME", value)
        checked = check_sink_config(MINIMAL | {name: "${env:HIDE_ME}"}, where="x")
        assert SECRET not in repr(checked)
        assert SECRET not in "".join(map(str, checked.faults + checked.warnings))


def test_a_secret_parameter_is_shown_nowhere() -> None:
    raw = MINIMAL | {
        "snowflake.private.key": private_key(),
        "jvm.proxy.host": "p",
        "jvm.proxy.port": "1",
        "jvm.proxy.username": "u",
        "jvm.proxy.password": SECRET,
        "value.converter.schema.registry.url": f"http://u:{SECRET}@r",
        "kafka.sasl.jaas.config": f'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" '
        f'password="{SECRET}";',
    }
    checked = check_sink_config(raw, where="x")
    assert isinstance(checked.config, SinkConfig)
    assert SECRET not in repr(checked)
    assert "PRIVATE KEY" not in repr(checked)


@pytest.mark.stack
def test_the_real_secrets_manager(stack) -> None:
    resolver = Resolver(secret_reader(stack.settings))
    raw = MINIMAL | {
        "snowflake.user.name": "${secretsmanager:snowflake/svc-kafka-connector:user}",
        "snowflake.private.key": "${secretsmanager:snowflake/svc-kafka-connector:private_key}",
    }
    checked = check_sink_config(raw, where="x", resolver=resolver)
    assert checked.faults == ()
    assert checked.config is not None
    assert checked.config.snowflake.user == "SVC_KAFKA_CONNECTOR"
    for reference, said in (
        ("${secretsmanager:snowflake/svc-kafka-connector:nonsense}", "no single value under the key 'nonsense'"),
        ("${secretsmanager:no/such/secret:key}", "The secret does not exist."),
    ):
        faulty = check_sink_config(MINIMAL | {"snowflake.user.name": reference}, where="x", resolver=resolver)
        assert said in str(faulty.faults[0])


def test_a_secrets_manager_that_does_not_answer_is_no_fault_of_the_configuration() -> None:
    closed = Settings(
        _env_file=None,
        aws_endpoint_url="http://127.0.0.1:1",
        aws_access_key_id="k",
        aws_secret_access_key="s",
        retry_deadline_seconds=0.1,
    )
    with pytest.raises(TransientError, match="does not answer"):
        parse_sink_config(
            MINIMAL | {"name": "${secretsmanager:a:b}"}, where="x", resolver=Resolver(secret_reader(closed))
        )
