"""Converters by class and by input format, their options, and transforms."""

from __future__ import annotations

import pytest

from firn.connector.config import ConverterConfig, HeaderFormat, Method, ProtobufOptions, SinkConfig
from firn.connector.formats import Format
from firn.connector.parse import check_sink_config, parse_sink_config
from tests.support.connectors import MINIMAL

SNOWFLAKE = "com.snowflake.kafka.connector.records."
CONNECT = "org.apache.kafka.connect."
AVRO = {"value.converter": "io.confluent.connect.avro.AvroConverter"}
URL = "value.converter.schema.registry.url"


def parsed(raw: dict[str, str]) -> SinkConfig:
    return parse_sink_config(MINIMAL | raw, where="x")


def faults(raw: dict[str, str]) -> dict[str, str]:
    return {fault.name: str(fault) for fault in check_sink_config(MINIMAL | raw, where="x").faults}


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("io.confluent.connect.avro.AvroConverter", Format.AVRO),
        (SNOWFLAKE + "SnowflakeAvroConverter", Format.AVRO),
        (SNOWFLAKE + "SnowflakeAvroConverterWithoutSchemaRegistry", Format.AVRO_FILE),
        (SNOWFLAKE + "SnowflakeAvroConverterWithoutSchemaRegistery", Format.AVRO_FILE),
        (SNOWFLAKE + "SnowflakeJsonConverter", Format.JSON),
        (CONNECT + "json.JsonConverter", Format.JSON_ENVELOPE),
        ("JsonConverter", Format.JSON_ENVELOPE),
        ("io.confluent.connect.json.JsonSchemaConverter", Format.JSON_SCHEMA),
        ("io.confluent.connect.protobuf.ProtobufConverter", Format.PROTOBUF),
        (CONNECT + "storage.StringConverter", Format.STRING),
        (CONNECT + "converters.ByteArrayConverter", Format.BYTES),
        (CONNECT + "converters.LongConverter", Format.LONG),
    ],
)
def test_official_classes_name_formats(name: str, format_: Format) -> None:
    config = parsed({"value.converter": name, "key.converter": name})
    assert (config.value.format, config.key.format) == (format_, format_)


def test_unions_of_one_type_are_that_type_unless_avro_converter_is_told_otherwise() -> None:
    option = {"value.converter.flatten.singleton.unions": "false"}
    snowflake = {"value.converter": SNOWFLAKE + "SnowflakeAvroConverter"}
    assert parsed(AVRO).value.flatten_singletons
    assert not parsed(AVRO | option).value.flatten_singletons
    assert parsed(snowflake | option).value.flatten_singletons


@pytest.mark.parametrize(
    ("name", "format_"),
    [
        ("AVRO", Format.AVRO),
        ("json", Format.JSON),
        ("JSON_SR", Format.JSON_SCHEMA),
        ("PROTOBUF", Format.PROTOBUF),
        ("STRING", Format.STRING),
        ("BYTES", Format.BYTES),
    ],
)
def test_input_formats_name_formats(name: str, format_: Format) -> None:
    config = parsed({"input.data.format": name, "input.key.format": name})
    assert (config.value.format, config.key.format) == (format_, format_)


def test_the_schema_of_json_follows_schemas_enable() -> None:
    json = {"value.converter": "JsonConverter"}
    off, on = ({"value.converter.schemas.enable": text} for text in ("false", "true"))
    assert parsed(json | off).value == ConverterConfig(Format.JSON)
    assert parsed({"input.data.format": "JSON"} | on).value.format is Format.JSON_ENVELOPE
    assert parsed({"input.data.format": "JSON"} | off).value.format is Format.JSON
    assert parsed({"value.converter": SNOWFLAKE + "SnowflakeJsonConverter"}).value == ConverterConfig(
        Format.JSON, json_null_is_tombstone=False
    )
    assert "value.converter.schemas.enable" in faults(json | {"input.data.format": "JSON"})["input.data.format"]
    assert faults(json | off | {"input.data.format": "JSON"}) == {}


def test_without_a_word_values_are_avro_and_keys_text() -> None:
    assert (parsed({}).value, parsed({}).key) == (ConverterConfig(Format.AVRO), ConverterConfig(Format.STRING))


