"""An export's configuration: the official names, several sources, and every fault at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.connector.export.config import Envelope, MessageFormat, QualityCheck, SourceKind
from firn.connector.export.parse import check_export_config, load_export_config
from firn.errors import ConfigError

STREAM = {"name": "order-status", "snowflake.stream.name": "ORDERS_CHANGES", "kafka.topic": "order-status"}


def parsed(**more: str):
    return check_export_config(STREAM | more, where="test").require()


def faults(raw: dict[str, str]) -> list[str]:
    return [fault.name for fault in check_export_config(raw, where="test").faults]


def test_a_stream_and_a_topic_are_enough_and_the_defaults_are_those_of_the_document() -> None:
    config = parsed()
    (source,) = config.sources
    assert (source.name, source.kind, source.names) == ("order-status", SourceKind.STREAM, ("ORDERS_CHANGES",))
    assert (config.poll.seconds, config.batch.rows, config.retries) == (60, 1000, 3)
    assert (config.value.format, config.key.format) == (MessageFormat.AVRO, MessageFormat.STRING)
    assert (config.envelope, config.tombstones, config.task) == (Envelope.ROW, True, None)


def test_the_configuration_of_the_managed_source_connector_is_taken_as_it_is() -> None:
    """The seed's example; its table name names a stream, which Snowflake says."""
    config = check_export_config(
        {
            "name": "snowflake-source-connector",
            "connector.class": "io.confluent.connect.snowflake.SnowflakeSourceConnector",
            "snowflake.url.name": "your-account.eu-west-2.snowflakecomputing.com",
            "snowflake.user.name": "YOUR_USER",
            "snowflake.database.name": "YOUR_DATABASE",
            "snowflake.schema.name": "YOUR_SCHEMA",
            "snowflake.table.name": "MY_TABLE_STREAM",
            "kafka.topic": "snowflake-stream-topic",
            "tasks.max": "1",
        },
        where="test",
    ).require()
    assert config.sources[0].names == ("MY_TABLE_STREAM",)
    assert (config.sources[0].topic, config.tasks_max) == ("snowflake-stream-topic", 1)


@pytest.mark.parametrize(
    ("parameters", "kind"),
    [
        ({"snowflake.table.name": "ORDERS"}, SourceKind.TABLES),
        ({"table.whitelist": r"PUBLIC\.ORD.*"}, SourceKind.TABLES),
        ({"snowflake.table.name": "T", "incrementing.column.name": "ID"}, SourceKind.CURSOR),
        ({"snowflake.table.name": "T", "mode": "timestamp", "timestamp.column.name": "AT"}, SourceKind.CURSOR),
        ({"snowflake.stream.name": "S", "query": "SELECT * FROM S WHERE A > 1"}, SourceKind.QUERY),
        ({"query": "SELECT A FROM T", "message.key.columns": "A", "snowflake.table.name": "T"}, SourceKind.COMPARED),
        ({"snowflake.table.name": "T", "mode": "compare", "message.key.columns": "A"}, SourceKind.COMPARED),
    ],
)
def test_what_is_given_says_how_changes_are_found(parameters: dict[str, str], kind: SourceKind) -> None:
    config = check_export_config({"name": "e", "kafka.topic": "t", **parameters}, where="test").require()
    assert config.sources[0].kind is kind


def test_timestamp_and_incrementing_columns_order_one_after_the_other() -> None:
    config = check_export_config(
        {
            "name": "e",
            "topic.prefix": "sf-",
            "snowflake.table.name": "T",
            "mode": "timestamp+incrementing",
            "timestamp.column.name": "CHANGED",
            "incrementing.column.name": '"Id"',
        },
        where="test",
    ).require()
    assert config.sources[0].cursor_columns == ("CHANGED", '"Id"')
    assert config.sources[0].topic == "sf-{table}"


