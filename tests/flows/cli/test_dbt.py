"""`firn dbt`: what it starts, with which login, schema and target. What dbt then does: tests/firn/dbt/test_shell.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from typer.testing import CliRunner

from firn.secrets import SnowflakeSecret
from firn_local.admin import new_private_key
from flows.cli import app
from flows.cli.dbt import own_schema


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[list[str], dict[str, str]]]:
    """Arguments and environment of each process that took the place of `firn`."""
    secret = SnowflakeSecret(account="a", user="ANNA", role="R", private_key=SecretStr(new_private_key()))
    calls: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setenv("FIRN_HOME", str(tmp_path))
    monkeypatch.setattr("firn.snowflake.logins.read_secret", lambda *_: secret)
    monkeypatch.setattr("os.execve", lambda _path, arguments, env: calls.append((arguments, env)))
    return calls


def firn(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["dbt", *arguments])


def test_what_follows_the_options_is_dbts(started: list[Any]) -> None:
    given = [
        "build",
        "--select",
        "state:modified+,tag:a",
        "--exclude",
        "x",
        "--vars",
        json.dumps({"a": 1}),
        "-f",
        "--help",
    ]
    assert firn(*given).exit_code == 0
    ((arguments, env),) = started
    assert arguments[1:] == ["-m", "firn.dbt.shell", *given]
    assert (env["FIRN_DBT_USER"], env["FIRN_DBT_SCHEMA"]) == ("ANNA", "PUBLIC")
    key = env["DBT_ENV_SECRET_FIRN_PRIVATE_KEY"]
    assert not any(key in argument for argument in arguments)


def test_a_schema_of_ones_own_leaves_the_sources_where_they_are(started: list[Any], monkeypatch: Any) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "anna.b-c")
    for options, schema in (["--dev"], "DEV_ANNA_B_C"), (["--schema", "TRY"], "TRY"):
        assert firn(*options, "run").exit_code == 0
        env = started.pop()[1]
        assert (env["FIRN_DBT_SCHEMA"], env["FIRN_DBT_SOURCE_SCHEMA"]) == (schema, "PUBLIC")
    assert firn("--dev", "--schema", "TRY", "run").exit_code == 2
    assert not started
    assert own_schema("x") == "DEV_X"


def test_a_folder_that_is_no_project_is_refused(started: list[Any], tmp_path: Path) -> None:
    assert "no dbt project" in str(firn("--project-dir", str(tmp_path), "run").exception)
    assert not started
