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


def test_two_names_must_be_one(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text(json.dumps({"name": "orders", "config": {"name": "orders", "topics": "a"}}))
    assert read_connector_file(file) == {"name": "orders", "topics": "a"}
    file.write_text(json.dumps({"name": "outer", "config": {"name": "inner"}}))
    with pytest.raises(ConfigError, match="names the sink twice: 'outer' and 'inner'"):
        read_connector_file(file)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.json", '{"name": "s", "topics": "a", "topics": "b"}'),
        ("a.json", '{"name": "s", "config": {"topics": "a", "topics": "a"}}'),
        ("a.properties", "name=s\ntopics=a\ntopic\\u0073: b\n"),
    ],
)
def test_a_parameter_that_is_given_twice_is_named(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match="gives topics twice"):
        read_connector_file(tmp_path / name)


@pytest.mark.parametrize(("name", "text"), [("a.json", '{"name": "s"}'), ("a.properties", "name=s")])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8-sig")
    assert read_connector_file(tmp_path / name) == {"name": "s"}


def test_numbers_are_texts_of_any_length(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"a": 1.50, "b": 1e400, "c": ' + "7" * 5000 + "}")
    assert read_connector_file(file) == {"a": "1.50", "b": "1e400", "c": "7" * 5000}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "{", "not JSON"),
        ("a.json", "[" * 100_000, "not JSON"),
        ("a.json", "[]", "no connector configuration"),
        ("a.json", '{"name": {"a": 1}}', "Not a single value: name"),
        ("a.json", '{"x\\ud800": null}', r"Not a single value: 'x.ud800'"),
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
