"""The decoder of a Confluent-framed format: which kind of schema it has, and what compiles one.

Not for formats without a schema id (`converters`).
"""

from __future__ import annotations

from collections.abc import Callable

from firn.connector.config import ConverterConfig, Format
from firn.errors import ConfigError
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.avro import avro_decoder
from spark_jobs.sink.decode.decoder import FramedDecoder
from spark_jobs.sink.decode.json_schema import json_schema_bodies
from spark_jobs.sink.decode.protobuf import protobuf_bodies


def framed_decoder(
    format: Format, schema_of: Callable[[int], RegisteredSchema], config: ConverterConfig, time_zone: str
) -> FramedDecoder:
    """The decoder of AVRO, JSON_SCHEMA or PROTOBUF; see `decoder.FramedDecoder` for `schema_of` and its errors."""
    match format:
        case Format.AVRO:
            return avro_decoder(
                schema_of,
                time_zone,
                null_defaults=config.null_defaults,
                flatten_singletons=config.flatten_singletons,
            )
        case Format.JSON_SCHEMA:
            return FramedDecoder(
                "JSON", schema_of, lambda schema: json_schema_bodies(schema, time_zone, config.null_defaults)
            )
        case Format.PROTOBUF:
            return FramedDecoder(
                "PROTOBUF", schema_of, lambda schema: protobuf_bodies(schema, config.protobuf, time_zone)
            )
    raise ConfigError(f"The format {format} has no schema id.", next_step="Choose another converter.")
