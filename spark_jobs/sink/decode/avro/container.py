"""Avro with its schema in each record: every value or key is an Avro object container of its own.

A container is a header with the schema, then blocks of data that a sync marker ends each; of a compressed block no more
than a limit is read. Source: Avro 1.12, "Object Container Files", with all codecs of Java's Avro. Written out rather
than read with fastavro, which takes a block header that is cut off for the end of the file and decompresses without
bound.

The JSON is that of framed Avro, since the same reference decoder reads the data. A value that holds several data
becomes several rows, one that holds none no row, as SnowflakeAvroConverterWithoutSchemaRegistry does; a key must stay
one, so with `as_key` several data, or none, become one JSON array. A null is a null: Snowflake's converters know no
defaults. Not for data without a schema beside them (`converter`).
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from firn.registry.schemas import InvalidSchemaError
from spark_jobs.sink.decode.avro.binary import MAX_EMPTY_ITEMS, Limits, read_blocks, read_long, read_span, too_large
from spark_jobs.sink.decode.avro.schema import ValueBounds, parse_schema
from spark_jobs.sink.decode.avro.values import ReferenceDecoder
from spark_jobs.sink.decode.base import contract
from spark_jobs.sink.decode.base.capacity import string_array
from spark_jobs.sink.decode.base.contract import Decoded, Decoder, MalformedError
from spark_jobs.sink.decode.base.scalars import CLASSIC_ZONE
from spark_jobs.sink.values.bad_records import INVALID_SCHEMA, MALFORMED_CONTAINER, TRAILING_BYTES, BadRecord

_LZMA_MEMORY = 128 * 1024 * 1024
_CHECKSUM_BYTES = 4
# What the libraries raise for bytes that their codec did not write; Arrow's errors are among them.
_REFUSALS = (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError)


def decompressed(codec: str, data: bytes, limit: int) -> bytes:
    """The data of a block of `codec`. Raises MalformedError: damaged, longer than `limit` bytes, or no such codec."""
    if codec == "null":
        return data
    if codec not in _CODECS:
        raise MalformedError(
            MALFORMED_CONTAINER, f"the codec {codec[:40]!r} is none of null, {', '.join(sorted(_CODECS))}"
        )
    try:
        # One byte more than is allowed tells that there is more.
        found = _CODECS[codec](data, limit + 1)
    except _REFUSALS as error:
        raise MalformedError(MALFORMED_CONTAINER, f"a block is not {codec}: {error}") from None
    if len(found) > limit:
        raise MalformedError(MALFORMED_CONTAINER, f"the {codec} blocks hold more data than the limit allows")
    return found


def _deflate(data: bytes, most: int) -> bytes:
    codec = zlib.decompressobj(-zlib.MAX_WBITS)
    found = codec.decompress(data, most)
    # Python's writers leave a part of zlib's checksum behind the end; Java's readers pass over it too.
    return _whole(found, most, ended=codec.eof)


def _bzip2(data: bytes, most: int) -> bytes:
    codec = bz2.BZ2Decompressor()
    return _whole(codec.decompress(data, most), most, ended=codec.eof)


def _xz(data: bytes, most: int) -> bytes:
    codec = lzma.LZMADecompressor(memlimit=_LZMA_MEMORY)
    return _whole(codec.decompress(data, most), most, ended=codec.eof)


def _whole(found: bytes, most: int, *, ended: bool) -> bytes:
    if not ended and len(found) < most:
        raise EOFError("it ends early")
    return found


def _snappy(data: bytes, most: int) -> bytes:
    body, checksum = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    size = _snappy_size(body)
    if size >= most:
        return bytes(most)
    found: bytes = pa.decompress(body, decompressed_size=size, codec="snappy", asbytes=True)
    if zlib.crc32(found) != int.from_bytes(checksum, "big"):
        raise ValueError("its checksum is wrong")
    return found


def _snappy_size(body: bytes) -> int:
    """The size that snappy's data begin with: seven bits in each byte, the least first."""
    size = 0
    for at, byte in enumerate(body[:5]):
        size |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return size
    raise ValueError("its length is missing")


