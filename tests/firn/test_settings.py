"""Settings: typed, documented, and silent about secrets."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from firn.settings import Settings


def test_every_setting_is_documented() -> None:
    text = Path("docs/settings.md").read_text()
    missing = [name for name in Settings.model_fields if f"`FIRN_{name.upper()}`" not in text]
    assert missing == []


def test_a_wrong_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRN_TOPIC_PARTITIONS", "none")
    with pytest.raises(ValidationError, match="topic_partitions"):
        Settings(_env_file=None)


def test_environment_wins_over_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "stack.env"
    file.write_text("FIRN_TOPIC=from-file\nFIRN_SNOWFLAKE_DATABASE=FILE_DB\n")
    monkeypatch.setenv("FIRN_TOPIC", "from-env")
    settings = Settings(_env_file=file)
    assert (settings.topic, settings.snowflake_database) == ("from-env", "FILE_DB")


def test_values_of_secrets_are_masked() -> None:
    settings = Settings(_env_file=None, aws_secret_access_key="hunter2")
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in settings.model_dump_json()
