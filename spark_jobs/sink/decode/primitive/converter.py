"""Strings, bytes, booleans and numbers, as Kafka's own serializers write them: no schema, and one value a record."""

from __future__ import annotations

from firn.connector.config import ConverterConfig
from firn.connector.formats import Format
from spark_jobs.sink.decode.base.contract import Converter, ConverterContext
from spark_jobs.sink.decode.primitive.values import BytesDecoder, NumberDecoder, StringDecoder


def converter(config: ConverterConfig, _context: ConverterContext) -> Converter:
    """The converter of STRING, BYTES or one of the numbers."""
    match config.format:
        case Format.STRING:
            return Converter(StringDecoder().decode)
        case Format.BYTES:
            return Converter(BytesDecoder().decode)
    return Converter(NumberDecoder(config.format).decode)
