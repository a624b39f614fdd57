"""How much text one record may become: a few bytes can name thousands of fields that are null.

Not for the size of batches or files.
"""

from __future__ import annotations

from spark_jobs.sink.decode.records import SCHEMA_MISMATCH, MalformedError

MAX_FIELDS = 10_000_000
"""Fields of one record; so many take more than the 128 MB that a VARIANT holds."""


class Budget:
    """What is left of MAX_FIELDS for the record at hand. Not thread-safe."""

    def __init__(self) -> None:
        self._left = MAX_FIELDS

    def reset(self) -> None:
        """Begin a new record."""
        self._left = MAX_FIELDS

    def spend(self, fields: int) -> None:
        """Count the fields of one more struct. Raises MalformedError where the record becomes too large."""
        self._left -= fields
        if self._left < 0:
            raise MalformedError(SCHEMA_MISMATCH, f"the record has more than {MAX_FIELDS} fields")
