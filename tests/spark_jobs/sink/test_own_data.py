"""A topic of one's own, from a CSV file to a table, without a line of code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import run_here

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("sinks_here")]

SCHEMA = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "sensor", "type": "string"},
        {"name": "celsius", "type": ["null", "double"], "default": None},
        {"name": "taken_at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
CSV = """sensor,celsius,taken_at,note
s1,21.5,2026-01-01T00:00:00Z,first
s2,,2026-01-01T00:00:01Z,
s3,-4,1767225602000,Zoë
"""


def test_a_csv_with_nullable_columns_lands(stack, tmp_path: Path) -> None:
    data, schema, sink = tmp_path / "readings.csv", tmp_path / "reading.avsc", tmp_path / "readings.properties"
    data.write_text(CSV)
    schema.write_text(json.dumps(SCHEMA))
    sink.write_text("name=readings\ntopics=readings\nsnowflake.topic2table.map=readings:READINGS\n")
    run_here(stack.home, "produce", "--from-file", data, "--schema", schema, "--topic", "readings", "--key", "sensor")
    shown = run_here(stack.home, "sink", "run", sink, "--once")
    assert "READINGS" in shown.stdout
    statement = "SELECT RECORD_METADATA:key::STRING AS K, RECORD_CONTENT FROM READINGS ORDER BY 1"
    rows = [json.loads(line) for line in run_here(stack.home, "sql", statement, "--json").stdout.splitlines()]
    assert [row["K"] for row in rows] == ["s1", "s2", "s3"]
    assert rows[1]["RECORD_CONTENT"] == {"sensor": "s2", "celsius": None, "taken_at": 1767225601000, "note": None}
    assert rows[2]["RECORD_CONTENT"] == {"sensor": "s3", "celsius": -4.0, "taken_at": 1767225602000, "note": "Zoë"}
