"""What the decoders hand back: the contract between decoding and the rest of the sink. No logic."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

WRONG_MAGIC = "wrong_magic"
TOO_SHORT = "too_short"
UNKNOWN_SCHEMA_ID = "unknown_schema_id"
INVALID_SCHEMA = "invalid_schema"
MALFORMED_AVRO = "malformed_avro"
TRAILING_BYTES = "trailing_bytes"
INVALID_UTF8 = "invalid_utf8"


class MalformedError(Exception):
    """One value cannot be decoded; `reason` is one of the words above, `detail` is for a person."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(reason, detail)
        self.reason, self.detail = reason, detail


@dataclass(frozen=True)
class BadRecord:
    """A record that cannot become a row: its row in the batch, a machine word, and what was found."""

    row: int
    reason: str
    detail: str


@dataclass(frozen=True)
class Decoded:
    """A decoded batch, row by row like its input.

    content: StringArray, JSON text; `{}` for a tombstone, null where the record is bad.
    schema_ids: Int32Array; null for tombstones and bad records.
    bad: the bad records in order of row.
    """

    content: pa.StringArray
    schema_ids: pa.Int32Array
    bad: tuple[BadRecord, ...]
