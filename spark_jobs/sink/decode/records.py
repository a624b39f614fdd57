"""What the decoders hand back: the contract between converters and the rest of the sink. No logic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.sink.values.bad_records import BadRecord

MAX_TEXT = 128 * 1024 * 1024
"""Characters of JSON that one record may become: a VARIANT of Snowflake holds 128 MB."""


class OutputTooLargeError(Exception):
    """The JSON of a batch passes what is held at a time (`capacity`): the caller halves the batch."""


class MalformedError(Exception):
    """One value cannot be decoded; `reason` is one of `values.bad_records`, `detail` is for a person."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


class InvalidSchemaError(ValueError):
    """A schema that no value can be decoded with; the message says what is wrong, and where."""


@dataclass(frozen=True)
class Decoded:
    """A decoded batch of keys or values.

    content: StringArray, JSON text; null where the record is bad, and where its value is null to Connect (a tombstone).
    schema_ids: Int32Array like `content`; null where there is none.
    bad: the bad records in order of row.
    origin: the input row of each element of `content`, never falling, for formats that put several rows or none into
        one record; None where each input row has exactly one.
    """

    content: pa.StringArray
    schema_ids: pa.Int32Array
    bad: tuple[BadRecord, ...]
    origin: npt.NDArray[np.int64] | None = None


class Decoder(Protocol):
    """Turns a batch of keys or values into JSON text. Not thread-safe; one per Spark worker."""

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode one batch (n rows, null where Kafka has no bytes). What is bad is reported, never raised.

        Raises OutputTooLargeError.
        """
        ...
