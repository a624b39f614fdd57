"""The official connector's own checks and defaults: the same configurations pass, the same parameters are at fault."""

from __future__ import annotations

import re
from typing import Any

import pytest

from firn.connector.parameters import PARAMETERS
from firn.connector.parse import check_sink_config
from tests.support.connectors import private_key
from tests.support.vectors import vectors

VECTORS = vectors("config_validation")
AT_START = VECTORS["DefaultConnectorConfigValidator.validateConfig"]
VALIDATED = VECTORS["SnowflakeSinkConnector.validate"]

MAP, KEY = "snowflake.topic2table.map", "snowflake.private.key"
NO_DEFAULTS = "this class runs after defaults were put in: the running connector has them too"
ONLY_KEY = "the official check stops at the first faulty group; Firn lists all faults at once"
# case: (parameters that only the official connector names, those that only Firn names, why)
DIFFERENCES: dict[str, tuple[set[str], set[str], str]] = {
    "empty": (
        {
            *("snowflake.url.name", "snowflake.user.name", KEY, "snowflake.database.name", "snowflake.schema.name"),
            *("buffer.count.records", "buffer.flush.time", "buffer.size.bytes"),
        },
        {"topics"},
        "login, database and schema come from settings and secrets, buffers have defaults; topics are Connect's check",
    ),
    "size_missing": ({"buffer.size.bytes"}, set(), NO_DEFAULTS),
    "count_missing": ({"buffer.count.records"}, set(), NO_DEFAULTS),
    "topic2table_dup": (set(), {MAP}, "officially an exception without a parameter"),
    "topic2table_overlap": (set(), {MAP}, "officially an exception without a parameter"),
    "iceberg_with_snowpipe": (set(), {"snowflake.streaming.iceberg.enabled"}, "officially a NullPointerException"),
    "streaming_iceberg_no_schematization": (
        set(),
        {"snowflake.streaming.iceberg.enabled"},
        "Firn writes to standard tables only",
    ),
    "streaming_schematization_string_converter": (
        {"org.apache.kafka.connect.storage.StringConverter"},
        {"value.converter"},
        "officially the fault is filed under the value",
    ),
    "schematization_with_snowpipe": (
        {"snowflake.enable.schematization"},
        set(),
        "typed columns do not depend on the method",
    ),
    "streaming_log_enable_bad": (
        {"snowflake.ingestion.method"},
        {"errors.log.enable"},
        "officially the fault is filed under another parameter",
    ),
    "oauth_missing": (set(), {"snowflake.authenticator"}, "Firn logs in with a key pair only"),
    "validate: many_wrong": (set(), {"name"}, "validate() does not look at the name; the start does"),
    "validate: topic2table_bad_table": (set(), {MAP, KEY}, "officially an exception without a parameter"),
    **{
        f"validate: {case}": (set(), {KEY}, ONLY_KEY)
        for case in (
            *("topic2table_bad_format", "ingestion_method_bad", "behavior_bad", "streaming_errors_tolerance_bad"),
            "url_bad",
        )
    },
    "validate: oauth_missing": (
        set(),
        {"snowflake.authenticator", "snowflake.oauth.client.secret", "snowflake.oauth.refresh.token", KEY},
        ONLY_KEY,
    ),
}
# Secret here: one is a token, the others hold any property of a driver, a password too.
MASKED = {"snowflake.oauth.refresh.token", "snowflake.jdbc.map", "snowflake.streaming.client.provider.override.map"}
DEFAULT_DIFFERENCES = {
    "snowflake.private.key": "[hidden]: it has none",
    "snowflake.streaming.max.client.lag": "1: rows are visible sooner, and requests cost nothing by themselves",
}


@pytest.mark.parametrize("vector", AT_START, ids=lambda vector: vector["case"])
def test_the_start_of_the_official_connector_finds_the_same_faults(vector: dict[str, Any]) -> None:
    # This official check does not look at the key, for which the vectors have the word KEY.
    config = {name: private_key() if value == "KEY" else value for name, value in vector["config"].items()}
    official = set(re.findall(r"Config value '([^']+)'", vector.get("error", "")))
    compare(vector["case"], official, config)


@pytest.mark.parametrize("vector", VALIDATED, ids=lambda vector: vector["case"])
def test_the_official_validation_finds_the_same_faults(vector: dict[str, Any]) -> None:
    compare(f"validate: {vector['case']}", set(vector.get("error_messages", {})), vector["config"])


def compare(case: str, official: set[str], config: dict[str, str]) -> None:
    checked = check_sink_config(config, where="vector")
    missing, added, _ = DIFFERENCES.get(case, (set(), set(), ""))
    assert {fault.name for fault in checked.faults} == official - missing | added
    assert (checked.config is None) == bool(official - missing | added)


def test_a_flush_time_below_the_minimum_is_raised_with_a_warning() -> None:
    flush_time_9 = next(vector for vector in VALIDATED if vector["case"] == "flush_time_9")
    checked = check_sink_config(flush_time_9["config"] | {KEY: private_key()}, where="vector")
    assert checked.config is not None
    assert checked.config.buffer.seconds == 10
    assert "raised to 10 s" in str(next(w for w in checked.warnings if w.name == "buffer.flush.time"))


@pytest.mark.parametrize("official", VECTORS["config_defaults"], ids=lambda official: official["name"])
def test_every_official_parameter_is_known_with_its_default(official: dict[str, Any]) -> None:
    parameter = PARAMETERS[official["name"]]
    if official["name"] not in DEFAULT_DIFFERENCES:
        assert (parameter.default or "").lower() == (official["default"] or "").lower()
    assert parameter.secret == (official["type"] == "PASSWORD" or official["name"] in MASKED)


@pytest.mark.parametrize("row", vectors("table_names")["with_map"], ids=lambda row: row["topic2table.map"])
def test_topic_maps_are_read_as_officially(row: dict[str, Any]) -> None:
    config = {"name": "s", "topics": "t", MAP: row["topic2table.map"]}
    checked = check_sink_config(config, where="vector")
    qualified = "." in row["topic2table.map"].partition(":")[2]  # a sink has one schema: such a table is refused
    if "parsed" in row and not qualified:
        assert checked.config is not None
        assert dict(checked.config.table_map) == row["parsed"]
    else:
        assert [fault.name for fault in checked.faults] == [MAP]
