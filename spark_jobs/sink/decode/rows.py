"""A decoder out of a function that converts one record: for formats where a Python call per record is fast enough.

Not for knowing a format: the function does, and tells what is malformed.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from spark_jobs.sink.decode.budget import checked
from spark_jobs.sink.decode.capacity import string_array
from spark_jobs.sink.decode.records import Decoded, MalformedError
from spark_jobs.sink.values.bad_records import SCHEMA_MISMATCH, BadRecord


class RowDecoder:
    """Decodes record by record. Not thread-safe if `convert` is not.

    convert: the JSON text of one value; None where it is null to Connect. Raises MalformedError; whatever else it
        raises passes (TransientError: no record is judged), except that a value too deep for Python's stack or too
        big for the memory is a bad record.
    reason: the word for those.
    """

    def __init__(self, convert: Callable[[bytes], str | None], reason: str = SCHEMA_MISMATCH) -> None:
        self._convert, self._reason = convert, reason

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode one batch (n rows in, n out; null stays null). Raises OutputTooLargeError."""
        bad: list[BadRecord] = []
        content = string_array(
            None if value is None else self._one(row, value, bad) for row, value in enumerate(values.to_pylist())
        )
        return Decoded(content, no_schema_ids(len(values)), tuple(bad))

    def _one(self, row: int, value: bytes, bad: list[BadRecord]) -> str | None:
        try:
            return checked(self._convert(value))
        except MalformedError as error:
            bad.append(BadRecord(row, error.reason, error.detail))
        except RecursionError:
            bad.append(BadRecord(row, self._reason, "nested too deeply"))
        except MemoryError:
            bad.append(BadRecord(row, self._reason, f"{len(value)} bytes become more than the memory holds"))
        return None


def no_schema_ids(rows: int) -> pa.Int32Array:
    """The schema ids of a format that has none."""
    return pa.nulls(rows, pa.int32())
