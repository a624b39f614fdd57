"""What a team sees when it hands its connector file to Firn: all faults at once, warnings, effective values."""

from __future__ import annotations

from pathlib import Path

import pytest

from firn.connector.config import BufferConfig, MetadataConfig, Method, TableConfig
from firn.connector.parse import check_sink_config, load_sink_config, parse_sink_config
from firn.errors import ConfigError
from firn.kafka.properties import KafkaProperty
from firn.proxy import ProxyConfig
from firn.snowflake.columns import TableType
from tests.support.connectors import MINIMAL, private_key


def faults(**parameters: str) -> dict[str, str]:
    """The faults of the smallest configuration with these parameters, by name; `_` stands for a dot."""
    raw = MINIMAL | {name.replace("_", "."): value for name, value in parameters.items()}
    return {fault.name: str(fault) for fault in check_sink_config(raw, where="x").faults}


def warnings(raw: dict[str, str]) -> dict[str, str]:
    return {warned.name: warned.reason for warned in check_sink_config(MINIMAL | raw, where="x").warnings}


def test_the_example_configuration_maps_order_events() -> None:
    config = load_sink_config(Path("connectors/order-events.json"))
    assert config.topics == ("order-events",)
    assert config.table_map == (("order-events", "ORDER_EVENTS"),)
    assert (config.method, config.buffer) == (Method.SNOWPIPE_STREAMING, BufferConfig(10_000, 60, 20_000_000))
    assert (config.tasks_max, config.snowflake.database) == (3, "STREAMING")


TEN_MISTAKES = {
    "name": "has.dot",
    "topicz": "a",
    "buffer.count.record": "10",
    "buffer.size.bytes": "many",
    "snowflake.topic2table.map": "a:1bad",
    "snowflake.ingestion.method": "CARRIER_PIGEON",
    "value.converter": "io.confluent.connect.avro.AvroConvertor",
    "jvm.proxy.host": "proxy",
    "consumer.override.auto.offset.reset": "none",
    "snowflake.private.kye": "MIIsecret",
}


def test_ten_mistakes_are_listed_at_once_with_the_nearest_names() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_sink_config(TEN_MISTAKES, where="x.json")
    text = str(raised.value)
    for part in (
        "12 faults",
        "name: 'has.dot' must begin with a letter",
        "topicz: is not a known parameter; did you mean topics?",
        "buffer.count.record: is not a known parameter; did you mean buffer.count.records?",
        "buffer.size.bytes: 'many' is not a whole number (allowed: 1 or more)",
        "snowflake.topic2table.map: 'a:1bad' is not <topic>:<table>",
        "snowflake.ingestion.method: 'CARRIER_PIGEON' is not one of the allowed values "
        "(allowed: SNOWPIPE, SNOWPIPE_STREAMING)",
        "value.converter: 'io.confluent.connect.avro.AvroConvertor' is not a converter that Firn knows",
        "jvm.proxy.host: 'proxy' must be given together with jvm.proxy.port",
        "jvm.proxy.port: must be given together with jvm.proxy.host",
        "consumer.override.auto.offset.reset: 'none' would leave a new sink nowhere to begin "
        "(allowed: earliest, latest)",
        "snowflake.private.kye: is not a known parameter; did you mean snowflake.private.key?",
        "topics: is required, or topics.regex",
        "x.json",
    ):
        assert part in text, part
    assert "MIIsecret" not in text


def test_exactly_one_of_topics_and_their_expression() -> None:
    assert "exactly one" in faults(topics_regex="order-.*")["topics.regex"]
    config = parse_sink_config({"name": "orders", "topics.regex": "order-.*"}, where="x")
    assert (config.topics, config.topics_regex) == ((), "order-.*")
    with pytest.raises(ConfigError, match="is not a regular expression"):
        parse_sink_config({"name": "orders", "topics.regex": "("}, where="x")
    with pytest.raises(ConfigError, match="is not a regular expression"):
        parse_sink_config({"name": "orders", "topics.regex": "(" * 100_000}, where="x")


def test_buffers_have_the_defaults_of_their_method() -> None:
    streaming = {"snowflake.ingestion.method": "SNOWPIPE_STREAMING"}
    assert parse_sink_config(MINIMAL, where="x").buffer == BufferConfig(10_000, 120, 5_000_000)
    assert parse_sink_config(MINIMAL | streaming, where="x").buffer == BufferConfig(10_000, 10, 20_000_000)
    assert parse_sink_config(MINIMAL | streaming | {"buffer.flush.time": "1"}, where="x").buffer.seconds == 1
    assert parse_sink_config(MINIMAL | {"buffer.flush.time": "-5"}, where="x").buffer.seconds == 10