def test_class_and_input_format_must_agree() -> None:
    assert (
        "contradicts value.converter (allowed: AVRO)"
        in faults(AVRO | {"input.data.format": "JSON"})["input.data.format"]
    )
    assert faults(AVRO | {"input.data.format": "AVRO"}) == {}


def test_snowflakes_converters_are_refused_with_streaming() -> None:
    streaming = {"snowflake.ingestion.method": Method.SNOWPIPE_STREAMING}
    for side in ("value", "key"):
        raw = streaming | {f"{side}.converter": SNOWFLAKE + "SnowflakeAvroConverter"}
        assert list(faults(raw)) == [f"{side}.converter"]
    for name in ("STRING", "BYTES"):
        raw = streaming | {"snowflake.enable.schematization": "true", "input.data.format": name}
        assert list(faults(raw)) == ["input.data.format"]


def test_the_registry_of_a_converter() -> None:
    raw = AVRO | {URL: "https://a:8081/, https://b:8081", "value.converter.basic.auth.credentials.source": "USER_INFO"}
    config = parsed(raw | {"value.converter.basic.auth.user.info": "u:hunter2"})
    assert config.value.registry is not None
    assert config.value.registry.urls == ("https://a:8081", "https://b:8081")
    assert config.value.registry.user_info is not None
    assert config.value.registry.user_info.get_secret_value() == "u:hunter2"
    assert config.key.registry is None
    assert "hunter2" not in repr(config)
    older = parsed(AVRO | {URL: "http://a", "value.converter.schema.registry.basic.auth.user.info": "u:p"})
    assert older.value.registry is not None
    assert older.value.registry.user_info is not None


def test_a_login_inside_the_registrys_address_is_taken_out_of_it() -> None:
    raw = AVRO | {URL: "https://u:hunt%40er2@a:8081", "value.converter.basic.auth.credentials.source": "URL"}
    checked = check_sink_config(MINIMAL | raw, where="x")
    assert checked.config is not None
    registry = checked.config.value.registry
    assert registry is not None
    assert registry.urls == ("https://a:8081",)
    assert registry.user_info is not None
    assert registry.user_info.get_secret_value() == "u:hunt@er2"
    assert "er2" not in repr(checked)


def test_one_registry_for_keys_and_values() -> None:
    config = parsed({"schema.registry.url": "http://r:8081", "input.key.format": "AVRO"})
    assert config.value.registry == config.key.registry
    assert config.key.registry is not None


@pytest.mark.parametrize(
    ("extra", "name"),
    [
        ({"value.converter.basic.auth.user.info": "u:p"}, "value.converter.basic.auth.user.info"),
        ({URL: "a:8081"}, URL),
        ({URL: "http://[x"}, URL),
        ({URL: "http://a:port"}, URL),
        ({URL: "http://a", "value.converter.basic.auth.user.info": "up"}, "value.converter.basic.auth.user.info"),
        (
            {URL: "http://a", "value.converter.basic.auth.credentials.source": "USER_INFO"},
            "value.converter.basic.auth.user.info",
        ),
        ({URL: "http://a", "value.converter.basic.auth.credentials.source": "URL"}, URL),
        ({URL: "http://a@b", "value.converter.bearer.auth.token": "t"}, "value.converter.bearer.auth.token"),
        ({"value.converter.enhanced.avro.schema.support": "true"}, "value.converter.enhanced.avro.schema.support"),
        ({"value.converter.schema.registry.ssl.keystore.location": "x"}, None),
        (
            {URL: "https://a", "value.converter.schema.registry.ssl.truststore.location": "ca.jks"},
            "value.converter.schema.registry.ssl.truststore.location",
        ),
    ],
)
def test_registry_options_that_do_not_fit_are_faults(extra: dict[str, str], name: str | None) -> None:
    assert list(faults(AVRO | extra)) == [name or next(iter(extra))]


def test_options_of_other_converters_are_warned_of() -> None:
    raw = {"key.converter": "StringConverter", "key.converter.schemas.enable": "false"}
    warned = check_sink_config(MINIMAL | raw, where="x").warnings
    assert [warning.name for warning in warned] == ["key.converter.schemas.enable"]


