"""The reference decoder: one Avro body to JSON text, strict and bounded. It defines the result.

Written out rather than built on fastavro, which takes a negative enum or union index for one from the end, counts
through 2**60 nulls, and ends the process on a deeply nested value (docs/decisions/0002-two-decoders.md).
The limits are those of `wire`, and MAX_DEPTH levels of records, arrays and maps.
"""

from __future__ import annotations

import struct

from spark_jobs.sink.decode import records
from spark_jobs.sink.decode.compiler import Compiler
from spark_jobs.sink.decode.defaults import NullTexts
from spark_jobs.sink.decode.records import MalformedError
from spark_jobs.sink.decode.schema import Node
from spark_jobs.sink.decode.wire import Limits, too_large
from spark_jobs.sink.values.bad_records import INVALID_UTF8, MALFORMED_AVRO, TRAILING_BYTES

_LONGEST_ESCAPE = 6  # characters that one byte of data becomes at most


class ReferenceDecoder:
    """Decodes bodies of one schema. Not thread-safe: the limits count within one value."""

    def __init__(
        self, node: Node, time_zone: str, *, null_defaults: bool = True, flatten_singletons: bool = True
    ) -> None:
        """null_defaults: whether a null within the value is its type's default, see `defaults`.

        flatten_singletons: whether a union of one type is that type, and no object with one member.
        """
        self._limits = Limits()
        compiler = Compiler(NullTexts(time_zone, null_defaults), time_zone, self._limits, flatten_singletons)
        self._read = compiler.whole(node)
        self._longest = compiler.longest

    def decode(self, data: bytes, start: int) -> str | None:
        """The JSON text of the body of `data` from `start` to its end; None for a null. Raises MalformedError."""
        text, end = self.decode_next(data, start)
        if end != len(data):
            raise MalformedError(TRAILING_BYTES, f"{len(data) - end} bytes follow the value")
        return text

    def decode_next(self, data: bytes, start: int) -> tuple[str | None, int]:
        """The JSON text of the value at `start`, others may follow it, and where it ends. Raises MalformedError."""
        self._limits.reset()
        parts: list[str] = []
        try:
            end = self._read(data, start, parts)
        except (IndexError, struct.error):
            raise MalformedError(MALFORMED_AVRO, f"the body ends early, after {len(data) - start} bytes") from None
        except UnicodeDecodeError as error:
            raise MalformedError(INVALID_UTF8, f"a string is not UTF-8: {error.reason}") from None
        # The length is only counted where it may be too long: what is no text of the schema's comes out of the bytes.
        if len(parts) * self._longest + (end - start) * _LONGEST_ESCAPE > records.MAX_TEXT:
            _check(parts)
        text = "".join(parts)
        return None if text == "null" else text, end


def _check(parts: list[str]) -> None:
    if sum(map(len, parts)) > records.MAX_TEXT:
        raise too_large(f"the value has more than {records.MAX_TEXT} characters of JSON")
