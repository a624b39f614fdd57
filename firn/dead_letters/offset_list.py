"""A set of offsets as short text, for the metadata of a consumer group's offset. No I/O.

Form: `1:<topic id>:<base64 of zlib of varints>`, the varints being the first offset and the steps from each to the next
(7 bits a byte, the lowest first, as in Protobuf). Brokers take 4096 bytes (offset.metadata.max.bytes).
"""

from __future__ import annotations

import binascii
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

LIMIT = 3500
"""Characters that a list may have when more is added to it; what must go on is allowed a little more."""

_VERSION = "1"
_MOST_BYTES = 4 * 1024 * 1024  # of varints: what zlib can put into 4096 characters, and no bomb
_SHIFTS = np.arange(0, 70, 7, dtype=np.uint64)[:9]
Offsets = npt.NDArray[np.int64]
NO_OFFSETS: Offsets = np.empty(0, np.int64)


class UnreadableError(ValueError):
    """The metadata is none of ours."""


class GrowingList:
    """A list to which rising offsets are added; its text costs what is new, however long it is already.

    before: offsets that it holds from the start, in any order; they may lie above those that are added.
    """

    def __init__(self, topic_id: str, before: Iterable[int] = ()) -> None:
        self._head = f"{_VERSION}:{topic_id}:"
        self._ahead = np.sort(np.fromiter(before, np.int64))
        self._last = 0
        self._packer = zlib.compressobj(9)
        self._packed = b""

    def add(self, offsets: Iterable[int]) -> None:
        """Take these over: rising, and above all that were added. Raises ValueError for others."""
        added = np.fromiter(offsets, np.int64)
        if len(added) == 0:
            return
        passed = int(np.searchsorted(self._ahead, added[-1]))
        numbers = np.sort(np.concatenate((added, self._ahead[:passed])))
        self._packed += self._packer.compress(self._steps(numbers))
        self._ahead, self._last = self._ahead[passed:], int(numbers[-1])

    def text(self, more: Iterable[int] = ()) -> str:
        """The metadata that lists all of it and `more`, which is not taken over; errors as `add`."""
        numbers = np.sort(np.concatenate((np.fromiter(more, np.int64), self._ahead)))
        packer = self._packer.copy()
        packed = self._packed + packer.compress(self._steps(numbers)) + packer.flush()
        return self._head + b64encode(packed).decode()

    def _steps(self, numbers: Offsets) -> bytes:
        if len(numbers) and numbers[0] < self._last:
            raise ValueError(f"offset {numbers[0]} comes after {self._last}")
        return _varints(np.diff(numbers, prepend=self._last))


def write_list(topic_id: str, offsets: Iterable[int]) -> str:
    """The metadata that lists `offsets` (0 and above, any order, each once)."""
    return GrowingList(topic_id, offsets).text()


def read_list(metadata: str) -> tuple[str, Offsets]:
    """(topic id, offsets in order) of what `write_list` wrote. Raises UnreadableError for anything else."""
    version, _, rest = metadata.partition(":")
    topic_id, _, body = rest.partition(":")
    if version != _VERSION or not body:
        raise UnreadableError("no list of offsets")
    try:
        inflate = zlib.decompressobj()
        data = inflate.decompress(b64decode(body, validate=True), _MOST_BYTES)
    except (binascii.Error, ValueError, zlib.error) as error:
        raise UnreadableError("the list of offsets is damaged") from error
    if not inflate.eof:
        raise UnreadableError("the list of offsets is cut off")
    return topic_id, np.cumsum(_numbers(data), dtype=np.int64)


def _varints(numbers: Offsets) -> bytes:
    sevens = (numbers.astype(np.uint64)[:, None] >> _SHIFTS) & np.uint64(127)
    places = np.arange(len(_SHIFTS))
    last = np.where(sevens != 0, places, 0).max(axis=1, initial=0)[:, None]
    more = np.where(places < last, np.uint64(128), np.uint64(0))
    return bytes((sevens | more)[places <= last].astype(np.uint8))


def _numbers(data: bytes) -> Offsets:
    octets = np.frombuffer(data, np.uint8).astype(np.int64)
    ends = np.flatnonzero(octets < 128)
    if len(octets) == 0:
        return NO_OFFSETS
    if len(ends) == 0 or ends[-1] != len(octets) - 1:
        raise UnreadableError("the list of offsets is cut off")
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if lengths.max() > len(_SHIFTS):
        raise UnreadableError("an offset is too large")
    places = np.arange(len(octets)) - np.repeat(starts, lengths)
    return np.add.reduceat((octets & 127) << (7 * places), starts)
