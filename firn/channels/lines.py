"""Rows as the service reads them: JSON objects in UTF-8, one a line. Pure.

The SDK's `append_rows` takes rows that it encodes one by one. Here they are encoded already, all at once, so they go
to it as a sequence that counts every row and hands over the text of all of them as one encoded value: the SDK sends
the same bytes as for single rows, and no Python object is made for any of them. Not for what rows are
(`spark_jobs.sink.methods.streaming.rows`).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec


class Lines:
    """`count` rows, at least one. text: a line for each, without a line break inside one or behind the last."""

    def __init__(self, text: bytes | memoryview, count: int) -> None:
        self.text, self._count = text, count

    def __len__(self) -> int:
        """How many rows they are."""
        return self._count

    def __iter__(self) -> Iterator[msgspec.Raw]:
        """What an encoder of lines makes all rows of."""
        yield msgspec.Raw(self.text)

    def each(self) -> list[bytes]:
        """The rows one by one."""
        return bytes(self.text).split(b"\n")
