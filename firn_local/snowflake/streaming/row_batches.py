"""The rows of one request as Arrow: NDJSON, compressed or not, to one JSON text a row. Not for what is in a row."""

from __future__ import annotations

import gzip
import zlib

import numpy as np
import pyarrow as pa

from firn_local.snowflake.streaming.protocol_errors import INVALID_REQUEST, ProtocolError

LARGEST_PAYLOAD = 16 * 1024 * 1024
"""Bytes of a request before compression, as the REST API's page says."""
_NEWLINE, _RETURN = 10, 13


def decompressed(body: bytes, encoding: str) -> bytes:
    """The body of a request by its Content-Encoding. Raises ProtocolError for one that is broken."""
    try:
        match encoding.lower():
            case "zstd":
                return unzstd(body)
            case "gzip":
                return gzip.decompress(body)
            case _:
                return body
    except (OSError, EOFError, zlib.error) as error:
        raise ProtocolError(400, INVALID_REQUEST, f"The body is not {encoding}: {error}") from None


def unzstd(body: bytes) -> bytes:
    """One or more zstd frames, whose header need not say how much they hold. Raises OSError."""
    if not body:
        return b""
    with pa.CompressedInputStream(pa.BufferReader(body), "zstd") as stream:
        return bytes(stream.read())


def rows_of(body: bytes) -> pa.LargeStringArray:
    """One JSON text a row, newline included. Blank lines are no rows: the SDK puts them between appends."""
    if not body.endswith(b"\n"):
        body += b"\n"
    characters = np.frombuffer(body, dtype=np.uint8)
    ends = np.flatnonzero(characters == _NEWLINE)
    offsets = np.concatenate([[0], ends + 1]).astype(np.int64)
    rows = pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(body))
    starts, lengths = offsets[:-1], np.diff(offsets) - 1
    blank = (lengths == 0) | ((lengths == 1) & (characters[starts] == _RETURN))
    if blank.any():
        rows = rows.filter(pa.array(~blank))
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid:  # not UTF-8: what cannot be read is replaced, which leaves the lines as they are
        return rows_of(body.decode(errors="replace").encode())
    return rows
