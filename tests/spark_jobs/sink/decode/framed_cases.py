"""Framed values and the decoders that read them, for tests of formats with a schema in the registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa

from firn.connector.config import ConverterConfig, ProtobufOptions
from firn.connector.formats import Format
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.base.contract import Decoded, Decoder
from spark_jobs.sink.decode.base.scalars import CLASSIC_ZONE
from spark_jobs.sink.decode.converters import converter_for

FRAME = b"\0\0\0\0\1"


def references(kind: str, texts: Mapping[str, str]) -> tuple[tuple[str, RegisteredSchema], ...]:
    """References without references of their own."""
    return tuple((name, RegisteredSchema(kind, text)) for name, text in texts.items())


def decoder(schema: RegisteredSchema, options: ProtobufOptions | None = None) -> Decoder:
    """The converter of this kind of schema; it compiles the schema with the first value."""
    format = {"JSON": Format.JSON_SCHEMA, "PROTOBUF": Format.PROTOBUF}[schema.kind]
    config = ConverterConfig(format, protobuf=options or ProtobufOptions())
    return converter_for(config, lambda _: schema, time_zone=CLASSIC_ZONE)


def decode(schema: RegisteredSchema, *values: bytes | None, options: ProtobufOptions | None = None) -> Decoded:
    """What the converter of this kind of schema makes of framed values."""
    return decoder(schema, options).decode(pa.array(values, pa.binary()))


def only(decoded: Decoded) -> Any:
    """The one value of a batch, numbers exact."""
    assert decoded.bad == ()
    (text,) = decoded.content.to_pylist()
    return json.loads(text, parse_float=Decimal)


def reason(decoded: Decoded) -> str:
    """Why the one record of a batch is bad."""
    (bad,) = decoded.bad
    assert decoded.content.to_pylist() == [None]
    return bad.reason
