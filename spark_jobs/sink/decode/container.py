"""Avro object containers: a header with the schema, then blocks of data that a sync marker ends each.

Source: Avro 1.12, "Object Container Files". Written out rather than read with fastavro, which takes a block header that
is cut off for the end of the file and decompresses without bound. Not for: the data (`avro_file`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from spark_jobs.sink.decode.container_codecs import decompressed
from spark_jobs.sink.decode.records import MalformedError
from spark_jobs.sink.decode.wire import Limits, read_blocks, read_long, read_span
from spark_jobs.sink.values.bad_records import MALFORMED_CONTAINER

MAGIC = b"Obj\x01"
SYNC_BYTES = 16
MAX_DATA = 64 * 1024 * 1024


@dataclass(frozen=True)
class Container:
    """One container: the text of its schema, and where its blocks are."""

    schema: bytes
    codec: str
    sync: bytes
    data: bytes
    start: int

    @classmethod
    def of(cls, data: bytes) -> Container:
        """Read the header. Raises MalformedError."""
        if not data.startswith(MAGIC):
            raise MalformedError(MALFORMED_CONTAINER, f"the value begins with {data[:4].hex() or 'nothing'}, not 'Obj'")
        with _in_container():
            found, pos = _metadata(data, len(MAGIC))
        schema, sync = found.get(b"avro.schema"), data[pos : pos + SYNC_BYTES]
        if schema is None or len(sync) < SYNC_BYTES:
            raise MalformedError(MALFORMED_CONTAINER, "the header has no schema or no sync marker")
        codec = found.get(b"avro.codec", b"null").decode("utf-8", "replace")
        return cls(schema, codec, sync, data, pos + SYNC_BYTES)

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        """How many values each block announces, and its data, decompressed to MAX_DATA bytes in all at most.

        Raises MalformedError.
        """
        pos, room = self.start, MAX_DATA
        while pos < len(self.data):
            with _in_container():
                count, pos = read_long(self.data, pos)
                start, pos = read_span(self.data, pos)
            if self.data[pos : pos + SYNC_BYTES] != self.sync:
                raise MalformedError(MALFORMED_CONTAINER, f"no sync marker at byte {pos}, where a block ends")
            block = decompressed(self.codec, self.data[start:pos], room)
            room -= len(block)
            pos += SYNC_BYTES
            yield count, block


def _metadata(data: bytes, pos: int) -> tuple[dict[bytes, bytes], int]:
    """The map of the header."""
    entries: dict[bytes, bytes] = {}

    def entry(at: int) -> int:
        start, at = read_span(data, at)
        key = data[start:at]
        start, at = read_span(data, at)
        entries[key] = data[start:at]
        return at

    return entries, read_blocks(data, pos, entry, Limits(), empty=False)


@contextmanager
def _in_container() -> Iterator[None]:
    """Numbers and lengths of the container itself, not of the data in it."""
    try:
        yield
    except IndexError:
        raise MalformedError(MALFORMED_CONTAINER, "the container ends early") from None
    except MalformedError as error:
        raise MalformedError(MALFORMED_CONTAINER, error.detail) from None
