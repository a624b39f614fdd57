"""The codecs of Avro object containers: the data of one block out of its compressed bytes, never more than a limit.

Source: Avro 1.12, "Object Container Files", "Required Codecs" and "Optional Codecs"; all that Java's Avro has.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable

import pyarrow as pa

from spark_jobs.sink.decode.records import MalformedError
from spark_jobs.sink.values.bad_records import MALFORMED_CONTAINER

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