def test_options_of_protobuf_reach_its_converter() -> None:
    raw = {"value.converter": "ProtobufConverter", "value.converter.int.for.enums": "true"}
    config = parsed(raw | {"value.converter.generate.index.for.unions": "false"})
    assert config.value.protobuf == ProtobufOptions(enums_as_numbers=True, index_in_union_names=False)


def test_wrappers_are_values_everywhere_or_nowhere() -> None:
    raw = {"value.converter": "ProtobufConverter", "value.converter.wrapper.for.nullables": "true"}
    assert faults(raw) == {}
    assert list(faults(raw | {"value.converter.wrapper.for.raw.primitives": "false"})) == [
        "value.converter.wrapper.for.nullables"
    ]


def test_header_converters() -> None:
    assert parsed({}).headers is HeaderFormat.SIMPLE
    assert parsed({"header.converter": CONNECT + "storage.StringConverter"}).headers is HeaderFormat.STRING
    assert parsed({"header.converter": CONNECT + "converters.ByteArrayConverter"}).headers is HeaderFormat.BYTES
    assert "header.converter" in faults({"header.converter": CONNECT + "json.JsonConverter"})


def hoist(name: str, side: str, field: str) -> dict[str, str]:
    return {
        f"transforms.{name}.type": f"{CONNECT}transforms.HoistField${side}",
        f"transforms.{name}.field": field,
    }


def test_hoist_field_wraps_in_the_order_of_the_list() -> None:
    raw = hoist("a", "Value", "inner") | hoist("b", "Value", "outer") | hoist("k", "Key", "key")
    config = parsed(raw | {"transforms": "a, k, b"})
    assert (config.value.hoist, config.key.hoist) == (("inner", "outer"), ("key",))


def test_a_hoisted_text_has_a_field_for_typed_columns() -> None:
    v4 = {"connector.class": "SnowflakeStreamingSinkConnector", "transforms": "wrap"}
    for converter in ("storage.StringConverter", "converters.ByteArrayConverter"):
        raw = v4 | {"value.converter": CONNECT + converter}
        assert parsed(raw | hoist("wrap", "Value", "body")).value.hoist == ("body",)
        assert "HoistField" in faults(raw | hoist("wrap", "Key", "body"))["value.converter"]


def test_other_transforms_and_predicates_are_refused_by_name() -> None:
    cast = f"{CONNECT}transforms.Cast$Value"
    found = faults(
        {
            "transforms": "c,d,e",
            "transforms.c.type": cast,
            "transforms.d.type": f"{CONNECT}transforms.HoistField$Key",
            "predicates": "p",
            "predicates.p.type": "x",
        }
    )
    assert cast in found["transforms.c.type"]
    assert "is required by HoistField" in found["transforms.d.field"]
    assert "is required" in found["transforms.e.type"]
    assert "'p'" in found["predicates"]
    assert "transforms.a.predicate" in faults(
        hoist("a", "Key", "f") | {"transforms": "a", "transforms.a.predicate": "p"}
    )


def test_an_at_sign_behind_the_host_is_part_of_the_registrys_path() -> None:
    registry = parsed(AVRO | {URL: "https://gw.corp/registry@eu,https://u:p@q@gw.corp/b"}).value.registry
    assert registry is not None
    assert registry.urls == ("https://gw.corp/registry@eu", "https://gw.corp/b")
    assert registry.user_info is not None
    assert registry.user_info.get_secret_value() == "u:p@q"


def test_a_token_of_confluent_cloud_comes_with_cluster_and_pool() -> None:
    options = {f"value.converter.bearer.auth.{name}": name for name in ("logical.cluster", "identity.pool.id")}
    registry = parsed(AVRO | {URL: "https://r", "value.converter.bearer.auth.token": "t"} | options).value.registry
    assert registry is not None
    assert (registry.logical_cluster, registry.identity_pool) == ("logical.cluster", "identity.pool.id")
    warned = check_sink_config(MINIMAL | AVRO | {URL: "https://r"} | options, where="x").warnings
    assert {each.name for each in warned} == options.keys()
