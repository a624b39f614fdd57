"""The converter of a key or value, as the sink's configuration names it: found by its format's folder.

`firn.connector.formats` registers the formats; `decode/<family>/converter.py` makes their converters. Not for
formats themselves: nothing here knows one.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.connector.config import ConverterConfig
from firn.connector.formats import Format
from spark_jobs.sink.decode.base.capacity import counted_by_arrow
from spark_jobs.sink.decode.base.column_types import VARIANT, ValueTypes
from spark_jobs.sink.decode.base.contract import (
    Converter,
    ConverterContext,
    Decoded,
    Decoder,
    MakeConverter,
    SchemaOf,
    Writer,
)
from spark_jobs.sink.decode.base.scalars import CLASSIC_ZONE, quoted
from spark_jobs.sink.decode.base.texts import join


def converter_for(
    config: ConverterConfig, schema_of: SchemaOf, *, time_zone: str = CLASSIC_ZONE, as_key: bool = False
) -> Converter:
    """The converter that `config` asks for. Not thread-safe; one per Spark worker. Arguments: `ConverterContext`."""
    converter = registered(config.format)(config, ConverterContext(schema_of, time_zone, as_key))
    for field in config.hoist:
        converter = hoisted(converter, field)
    return converter


def registered(format: Format) -> MakeConverter:
    """What makes the converters of a format: the function `converter` in the folder of its family."""
    found: MakeConverter = import_module(f"{__package__}.{format.registered.family}.converter").converter
    return found


def hoisted(inner: Converter, field: str) -> Converter:
    """A converter whose values are objects of one field, which holds what `inner` gives."""

    def types_of(writer: Writer) -> ValueTypes:
        return ValueTypes(VARIANT, {field: inner.types_of(writer).type})

    return Converter(HoistDecoder(inner, field).decode, types_of)


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