def test_several_sources_have_parameters_of_their_own_and_share_those_that_stand_alone() -> None:
    config = check_export_config(
        {
            "name": "e",
            "kafka.topic": "{table}",
            "firn.export.sources": "orders,customers",
            "firn.export.sources.orders.snowflake.stream.name": "ORDERS_CHANGES",
            "firn.export.sources.orders.checks": "positive",
            "firn.export.sources.orders.firn.export.checks.positive.expression": "AMOUNT > 0",
            "firn.export.sources.orders.checks.positive.action": "warn",
            "firn.export.sources.customers.table.include.list": r"PUBLIC\.CUST.*",
            "firn.export.sources.customers.kafka.topic": "customers",
            "firn.export.sources.customers.message.key.columns": r"PUBLIC\.CUSTOMERS:ID;PUBLIC\.CUST_X:A,B",
        },
        where="test",
    ).require()
    orders, customers = config.sources
    assert (orders.kind, orders.topic) == (SourceKind.STREAM, "{table}")
    assert orders.checks == (QualityCheck("positive", "AMOUNT > 0", "warn"),)
    assert (customers.kind, customers.topic) == (SourceKind.TABLES, "customers")
    assert customers.keys == ((r"PUBLIC\.CUSTOMERS", ("ID",)), (r"PUBLIC\.CUST_X", ("A", "B")))


def test_all_mistakes_are_listed_at_once_with_the_nearest_names() -> None:
    raw = {
        "name": "e",
        "mode": "bulk",
        "snowflake.tabel.name": "T",
        "poll.interval.ms": "soon",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "query": "DELETE FROM T; SELECT 1",
        "firn.export.mask.hash": "EMAIL",
        "firn.export.poll.shortest.ms": "5000",
        "firn.export.poll.longest.ms": "1000",
        "errors.tolerance": "all",
        "kafka.bootstrap.server": "b:9092",
        "transforms": "x",
    }
    checked = check_export_config(raw, where="test")
    found = {fault.name: fault for fault in checked.faults}
    assert {*raw} - {"name", "firn.export.mask.hash", "firn.export.poll.longest.ms", "errors.tolerance"} <= found.keys()
    assert {"kafka.topic", "firn.export.mask.salt", "errors.deadletterqueue.topic.name"} <= found.keys()
    assert found["snowflake.tabel.name"].nearest == "snowflake.table.name"
    assert found["kafka.bootstrap.server"].nearest == "kafka.bootstrap.servers"
    with pytest.raises(ConfigError, match=r"The export's configuration has 1[0-9] faults") as raised:
        checked.require()
    assert "docs/configuration-export.md" in raised.value.next_step


def test_a_secret_is_shown_nowhere() -> None:
    checked = check_export_config(
        STREAM
        | {
            "firn.export.mask.hash": "EMAIL",
            "firn.export.mask.salt": "pepper",
            "kafka.sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" '
            'password="hunter2";',
        },
        where="test",
    )
    text = f"{checked} {checked.config}"
    assert "pepper" not in text
    assert "hunter2" not in text


def test_properties_of_the_producer_win_and_what_transactions_decide_has_no_effect() -> None:
    checked = check_export_config(
        STREAM
        | {
            "kafka.client.id": "a",
            "producer.override.client.id": "b",
            "producer.override.linger.ms": "5",
            "topic.creation.default.retention.ms": "1000",
            "value.converter": "JsonConverter",
            "key.converter": "JsonConverter",
            "key.converter.schemas.enable": "false",
        },
        where="test",
    )
    config = checked.require()
    assert [(each.name, each.value.get_secret_value()) for each in config.kafka] == [("client.id", "b")]
    assert [warned.name for warned in checked.warnings] == ["producer.override.linger.ms"]
    assert config.topics.options == (("retention.ms", "1000"),)
    assert (config.value.format, config.key.format) == (MessageFormat.JSON_ENVELOPE, MessageFormat.JSON)


def test_a_file_is_read_as_a_sink_s_is(tmp_path: Path) -> None:
    file = tmp_path / "e.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in STREAM.items()))
    assert load_export_config(file).name == "order-status"
    with pytest.raises(ConfigError, match="The export's configuration cannot be read"):
        load_export_config(tmp_path / "absent.json")
