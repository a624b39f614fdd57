"""A decoder out of a function that converts one record, and how much JSON one record may become.

For formats where a Python call per record is fast enough; the function knows the format, and tells what is malformed.
A few bytes can name thousands of fields that are null: text that grows with the record's own bytes is checked when it
is there, names and defaults, which the schema brings, are counted before they are written out (`Budget`). Not for the
size of batches (`capacity`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.sink.decode.base import contract
from spark_jobs.sink.decode.base.capacity import check_size, string_array
from spark_jobs.sink.decode.base.contract import Decoded, MalformedError
from spark_jobs.sink.values.bad_records import SCHEMA_MISMATCH, TOO_LARGE, BadRecord


class Budget:
    """What is left of MAX_TEXT for the record at hand. Not thread-safe."""

    def __init__(self) -> None:
        self._left = contract.MAX_TEXT

    def reset(self) -> None:
        """Begin a new record."""
        self._left = contract.MAX_TEXT

    def spend(self, characters: int) -> None:
        """Count text that comes from the schema. Raises MalformedError where the record becomes too large."""
        self._left -= characters
        if self._left < 0:
            raise _too_large()


def checked(text: str | None) -> str | None:
    """The text of a whole record. Raises MalformedError where it is too large."""
    if text is not None and len(text) > contract.MAX_TEXT:
        raise _too_large()
    return text


def _too_large() -> MalformedError:
    return MalformedError(TOO_LARGE, f"the record becomes more than {contract.MAX_TEXT} characters of JSON")


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

    def complete(self, values: pa.BinaryArray, content: pa.StringArray) -> Decoded:
        """`content`, the texts of `values` as far as a quicker decoder knows them, and this decoder's for the others.

        Raises OutputTooLargeError.
        """
        if content.null_count == values.null_count:
            return Decoded(content, no_schema_ids(len(values)), ())
        unsure = np.flatnonzero(pc.and_(content.is_null(), values.is_valid()).to_numpy(zero_copy_only=False))
        if len(unsure) == len(values):
            return self.decode(values)
        return self.override(values, content, unsure)

    def override(self, values: pa.BinaryArray, content: pa.StringArray, rows: npt.NDArray[np.int64]) -> Decoded:
        """`content`, but what this decoder says of these rows. Raises OutputTooLargeError."""
        judged = self.decode(values.take(pa.array(rows)))
        check_size(content, judged.content)
        mask = np.zeros(len(values), np.bool_)
        mask[rows] = True
        content = pc.replace_with_mask(content, pa.array(mask), judged.content)
        bad = tuple(replace(each, row=int(rows[each.row])) for each in judged.bad)
        return Decoded(content, no_schema_ids(len(values)), bad)

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
