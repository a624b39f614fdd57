"""Connector files: JSON, nested and flat, and .properties say the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firn.connector.file import read_connector_file
from firn.connector.parse import load_sink_config
from firn.errors import ConfigError


def test_properties_and_json_mean_the_same(tmp_path: Path) -> None:
    properties, flat, nested = (tmp_path / name for name in ("a.properties", "a.json", "b.json"))
    properties.write_text(
        "# a sink\n! another remark\nname = orders\ntopics: order-events, \\\n  payments\ntasks.max=2\n"
        "auto.create.tables true\nsnowflake.user.name=\\u0041nna\n"
    )
    config = {
        "topics": "order-events,payments",
        "tasks.max": 2,
        "auto.create.tables": True,
        "snowflake.user.name": "Anna",
    }
    flat.write_text(json.dumps({"name": "orders", **config}))
    nested.write_text(json.dumps({"name": "orders", "config": config}))
    assert load_sink_config(properties) == load_sink_config(flat) == load_sink_config(nested)
    assert load_sink_config(flat).topics == ("order-events", "payments")


def test_the_outer_name_wins(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"name": "outer", "config": {"name": "inner"}}))
    assert read_connector_file(file) == {"name": "outer"}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "{", "not JSON"),
        ("a.json", "[" * 100_000, "not JSON"),
        ("a.json", "[]", "no connector configuration"),
        ("a.json", '{"name": {"a": 1}}', "Not a single value: name"),
        ("a.json", '{"name": "a", "config": {"topics": null}}', "Not a single value: topics"),
        ("a.properties", "name = \\u12", "not a .properties file"),
    ],
)
def test_a_file_that_is_no_configuration_says_so(tmp_path: Path, name: str, text: str, said: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        load_sink_config(file)


def test_an_absent_or_binary_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.json"):
        load_sink_config(Path("nowhere.json"))
    (tmp_path / "a.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_sink_config(tmp_path / "a.json")