def test_the_class_of_the_v4_connector_implies_its_method() -> None:
    raw = MINIMAL | {
        "connector.class": "com.snowflake.kafka.connector.SnowflakeStreamingSinkConnector",
    }
    config = parse_sink_config(raw, where="x")
    assert config.method is Method.SNOWPIPE_STREAMING
    assert parse_sink_config(MINIMAL, where="x").method is Method.SNOWPIPE


def test_the_v4_connector_streams() -> None:
    v4 = {"connector_class": "SnowflakeStreamingSinkConnector"}
    assert (
        "contradicts connector.class"
        in faults(**v4, snowflake_ingestion_method="SNOWPIPE")["snowflake.ingestion.method"]
    )
    assert "snowflake.role.name" in faults(**v4, snowflake_user_name="U")
    both = faults(**v4, snowflake_ingestion_method="SNOWPIPE", snowflake_user_name="U")  # all faults at once
    assert both.keys() == {"snowflake.ingestion.method", "snowflake.role.name"}
    assert faults(**v4, snowflake_user_name="U", snowflake_role_name="R") == {}


def test_metadata_and_null_values() -> None:
    raw = {"snowflake.metadata.topic": "false", "snowflake.streaming.metadata.connectorPushTime": "FALSE"}
    config = parse_sink_config(MINIMAL | raw | {"behavior.on.null.values": "IGNORE"}, where="x")
    assert config.metadata == MetadataConfig(topic=False, push_time=False)
    assert config.null_values == "ignore"


def test_the_proxy() -> None:
    raw = {
        "jvm.proxy.host": "proxy.example",
        "jvm.proxy.port": "3128",
        "jvm.nonProxy.hosts": "*.internal|localhost",
        "jvm.proxy.username": "u",
        "jvm.proxy.password": "hunter2",
    }
    config = parse_sink_config(MINIMAL | raw, where="x")
    assert isinstance(config.proxy, ProxyConfig)
    assert (config.proxy.host, config.proxy.port, config.proxy.bypass) == (
        "proxy.example",
        3128,
        ("*.internal", "localhost"),
    )
    assert "hunter2" not in repr(config)
    assert "no proxy is named" in warnings({"jvm.nonProxy.hosts": "*.internal"})["jvm.nonProxy.hosts"]


def test_the_private_key_is_tried() -> None:
    refused = faults(snowflake_private_key="nonsense")["snowflake.private.key"]
    assert "cannot be used" in refused
    assert "into snowflake.private.key" in refused
    assert faults(snowflake_private_key=private_key()) == {}
    encrypted = {"snowflake_private_key": private_key("winter")}
    assert "no passphrase" in faults(**encrypted)["snowflake.private.key"]
    assert faults(**encrypted, snowflake_private_key_passphrase="winter") == {}
    assert "snowflake.private.key.passphrase" in faults(snowflake_private_key_passphrase="winter")


def test_an_address_needs_the_form_of_snowflakes() -> None:
    assert faults(snowflake_url_name="https://acc.eu-west-2.aws.snowflakecomputing.com:443") == {}
    assert "snowflake.url.name" in faults(snowflake_url_name="localhost:8080")


def test_parameters_without_effect_are_accepted_with_the_reason() -> None:
    found = warnings({"jmx": "true", "max.poll.records": "500", "snowflake.snowpipe.v2CleanerThreads": "2"})
    assert "no JVM of Connect" in found["jmx"]
    assert "firn.batch.records" in found["max.poll.records"]
    assert "removes its staged files" in found["snowflake.snowpipe.v2CleanerThreads"]
    assert "jmx" in faults(jmx="maybe")  # and they are checked all the same
    assert (
        "no effect with SNOWPIPE"
        in warnings({"snowflake.streaming.max.client.lag": "1"})["snowflake.streaming.max.client.lag"]
    )


def test_an_empty_text_is_absent_where_the_official_default_is_empty() -> None:
    assert faults(snowflake_topic2table_map="", jvm_proxy_host="", errors_deadletterqueue_topic_name="") == {}
    assert "is empty" in faults(snowflake_database_name=" ")["snowflake.database.name"]


def test_kafka_properties_are_judged_and_kept() -> None:
    raw = MINIMAL | {
        "kafka.bootstrap.servers": "a:9092",
        "consumer.override.bootstrap.servers": "b:9092",
        "consumer.override.max.poll.records": "10",
        "consumer.override.auto.offset.reset": "latest",
    }
    checked = check_sink_config(raw, where="x")
    assert checked.config is not None
    assert [(p.name, p.value.get_secret_value()) for p in checked.config.kafka] == [("bootstrap.servers", "b:9092")]
    assert checked.config.first_offset == "latest"
    assert [warned.name for warned in checked.warnings] == ["consumer.override.max.poll.records"]


