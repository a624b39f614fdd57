"""How much JSON one record may become: a few bytes can name thousands of fields that are null.

Text that grows with the record's own bytes is judged when it is there (`rows`); names and defaults, which the schema
brings, are counted before they are written out. Not for the size of batches (`capacity`).
"""

from __future__ import annotations

from spark_jobs.sink.decode import records
from spark_jobs.sink.decode.records import MalformedError
from spark_jobs.sink.values.bad_records import TOO_LARGE


class Budget:
    """What is left of MAX_TEXT for the record at hand. Not thread-safe."""

    def __init__(self) -> None:
        self._left = records.MAX_TEXT

    def reset(self) -> None:
        """Begin a new record."""
        self._left = records.MAX_TEXT

    def spend(self, characters: int) -> None:
        """Count text that comes from the schema. Raises MalformedError where the record becomes too large."""
        self._left -= characters
        if self._left < 0:
            raise _too_large()


def checked(text: str | None) -> str | None:
    """The text of a whole record. Raises MalformedError where it is too large."""
    if text is not None and len(text) > records.MAX_TEXT:
        raise _too_large()
    return text


def _too_large() -> MalformedError:
    return MalformedError(TOO_LARGE, f"the record becomes more than {records.MAX_TEXT} characters of JSON")
