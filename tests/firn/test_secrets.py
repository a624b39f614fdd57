"""Secrets are JSON objects: what is wrong with one is named, and no message holds a value."""

from __future__ import annotations

import json

import pytest

from firn import secrets
from firn.errors import ConfigError
from firn.secrets import KafkaSecret, SnowflakeSecret, read_secret, read_secret_key, secret_reader
from firn.settings import Settings

WHOLE = {"bootstrap_servers": "b:9092", "api_key": "k", "api_secret": "sEcReT", "other": {"a": 1}, "count": 3}
SETTINGS = Settings(aws_region="eu-west-2")


def holding(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let Secrets Manager answer with this text."""
    monkeypatch.setattr(secrets, "_fetch", lambda _settings, _secret_id: text)


def test_a_secret_is_typed_and_its_values_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    holding(monkeypatch, json.dumps(WHOLE))
    found = read_secret(SETTINGS, "s", KafkaSecret)
    assert (found.bootstrap_servers, found.api_secret.get_secret_value()) == ("b:9092", "sEcReT")
    assert "sEcReT" not in repr(found)


@pytest.mark.parametrize("text", ["sEcReT", "[1]", '"sEcReT"'])
def test_what_is_no_json_object_is_refused_with_the_keys_that_are_needed(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    holding(monkeypatch, text)
    with pytest.raises(ConfigError, match="not a JSON object") as refused:
        read_secret(SETTINGS, "s", SnowflakeSecret)
    assert refused.value.where == "secret s in Secrets Manager, region eu-west-2"
    assert "{account, user, role, private_key, private_key_passphrase?, url?, warehouse?}" in refused.value.next_step
    with pytest.raises(ConfigError, match="not a JSON object"):
        read_secret_key(SETTINGS, "s", "api_key")
    assert "sEcReT" not in str(refused.value)


def test_absent_keys_are_named_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    holding(monkeypatch, json.dumps({"api_key": "sEcReT"}))
    with pytest.raises(ConfigError, match=r"bootstrap_servers: .*api_secret: ") as refused:
        read_secret(SETTINGS, "s", KafkaSecret)
    assert "sEcReT" not in str(refused.value)


def test_one_key_of_any_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    holding(monkeypatch, json.dumps(WHOLE))
    read = secret_reader(SETTINGS)
    assert [read("s", key).get_secret_value() for key in ("api_key", "count")] == ["k", "3"]
    for key in ("other", "absent"):
        with pytest.raises(ConfigError, match=f"no single value under the key '{key}'"):
            read("s", key)