def test_a_property_that_a_sink_cannot_follow_is_refused() -> None:
    found = faults(**{"kafka.key.deserializer": "X", "consumer.override.fetch.min.byte": "1"})
    assert "read as bytes" in found["kafka.key.deserializer"]
    assert "did you mean consumer.override.fetch.min.bytes?" in found["consumer.override.fetch.min.byte"]
    assert "not an integer" in faults(**{"kafka.fetch.max.bytes": "few"})["kafka.fetch.max.bytes"]


def test_a_jks_store_on_this_machine_is_a_fault_and_elsewhere_unknown(tmp_path: Path) -> None:
    store = tmp_path / "trust.jks"
    name = "kafka.ssl.truststore.location"
    assert faults(**{name: str(store)}) == {}
    store.write_bytes(b"\xfe\xed\xfe\xed" + bytes(20))
    assert f"keytool -importkeystore -srckeystore {store}" in faults(**{name: str(store)})[name]
    assert faults(**{name: str(store), "kafka.security.protocol": "SASL_PLAINTEXT"}) == {}


def test_a_token_login_waits_for_the_secret_that_is_not_asked_for() -> None:
    prefix = "consumer.override.sasl.oauthbearer.client.credentials.client."
    raw = {
        "consumer.override.sasl.mechanism": "OAUTHBEARER",
        "consumer.override.sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "
        "required;",
        "consumer.override.sasl.oauthbearer.token.endpoint.url": "https://idp.example.com/token",
        f"{prefix}id": "me",
    }
    assert "lacks clientSecret" in faults(**raw)["consumer.override.sasl.jaas.config"]
    assert faults(**raw, **{f"{prefix}secret": "${secretsmanager:kafka/idp:secret}"}) == {}
    assert list(faults(**raw, **{f"{prefix}secret": "${env:FIRN_NOWHERE}"})) == [f"{prefix}secret"]
    checked = check_sink_config(MINIMAL | raw | {f"{prefix}secret": "hunter2"}, where="x")
    assert checked.faults == ()
    assert "hunter2" not in repr(checked)


def test_confluent_clouds_login() -> None:
    raw = {"kafka.auth.mode": "KAFKA_API_KEY", "kafka.api.key": "K", "kafka.api.secret": "hunter2"}
    config = parse_sink_config(MINIMAL | raw | {"kafka.endpoint": "SASL_SSL://pkc-1.cloud:9092"}, where="x")
    properties = {p.name: p for p in config.kafka}
    assert properties["bootstrap.servers"] == KafkaProperty("bootstrap.servers", properties["bootstrap.servers"].value)
    assert properties["bootstrap.servers"].value.get_secret_value() == "pkc-1.cloud:9092"
    assert "hunter2" in properties["sasl.jaas.config"].value.get_secret_value()
    assert "hunter2" not in repr(config) + repr(config.kafka)
    assert "kafka.api.secret" in faults(kafka_api_key="K")
    assert "Kafka secret is used" in warnings({"kafka.auth.mode": "SERVICE_ACCOUNT"})["kafka.auth.mode"]


def test_effective_values_tell_where_they_come_from() -> None:
    raw = {
        "buffer.flush.time": "3",
        "snowflake.user.name": "${env:HOME}",
        "kafka.api.key": "K",
        "kafka.api.secret": "S",
    }
    checked = check_sink_config(MINIMAL | raw, where="x")
    lines = {line.name: (line.value_shown, line.source) for line in checked.effective}
    assert lines["topics"] == ("order-events", "given")
    assert lines["buffer.flush.time"] == ("10", "given")
    assert lines["buffer.count.records"] == ("10000", "default")
    assert lines["snowflake.user.name"] == ("${env:HOME}", "reference")
    assert lines["snowflake.private.key"] == ("", "settings and secrets")
    assert lines["kafka.api.secret"] == ("(hidden)", "given")
    assert lines["input.data.format"] == ("AVRO", "default")
    assert lines["input.key.format"] == ("STRING", "default")


def test_the_effect_of_a_value_tells_what_becomes_of_it() -> None:
    raw = MINIMAL | {"buffer.size.bytes": "0", "errors.tolerance": "none", "jmx": "true"}
    effects = {line.name: line.effect for line in check_sink_config(raw, where="x").effective}
    assert effects["buffer.size.bytes"] == "fault"
    assert effects["errors.tolerance"] == effects["snowflake.enable.schematization"] == "honoured"
    assert effects["jmx"] == "no effect"


