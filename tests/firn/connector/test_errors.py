"""What a connector file says about records that cannot be converted, and about Firn's own parameters."""

from __future__ import annotations

import pytest

from firn.connector.config import ErrorsConfig, MetricsConfig, SinkConfig
from firn.connector.outcome import CheckedConfig
from firn.connector.parse import check_sink_config, parse_sink_config
from tests.support.connectors import MINIMAL

TOPIC = "errors.deadletterqueue.topic.name"
REPLICAS = "errors.deadletterqueue.topic.replication.factor"
HEADERS = "errors.deadletterqueue.context.headers.enable"
TOLERANT = {"errors.tolerance": "all"}


def checked(**more: str) -> CheckedConfig:
    return check_sink_config(MINIMAL | more, where="x")


def faults(**more: str) -> dict[str, str]:
    return {fault.name: str(fault) for fault in checked(**more).faults}


def warned(**more: str) -> dict[str, str]:
    return {each.name: each.reason for each in checked(**more).warnings}


def config(**more: str) -> SinkConfig:
    return parse_sink_config(MINIMAL | more, where="x")


def test_everything_about_errors_takes_effect() -> None:
    given = {
        **{"errors.tolerance": "ALL", TOPIC: "dlq-${connector}", REPLICAS: "-1", HEADERS: "true"},
        **{"errors.log.enable": "true", "errors.log.include.messages": "true"},
    }
    found = checked(**given)
    assert (found.faults, found.warnings) == ((), ())
    assert config(**given).errors == ErrorsConfig("all", True, True, "dlq-orders", -1, True)
    assert {line.effect for line in found.effective if line.name.startswith("errors.")} == {"honoured"}


def test_without_a_word_about_errors_a_sink_stops_as_connect_does() -> None:
    assert config().errors == ErrorsConfig("none", False, False, None, 3, False)
    shown = {line.name: line.value_shown for line in checked().effective}
    assert shown["errors.tolerance"] == "none"


def test_tolerance_needs_no_dead_letter_topic() -> None:
    assert (faults(**TOLERANT), warned(**TOLERANT)) == ({}, {})
    assert config(**TOLERANT).errors.dead_letter_topic is None


def test_dead_letters_without_tolerance_have_no_effect() -> None:
    found = warned(**{TOPIC: "dlq", REPLICAS: "1", HEADERS: "true"})
    assert found.keys() == {TOPIC, REPLICAS, HEADERS}
    assert all("has no effect without errors.tolerance=all" in reason for reason in found.values())


def test_options_of_what_is_not_there_have_no_effect() -> None:
    assert TOPIC in warned(**TOLERANT, **{HEADERS: "true"})[HEADERS]
    assert "errors.log.enable=true" in warned(**{"errors.log.include.messages": "true"})["errors.log.include.messages"]


@pytest.mark.parametrize("tolerance", ["none", "all"])
@pytest.mark.parametrize(
    ("source", "topic", "problem"),
    [
        ({}, "order-events", "is one of the sink's own topics"),
        ({"topics": "a, dlq-orders ,b"}, "dlq-${connector}", "is one of the sink's own topics"),
        ({"topics": "", "topics.regex": ".*orders"}, "dlq-${connector}", "is matched by topics.regex"),
    ],
)
def test_a_sink_never_reads_its_own_dead_letters(
    source: dict[str, str], topic: str, problem: str, tolerance: str
) -> None:
    assert problem in faults(**source, **{TOPIC: topic, "errors.tolerance": tolerance})[TOPIC]


def test_an_expression_counts_for_the_whole_name_only() -> None:
    source = {"topics": "", "topics.regex": "orders"}
    assert faults(**source, **TOLERANT, **{TOPIC: "dlq-${connector}"}) == {}


@pytest.mark.parametrize("topic", ["a b", "dlq/orders", "dlq-${name}", "x" * 250, ".", ".."])
def test_names_that_kafka_does_not_allow(topic: str) -> None:
    assert "names a topic" in faults(**TOLERANT, **{TOPIC: topic})[TOPIC]


@pytest.mark.parametrize("name", ["orders$1", "o" * 247])
def test_names_that_the_sinks_name_makes_invalid(name: str) -> None:
    found = faults(**TOLERANT, **{"name": name, TOPIC: "dlq-${connector}"})
    assert "with the sink's name in it" in found[TOPIC]


def test_a_topic_has_a_replica_at_least() -> None:
    assert "without replicas" in faults(**TOLERANT, **{TOPIC: "dlq", REPLICAS: "0"})[REPLICAS]
    assert "below the minimum" in faults(**TOLERANT, **{TOPIC: "dlq", REPLICAS: "-2"})[REPLICAS]


def test_heartbeats_can_be_seldom_and_switched_off() -> None:
    name = "firn.heartbeat.seconds"
    assert config().heartbeat_seconds == 30
    assert config(**{name: "2.5"}).heartbeat_seconds == 2.5
    assert config(**{name: "0"}).heartbeat_seconds == 0
    assert "(allowed: 1 or more, or 0)" in faults(**{name: "0.5"})[name]
    assert "not a number of seconds" in faults(**{name: "-1"})[name]


def test_a_target_is_shared_only_if_the_file_says_so() -> None:
    assert not config().share_target
    assert config(**{"firn.share.target": "true"}).share_target
    assert faults(**{"firn.share.target": "yes"})


def test_metrics_are_off_until_a_port_is_named_and_stay_on_the_machine() -> None:
    port, host = "firn.metrics.port", "firn.metrics.host"
    assert config().metrics == MetricsConfig(0, "127.0.0.1")
    assert config(**{port: "9464", host: "0.0.0.0"}).metrics == MetricsConfig(9464, "0.0.0.0")
    assert warned(**{host: "::1"}) == {host: "has no effect without firn.metrics.port."}
    assert warned(**{host: "::1", port: "9464"}) == {}
    assert faults(**{port: "65536", host: "http://here"}).keys() == {port, host}


@pytest.mark.parametrize("prefix", ["consumer.override.", "kafka."])
def test_a_group_is_kept_for_publishing_positions(prefix: str) -> None:
    given = {f"{prefix}group.id": "lag-of-orders"}
    assert warned(**given) == {}
    assert {each.name: each.value.get_secret_value() for each in config(**given).kafka} == {"group.id": "lag-of-orders"}


@pytest.mark.parametrize(
    ("group", "problem"), [("", "empty"), ("firn-dlq-orders", "sinks remember"), ("firn-sign-x", "sinks remember")]
)
def test_groups_that_cannot_be_published_under(group: str, problem: str) -> None:
    assert problem in faults(**{"consumer.override.group.id": group})["consumer.override.group.id"]