def _zstandard(data: bytes, most: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        return bytes(stream.read(most))


_CODECS: dict[str, Callable[[bytes, int], bytes]] = {
    "deflate": _deflate,
    "snappy": _snappy,
    "bzip2": _bzip2,
    "xz": _xz,
    "zstandard": _zstandard,
}


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


# Every producer has a few schemas; a producer that changes its schema with every record must not fill the memory.
MAX_SCHEMAS = 64
MAX_SCHEMA_BYTES = 1 << 20
"""Bytes of one schema, and of all that are kept: a compiled one takes many times its text."""


def avro_file_decoder(time_zone: str = CLASSIC_ZONE, *, as_key: bool = False) -> Decoder:
    """The decoder of object containers; `time_zone` ends a time of day, `as_key` keeps one text per record."""
    return _AvroFileDecoder(time_zone, as_key)


class _AvroFileDecoder:
    def __init__(self, time_zone: str, as_key: bool) -> None:
        self._time_zone, self._as_key = time_zone, as_key
        self._bodies: OrderedDict[bytes, _Body | InvalidSchemaError] = OrderedDict()

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """JSON text per datum; `origin` where not every record has exactly one."""
        texts: list[str | None] = []
        origin: list[int] = []
        bad: list[BadRecord] = []
        for row, value in enumerate(values.to_pylist()):
            try:
                found = [None] if value is None else self._texts(value)
            except MalformedError as error:
                found = [None]
                bad.append(BadRecord(row, error.reason, error.detail))
            texts += found
            origin += [row] * len(found)
        content = string_array(texts)
        rows = None if origin == [*range(len(values))] else np.array(origin, np.int64)
        return Decoded(content, pa.nulls(len(content), pa.int32()), tuple(bad), rows)

    def _texts(self, value: bytes) -> list[str | None]:
        container = Container.of(value)
        body = self._body(container.schema)
        if isinstance(body, InvalidSchemaError):
            raise MalformedError(INVALID_SCHEMA, f"the schema in the container cannot be used: {body}")
        texts = body.texts(container)
        if self._as_key and len(texts) != 1:
            return [f"[{','.join('null' if text is None else text for text in texts)}]"]
        return texts

    def _body(self, schema: bytes) -> _Body | InvalidSchemaError:
        """What reads data of `schema`; those used last are kept."""
        if len(schema) > MAX_SCHEMA_BYTES:
            return InvalidSchemaError(f"it has {len(schema)} bytes, more than {MAX_SCHEMA_BYTES}")
        found = self._bodies.pop(schema, None) or self._compile(schema)
        self._bodies[schema] = found
        while len(self._bodies) > MAX_SCHEMAS or sum(map(len, self._bodies)) > MAX_SCHEMA_BYTES:
            self._bodies.popitem(last=False)
        return found

    def _compile(self, schema: bytes) -> _Body | InvalidSchemaError:
        try:
            return _Body(schema.decode(), self._time_zone)
        except UnicodeDecodeError:
            return InvalidSchemaError("it is not UTF-8")
        except RecursionError:
            return InvalidSchemaError("it is nested too deeply")
        except InvalidSchemaError as error:
            return error


class _Body:
    """Reads the data of containers of one schema. Raises InvalidSchemaError."""

    def __init__(self, schema: str, time_zone: str) -> None:
        node = parse_schema(schema)
        self._reference = ReferenceDecoder(node, time_zone, null_defaults=False)
        self._empty = ValueBounds().takes_none(node)

    def texts(self, container: Container) -> list[str | None]:
        """The JSON text of each datum, None for a null one. Raises MalformedError."""
        texts: list[str | None] = []
        room = contract.MAX_TEXT
        for count, block in container.blocks():
            most = MAX_EMPTY_ITEMS - len(texts) if self._empty else len(block)
            if not 0 <= count <= most:
                raise MalformedError(MALFORMED_CONTAINER, f"a block of {count} data in {len(block)} bytes")
            pos = 0
            for _ in range(count):
                text, pos = self._reference.decode_next(block, pos)
                texts.append(text)
                room -= len(text or "")
                if room < 0:
                    raise too_large(f"the container has more than {contract.MAX_TEXT} characters of JSON")
            if pos != len(block):
                raise MalformedError(TRAILING_BYTES, f"{len(block) - pos} bytes follow the {count} data of a block")
        return texts
