"""The contract between converters and the rest of the sink: what a converter is given, and what it gives back.

A format's folder has a function `converter` that makes a `Converter` out of a configuration and a `ConverterContext`.
What a value knows of its schema travels with it: its schema id, and the part of the schema that it is a value of. The
rest of the sink hands a `Writer` back to the converter without knowing what is in it. No logic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firn.connector.config import ConverterConfig
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.base.column_types import ValueTypes
from spark_jobs.sink.decode.base.field_columns import RecordFields
from spark_jobs.sink.decode.base.scalars import CLASSIC_ZONE
from spark_jobs.sink.values.bad_records import BadRecord

MAX_TEXT = 128 * 1024 * 1024
"""Characters of JSON that one record may become: a VARIANT of Snowflake holds 128 MB."""

SchemaOf: TypeAlias = Callable[[int], RegisteredSchema]
"""The registered schema of an id; `framing.decoder.FramedDecoder` tells what its errors mean."""

Part: TypeAlias = tuple[int, ...]
"""Which of the types that one schema defines, in numbers of the format's own; () where schemas define but one."""


class OutputTooLargeError(Exception):
    """The JSON of a batch passes what is held at a time (`capacity`): the caller halves the batch."""


class MalformedError(Exception):
    """One value cannot be decoded; `reason` is a word of `values.bad_records`, `detail` is for a person."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class Decoded:
    """A decoded batch of keys or values.

    content: StringArray, JSON text; null where the record is bad, and where its value is null to Connect (a tombstone).
    schema_ids: Int32Array like `content`; null where there is none.
    bad: the bad records in order of row.
    origin: the input row of each element of `content`, never falling, for formats that put several rows or none into
        one record; None where each input row has exactly one.
    parts: for each element of `content` the part of its schema that it is a value of; None where all are ().
    fields: the first-level fields of all records, if the decoder has them as columns; they are those of `content` only
        where `fields.content` is that very array.
    """

    content: pa.StringArray
    schema_ids: pa.Int32Array
    bad: tuple[BadRecord, ...]
    origin: npt.NDArray[np.int64] | None = None
    parts: Sequence[Part] | None = None
    fields: RecordFields | None = None


class Writer(NamedTuple):
    """What wrote a value: a schema of the registry, by its id, and the part of it that the value is of."""

    schema_id: int
    part: Part = ()


class Decoder(Protocol):
    """Turns a batch of keys or values into JSON text. Not thread-safe; one per Spark worker."""

    def decode(self, values: pa.BinaryArray, /) -> Decoded:
        """Decode one batch (n rows, null where Kafka has no bytes). What is bad is reported, never raised.

        Raises OutputTooLargeError.
        """
        ...


def _no_types(_writer: Writer) -> ValueTypes:
    return ValueTypes()


@dataclass(frozen=True)
class Converter:
    """A format as a sink's configuration asks for it. It is a `Decoder`.

    decode: see `Decoder`. types_of: the types of columns that the schema which wrote a value asks for; formats without
    schema ids know none. It raises InvalidSchemaError where no value could be decoded, and what `SchemaOf` raises.
    """

    decode: Callable[[pa.BinaryArray], Decoded]
    types_of: Callable[[Writer], ValueTypes] = _no_types


@dataclass(frozen=True)
class ConverterContext:
    """What a converter is given beside its configuration.

    time_zone: what a time of day ends with (`scalars.CLASSIC_ZONE` or `STREAMING_ZONE`). as_key: whether it converts
    keys, of which a record has exactly one.
    """

    schema_of: SchemaOf
    time_zone: str = CLASSIC_ZONE
    as_key: bool = False


class MakeConverter(Protocol):
    """The function `converter` of a format's module `converter`."""

    def __call__(self, config: ConverterConfig, context: ConverterContext, /) -> Converter:
        """The converter that `config` asks for. Not thread-safe; one per Spark worker."""
        ...
