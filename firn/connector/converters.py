"""Which converter a class name or an input format means. Not how records are converted (`spark_jobs.sink.decode`)."""

from __future__ import annotations

from collections.abc import Mapping

from firn.connector.config import Format

JSON_CONVERTER = "org.apache.kafka.connect.json.JsonConverter"
SNOWFLAKE_JSON = "com.snowflake.kafka.connector.records.SnowflakeJsonConverter"
SNOWFLAKE_CLASSES: Mapping[str, Format] = {
    SNOWFLAKE_JSON: Format.JSON,
    "com.snowflake.kafka.connector.records.SnowflakeAvroConverter": Format.AVRO,
    "com.snowflake.kafka.connector.records.SnowflakeAvroConverterWithoutSchemaRegistry": Format.AVRO_FILE,
    # The spelling of Snowflake's own documentation.
    "com.snowflake.kafka.connector.records.SnowflakeAvroConverterWithoutSchemaRegistery": Format.AVRO_FILE,
}
CLASSES: Mapping[str, Format] = {
    "io.confluent.connect.avro.AvroConverter": Format.AVRO,
    JSON_CONVERTER: Format.JSON_ENVELOPE,  # schemas.enable=false makes it JSON
    "io.confluent.connect.json.JsonSchemaConverter": Format.JSON_SCHEMA,
    "io.confluent.connect.protobuf.ProtobufConverter": Format.PROTOBUF,
    "org.apache.kafka.connect.storage.StringConverter": Format.STRING,
    "org.apache.kafka.connect.converters.ByteArrayConverter": Format.BYTES,
    "org.apache.kafka.connect.converters.BooleanConverter": Format.BOOLEAN,
    "org.apache.kafka.connect.converters.ShortConverter": Format.SHORT,
    "org.apache.kafka.connect.converters.IntegerConverter": Format.INTEGER,
    "org.apache.kafka.connect.converters.LongConverter": Format.LONG,
    "org.apache.kafka.connect.converters.FloatConverter": Format.FLOAT,
    "org.apache.kafka.connect.converters.DoubleConverter": Format.DOUBLE,
    **SNOWFLAKE_CLASSES,
}
# The names of Confluent Cloud's managed connector.
INPUT_FORMATS: Mapping[str, Format] = {
    "AVRO": Format.AVRO,
    "JSON": Format.JSON,
    "JSON_SR": Format.JSON_SCHEMA,
    "PROTOBUF": Format.PROTOBUF,
    "STRING": Format.STRING,
    "BYTES": Format.BYTES,
}
REGISTRY_FORMATS = {Format.AVRO, Format.JSON_SCHEMA, Format.PROTOBUF}
