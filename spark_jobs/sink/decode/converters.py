"""The decoder of a key or value, as the sink's configuration names it.

Not for formats themselves, each of which has its module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.connector.config import ConverterConfig, Format
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.avro_file import avro_file_decoder
from spark_jobs.sink.decode.capacity import counted_by_arrow
from spark_jobs.sink.decode.framed import framed_decoder
from spark_jobs.sink.decode.json_envelope import json_envelope_decoder
from spark_jobs.sink.decode.json_plain import JsonDecoder
from spark_jobs.sink.decode.numbers import NumberDecoder
from spark_jobs.sink.decode.records import Decoded, Decoder
from spark_jobs.sink.decode.render import join
from spark_jobs.sink.decode.scalars import CLASSIC_ZONE, quoted
from spark_jobs.sink.decode.text import BytesDecoder, StringDecoder

SchemaOf: TypeAlias = Callable[[int], RegisteredSchema]


def decoder_for(
    config: ConverterConfig, schema_of: SchemaOf, *, time_zone: str = CLASSIC_ZONE, as_key: bool = False
) -> Decoder:
    """The decoder that `config` asks for. Not thread-safe; one per Spark worker.

    schema_of: the registered schema of an id, for framed formats; see `decoder.FramedDecoder` for its errors.
    time_zone: what a time of day ends with (`scalars.CLASSIC_ZONE` or `STREAMING_ZONE`).
    as_key: whether it decodes keys, of which a record has exactly one.
    """
    decoder = _decoder(config, schema_of, time_zone, as_key)
    for field in config.hoist:
        decoder = HoistDecoder(decoder, field)
    return decoder


def _decoder(config: ConverterConfig, schema_of: SchemaOf, time_zone: str, as_key: bool) -> Decoder:
    match config.format:
        case Format.AVRO | Format.JSON_SCHEMA | Format.PROTOBUF:
            return framed_decoder(config.format, schema_of, config, time_zone)
        case Format.AVRO_FILE:
            return avro_file_decoder(time_zone, as_key=as_key)
        case Format.JSON:
            return JsonDecoder(null_is_tombstone=config.json_null_is_tombstone)
        case Format.JSON_ENVELOPE:
            return json_envelope_decoder(time_zone, config.null_defaults)
        case Format.STRING:
            return StringDecoder()
        case Format.BYTES:
            return BytesDecoder()
        case _:
            return NumberDecoder(config.format)


class HoistDecoder:
    """Wraps what `inner` gives in an object of one field, as Kafka's HoistField does.

    A null record becomes an object too, with a null in it; a bad record stays bad. Source:
    org.apache.kafka.connect.transforms.HoistField.
    """

    def __init__(self, inner: Decoder, field: str) -> None:
        self._inner, self._before = inner, "{" + quoted(field) + ":"

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode one batch (n rows, null = tombstone)."""
        decoded = self._inner.decode(values)
        with counted_by_arrow():
            content = join([self._before, pc.fill_null(decoded.content, "null"), "}"])
        if decoded.bad:
            bad = np.zeros(len(values), np.bool_)
            bad[[each.row for each in decoded.bad]] = True
            here = pa.array(bad if decoded.origin is None else bad[decoded.origin])
            content = pc.if_else(here, pa.scalar(None, pa.string()), content)
        return replace(decoded, content=content)
