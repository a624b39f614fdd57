"""`firn sink clean --connector`: what the official connector left is shown, and removed after a question; no more."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from firn.operations.validation.live_check import LiveCheck
from firn.settings import Settings
from firn.snowflake.connection import connect
from spark_jobs.sink.validation import check_snowflake
from tests.support.leftovers import LeftSink
from tests.support.sinks import login_of, sql

pytestmark = pytest.mark.stack
BEFORE = "SNOWFLAKE_KAFKA_CONNECTOR_"


def objects(settings: Settings, kind: str, connector: str) -> list[str]:
    rows = sql(settings, f"SHOW {kind}S LIKE '{BEFORE}{connector}%'")
    return sorted(str(row["name"]) for row in rows)


@pytest.fixture
def left(settings: Settings, tmp_path: Path) -> Iterator[LeftSink]:
    """Of a connector, and of others whose names begin alike."""
    with connect(login_of(settings)) as connection:
        sink = LeftSink(settings, f"old{uuid.uuid4().hex[:8]}", "no-topic", tmp_path, connection)
        table, start = f"T_{sink.name.upper()}", f"{BEFORE}{sink.name}"
        sql(settings, f"CREATE TABLE {table} (A VARIANT, B VARIANT)")
        copy = f"COPY INTO {table} FROM (SELECT $1, $2 FROM TABLE(DATA_SOURCE(TYPE => 'STREAMING')))"
        for stage in (f"{start}_STAGE_{table}", f"{start}_STAGE_{table}2", f"{start}B_STAGE_{table}"):
            sql(settings, f'CREATE STAGE "{stage}"')
        for pipe in (f"{start}_PIPE_{table}_0", f"{start}_PIPE_{table}_11", f"{start}_PIPE_{table}_X_1"):
            sql(settings, f'CREATE PIPE "{pipe}" AS {copy}')
        yield sink


def test_they_are_shown_and_removed_and_others_stay(stack, left: LeftSink, tmp_path: Path) -> None:
    table, start = f"T_{left.name.upper()}", f"{BEFORE}{left.name}"
    own = [f"{start}_PIPE_{table}_0", f"{start}_PIPE_{table}_11", f"{start}_STAGE_{table}"]
    login = login_of(left.settings)

    def warnings() -> list[LiveCheck]:
        checks = check_snowflake(left.settings, left.config, login, ["no-topic"])
        return [each for each in checks if each.subject == "replaced connector"]

    (warning,) = warnings()
    assert warning.state == "warning"
    assert all(name in warning.found for name in own)
    assert "--connector" in warning.next_step
    shown = stack.run("sink", "clean", left.file(tmp_path), "--connector", "--dry-run", "--json")
    rows = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [row["name"].split(".")[-1].strip('"') for row in rows] == own
    refused = stack.run("sink", "clean", left.file(tmp_path), "--connector", check=False)
    assert refused.returncode == 3
    assert len(objects(left.settings, "PIPE", left.name)) == 3
    stack.run("sink", "clean", left.file(tmp_path), "--connector", typed=f"{left.name}\n")
    assert objects(left.settings, "PIPE", left.name) == [f"{start}_PIPE_{table}_X_1"]
    assert objects(left.settings, "STAGE", left.name) == [f"{start}B_STAGE_{table}", f"{start}_STAGE_{table}2"]
    again = stack.run("sink", "clean", left.file(tmp_path), "--connector", "--yes")
    assert "left no stage and no pipe" in again.stderr
    assert warnings() == []
