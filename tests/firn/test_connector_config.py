"""What a team sees when it hands its connector file to Firn."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from firn.connector_config import load_sink_config, parse_sink_config
from firn.errors import ConfigError

MINIMAL = {"name": "orders", "topics": "order-events"}


def test_the_example_configuration_maps_order_events() -> None:
    config = load_sink_config(Path("connectors/order-events.json"))
    assert config.topics == ("order-events",)
    assert config.table_map == (("order-events", "ORDER_EVENTS"),)
    assert (config.file_records, config.flush_seconds) == (10_000, 60)


def test_all_faults_are_reported_at_once() -> None:
    raw = {
        "name": "has.dot",
        "topicz": "a",
        "buffer.count.records": "many",
        "buffer.flush.time": "0",
        "snowflake.topic2table.map": "a:1bad",
        "snowflake.ingestion.method": "CARRIER_PIGEON",
    }
    with pytest.raises(ConfigError) as raised:
        parse_sink_config(raw, where="x.json")
    text = str(raised.value)
    assert "6 faults" not in text
    for part in (
        "7 faults",
        "name: 'has.dot'",
        "topicz: is not a known parameter; did you mean topics?",
        "buffer.count.records: 'many' is not a whole number",
        "buffer.flush.time: '0' is below the minimum 1",
        "'a:1bad' is not <topic>:<table>",
        "must be one of SNOWPIPE",
        "exactly one of the two must be given",
        "x.json",
    ):
        assert part in text, part


def test_a_private_key_is_never_shown() -> None:
    config = parse_sink_config({**MINIMAL, "snowflake.private.key": "MIIsecret"}, where="x")
    assert "MIIsecret" not in repr(config)
    with pytest.raises(ConfigError) as raised:
        parse_sink_config({**MINIMAL, "snowflake.private.key": " ", "x": "y"}, where="x")
    assert "(hidden) is empty" in str(raised.value)


def test_properties_and_flat_json_mean_the_same(tmp_path: Path) -> None:
    properties = tmp_path / "sink.properties"
    properties.write_text("# a sink\nname = orders\ntopics: order-events, \\\n  payments\ntasks.max=2\n")
    flat = tmp_path / "sink.json"
    flat.write_text(json.dumps({"name": "orders", "topics": "order-events,payments", "tasks.max": 2}))
    assert load_sink_config(properties) == load_sink_config(flat)
    assert load_sink_config(flat).topics == ("order-events", "payments")


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "not JSON"), ("[]", "no connector configuration"), ('{"name": {"a": 1}}', "Not a single value: name")],
)
def test_a_file_that_is_no_configuration_says_so(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "sink.json"
    file.write_text(text)
    with pytest.raises(ConfigError, match=said):
        load_sink_config(file)


def test_an_absent_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.json"):
        load_sink_config(Path("nowhere.json"))
