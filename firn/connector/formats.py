"""The formats of keys and values, and which converter classes and input formats stand for them.

A line of `Format` registers a converter; the folder of its family in `spark_jobs.sink.decode` has what it does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
_CONFLUENT, _KAFKA = "io.confluent.connect.", "org.apache.kafka.connect."
_SNOWFLAKE = "com.snowflake.kafka.connector.records."
SNOWFLAKE_JSON = f"{_SNOWFLAKE}SnowflakeJsonConverter"
_AVRO = f"{_CONFLUENT}avro.AvroConverter", f"{_SNOWFLAKE}SnowflakeAvroConverter"
_AVRO_FILE = tuple(f"{_SNOWFLAKE}SnowflakeAvroConverterWithoutSchema{word}" for word in ("Registry", "Registery"))


@dataclass(frozen=True)
class Registered:
    """What is known of a format without reading it.

    family: the folder of its converter. classes: names of the converters of Kafka Connect that stand for it.
    input_format: its name in Confluent Cloud's managed connector. in_registry: whether the schema is in the registry,
    and its id in front of each value.
    """

    family: str
    classes: tuple[str, ...]
    input_format: str | None = None
    in_registry: bool = False


class Format(StrEnum):
    """What the bytes of a key or value are."""

    registered: Registered

    def __new__(cls, name: str, registered: Registered) -> Format:
        """A member's value is its name; the rest stands beside it."""
        member = str.__new__(cls, name)
        member._value_, member.registered = name, registered
        return member

    @property
    def in_registry(self) -> bool:
        """Whether the schema is in the registry, and its id in front of each record."""
        return self.registered.in_registry

    AVRO = "avro", Registered("avro", _AVRO, "AVRO", in_registry=True)
    # Each record is an Avro object container, with its schema. Snowflake's documentation has the second spelling.
    AVRO_FILE = "avro_file", Registered("avro", _AVRO_FILE)
    JSON = "json", Registered("json", (SNOWFLAKE_JSON,), "JSON")
    # {"schema": ..., "payload": ...}; schemas.enable=false makes it JSON.
    JSON_ENVELOPE = "json_envelope", Registered("json", (JSON_CONVERTER,))
    JSON_SCHEMA = (
        "json_schema",
        Registered("json", (f"{_CONFLUENT}json.JsonSchemaConverter",), "JSON_SR", in_registry=True),
    )
    PROTOBUF = (
        "protobuf",
        Registered("protobuf", (f"{_CONFLUENT}protobuf.ProtobufConverter",), "PROTOBUF", in_registry=True),
    )
    STRING = "string", Registered("primitive", (f"{_KAFKA}storage.StringConverter",), "STRING")
    BYTES = "bytes", Registered("primitive", (f"{_KAFKA}converters.ByteArrayConverter",), "BYTES")
    BOOLEAN = "boolean", Registered("primitive", (f"{_KAFKA}converters.BooleanConverter",))
    SHORT = "short", Registered("primitive", (f"{_KAFKA}converters.ShortConverter",))
    INTEGER = "integer", Registered("primitive", (f"{_KAFKA}converters.IntegerConverter",))
    LONG = "long", Registered("primitive", (f"{_KAFKA}converters.LongConverter",))
    FLOAT = "float", Registered("primitive", (f"{_KAFKA}converters.FloatConverter",))
    DOUBLE = "double", Registered("primitive", (f"{_KAFKA}converters.DoubleConverter",))


_OF_CLASSES = {name: each for each in Format for name in each.registered.classes}
SNOWFLAKE_CLASSES: Mapping[str, Format] = {n: each for n, each in _OF_CLASSES.items() if n.startswith(_SNOWFLAKE)}
CLASSES: Mapping[str, Format] = {n: _OF_CLASSES[n] for n in sorted(_OF_CLASSES, key=SNOWFLAKE_CLASSES.__contains__)}
INPUT_FORMATS: Mapping[str, Format] = {
    each.registered.input_format: each for each in Format if each.registered.input_format
}
