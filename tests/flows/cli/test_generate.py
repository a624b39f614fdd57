"""`firn transform generate`: what it writes where, what it refuses, and what it prints. The registry is replaced."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from firn.errors import ConfigError, TerminalError
from firn.registry.schemas import RegisteredSchema
from firn.secrets import RegistrySecret
from flows.cli import app

SUBJECT = "readings-value"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "dbt_project.yml").write_text("name: other\nversion: 1.0.0\nprofile: other\n")
    return tmp_path


@pytest.fixture
def fields(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The fields of the subject's one version, to be changed by a test."""
    found: list[dict[str, Any]] = [{"name": "id", "type": "long"}]

    def versions(_client: Any, subject: str) -> list[tuple[int, RegisteredSchema]]:
        assert subject == SUBJECT
        return [(1, RegisteredSchema("AVRO", json.dumps({"type": "record", "name": "R", "fields": found})))]

    secret = RegistrySecret(url="http://127.0.0.1:1", api_key=SecretStr("k"), api_secret=SecretStr("s"))
    monkeypatch.setattr("firn.registry.schemas.subject_versions", versions)
    monkeypatch.setattr("firn.secrets.read_secret", lambda *_: secret)
    return found


def generate(project: Path, *arguments: str) -> Any:
    return CliRunner().invoke(
        app, ["transform", "generate", "--subject", SUBJECT, "--project-dir", str(project), "--json", *arguments]
    )


def states(result: Any) -> set[str]:
    return {json.loads(line)["state"] for line in result.stdout.splitlines()}


def test_it_writes_into_any_project_and_shows_what_changed(project: Path, fields: list[dict[str, Any]]) -> None:
    assert states(generate(project)) == {"new"}
    assert (project / "models/firn/readings/fct_readings.sql").exists()
    assert (project / "macros/firn/firn_incremental.sql").exists()
    fields.append({"name": "celsius", "type": "double"})
    changed = generate(project)
    assert states(changed) == {"changed", "unchanged"}
    assert "+    records.record_content:celsius::float as celsius" in changed.stderr


def test_overrides_are_found_in_the_project_or_named(project: Path, fields: list[dict[str, Any]]) -> None:
    (project / "firn").mkdir()
    (project / "firn/readings.yml").write_text("fields: {id: {name: reading_id}}")
    generate(project)
    staging = project / "models/firn/readings/stg_readings.sql"
    assert "as reading_id" in staging.read_text()
    other = project / "other.yml"
    other.write_text("fields: {id: {type: timestamp_millis}}")
    generate(project, "--overrides", str(other))
    assert "to_timestamp_ntz(records.record_content:id::number(38, 0), 3) as id" in staging.read_text()


def test_an_edited_file_stops_it_before_it_writes_anything(project: Path, fields: list[dict[str, Any]]) -> None:
    generate(project)
    folder = project / "models/firn/readings"
    edited, other = folder / "fct_readings.sql", folder / "stg_readings.sql"
    edited.write_text(edited.read_text() + "-- mine\n")
    before = other.read_text()
    fields.append({"name": "celsius", "type": "double"})

    result = generate(project)

    assert isinstance(result.exception, TerminalError)
    assert str(edited) in str(result.exception)
    assert "-- mine" in result.stderr
    assert other.read_text() == before


def test_check_writes_nothing_and_fails_where_something_would_change(
    project: Path, fields: list[dict[str, Any]]
) -> None:
    result = generate(project, "--check")
    assert isinstance(result.exception, TerminalError)
    assert not (project / "models").exists()
    generate(project)
    assert generate(project, "--check").exit_code == 0


def test_a_folder_that_is_no_project_is_an_error(tmp_path: Path) -> None:
    assert isinstance(generate(tmp_path).exception, ConfigError)
