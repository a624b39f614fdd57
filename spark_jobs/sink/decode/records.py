"""What the decoders hand back: the contract between converters and the rest of the sink. No logic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

WRONG_MAGIC = "wrong_magic"
TOO_SHORT = "too_short"
UNKNOWN_SCHEMA_ID = "unknown_schema_id"
NOT_LOOKED_UP = "not_looked_up"  # nobody knows yet whether it is bad: the next batch asks the registry
INVALID_SCHEMA = "invalid_schema"
MALFORMED_AVRO = "malformed_avro"
TRAILING_BYTES = "trailing_bytes"
INVALID_UTF8 = "invalid_utf8"
INVALID_JSON = "invalid_json"
MALFORMED_CONTAINER = "malformed_container"
MALFORMED_PROTOBUF = "malformed_protobuf"
SCHEMA_MISMATCH = "schema_mismatch"  # well-formed, and not what its schema says
TOO_LARGE = "too_large"  # its JSON passes what one record may take
UNREADABLE_HEADER = "unreadable_header"  # the name of a header is not UTF-8
WRONG_SIZE = "wrong_size"  # a number converter met another number of bytes
# A record that is well-formed, and not for the columns of its table:
NOT_AN_OBJECT = "not_an_object"
UNKNOWN_FIELD = "unknown_field"
UNFITTING_VALUE = "unfitting_value"
MISSING_VALUE = "missing_value"
AMBIGUOUS_FIELD = "ambiguous_field"
OF_THE_TABLE = frozenset({UNKNOWN_FIELD, UNFITTING_VALUE, MISSING_VALUE, AMBIGUOUS_FIELD})
"""Reasons that another table would not have given."""


MAX_TEXT = 128 * 1024 * 1024
"""Characters of JSON that one record may become: a VARIANT of Snowflake holds 128 MB."""


class OutputTooLargeError(Exception):
    """The JSON of a batch passes what is held at a time (`capacity`): the caller halves the batch."""


class MalformedError(Exception):
    """One value cannot be decoded; `reason` is one of the words above, `detail` is for a person."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


class InvalidSchemaError(ValueError):
    """A schema that no value can be decoded with; the message says what is wrong, and where."""


@dataclass(frozen=True)
class BadRecord:
    """A record that cannot become a row: its row in the batch, a machine word, what was found, and in which part."""

    row: int
    reason: str
    detail: str
    in_key: bool = False


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