def test_a_file_of_the_v4_connector_means_typed_columns_unless_it_says_otherwise() -> None:
    v4 = MINIMAL | {"connector.class": "com.snowflake.kafka.connector.SnowflakeStreamingSinkConnector"}
    assert parse_sink_config(v4, where="x").schematization
    assert not parse_sink_config(v4 | {"snowflake.enable.schematization": "false"}, where="x").schematization


def test_tables_evolve_as_they_say_themselves_unless_the_file_says_it() -> None:
    typed = MINIMAL | {"snowflake.enable.schematization": "true"}
    assert parse_sink_config(typed, where="x").auto_evolve is None
    assert parse_sink_config(typed | {"auto.evolve": "true"}, where="x").auto_evolve is True
    assert parse_sink_config(typed | {"auto.evolve": "false"}, where="x").auto_evolve is False


def test_evolution_without_typed_columns_is_warned_of() -> None:
    assert "schematization=true" in warnings({"auto.evolve": "true"})["auto.evolve"]
    assert "auto.evolve" not in warnings({"auto.evolve": "false"})
    assert "auto.evolve" not in warnings({"auto.evolve": "true", "snowflake.enable.schematization": "true"})


def test_the_type_and_the_clustering_key_of_tables() -> None:
    assert parse_sink_config(MINIMAL, where="x").tables == TableConfig(TableType.STANDARD, None)
    raw = {
        "firn.table.type": "Transient",
        "firn.table.cluster.by": " TO_DATE(A, 'x;--') ,RECORD_CONTENT:b::NUMBER(9, 2)",
    }
    tables = parse_sink_config(MINIMAL | raw, where="x").tables
    assert tables == TableConfig(TableType.TRANSIENT, "TO_DATE(A, 'x;--'), RECORD_CONTENT:b::NUMBER(9, 2)")
    assert raw.keys() <= warnings(raw | {"auto.create.tables": "false"}).keys()


def test_a_clustering_key_may_hold_nested_objects() -> None:
    raw = {"firn.table.cluster.by": "F({'a': {'b': [1, 2]}}), ',;--' || \"(\", x:c[0]"}
    assert parse_sink_config(MINIMAL | raw, where="x").tables.cluster_by == raw["firn.table.cluster.by"]


def test_interactive_tables_are_streamed_into_and_clustered() -> None:
    found = faults(firn_table_type="interactive")
    assert "needs snowflake.ingestion.method=SNOWPIPE_STREAMING" in found["firn.table.type"]
    assert "is required with firn.table.type=interactive" in found["firn.table.cluster.by"]
    streaming = {"snowflake_ingestion_method": "SNOWPIPE_STREAMING", "firn_table_cluster_by": "A"}
    assert faults(firn_table_type="interactive", **streaming) == {}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("A) AS SELECT 1; DROP TABLE T", "without its opening one"),
        ("A; DROP TABLE T", "a semicolon"),
        ("A -- B", "a comment"),
        ("A // B", "a comment"),
        ("A /* B", "a comment"),
        ("A /*+ B */", "a comment"),
        ("-- A", "a comment"),
        ("$$A$$", "a text in $$"),
        ("A$$", "a text in $$"),
        ("TO_DATE(A", "'(' that is not closed"),
        ("F(A]", "']' without its opening one"),
        ("'A", "a quote that is not closed"),
        ('"A', "a quote that is not closed"),
        (r"'A\'", "a quote that is not closed"),
        ("A,,B", "an empty expression"),
        ("A,", "an empty expression"),
    ],
)
def test_a_clustering_key_is_expressions_and_nothing_else(text: str, problem: str) -> None:
    assert problem in faults(firn_table_cluster_by=text)["firn.table.cluster.by"]


def test_the_kind_of_tables_of_the_v4_connector() -> None:
    kind = "snowflake.autocreate.table.type"
    assert parse_sink_config(MINIMAL | {kind: "snowflake"}, where="x").auto_create_tables
    assert not parse_sink_config(MINIMAL | {kind: "NONE"}, where="x").auto_create_tables
    assert "Iceberg" in faults(snowflake_autocreate_table_type="iceberg")[kind]


def test_an_empty_text_counts_as_absent_where_exported_files_carry_it() -> None:
    empty = {"topics.regex": "", "tasks.max": "", "snowflake.role.name": ""}
    assert parse_sink_config(MINIMAL | empty, where="x") == parse_sink_config(MINIMAL, where="x")


def test_a_parameter_at_fault_is_not_also_warned_of() -> None:
    checked = check_sink_config(MINIMAL | {"enable.streaming.client.optimization": "true"}, where="x")
    assert [fault.name for fault in checked.faults] == ["enable.streaming.client.optimization"]
    assert checked.warnings == ()
