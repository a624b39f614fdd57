"""Messages of librdkafka's Python client as Arrow columns: whole columns from joined buffers, not a value at a time.

Not for reading them (`firn.kafka.ranges`), nor for what their bytes mean.
"""

from __future__ import annotations

from itertools import chain, islice
from operator import itemgetter
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from confluent_kafka import Message

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
RECORDS = pa.schema(
    [
        ("offset", pa.int64()),
        ("timestamp", pa.int64()),
        ("timestamp_type", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("fault", pa.string()),
    ]
)
"""A record: offset, Unix milliseconds, what these are (0 creation, 1 appended to the log, -1 none), key, value, headers
(null where it has none), and what of it cannot be read (null where all can): it has no headers then."""

_FIRST, _SECOND = itemgetter(0), itemgetter(1)
_ENTRY_BYTES = 100
"""What an entry costs beside its name and value, so that many empty ones are not free."""
_HeaderLists = list[list[tuple[str, bytes | None]] | None]


class MessageColumns:
    """The records of one batch, as they are added. size: bytes of keys, values and headers.

    No message is kept: their memory is used again by those that come next, while it is in the processor's cache.
    """

    def __init__(self) -> None:
        self.size = self._count = 0
        self._offsets: list[npt.NDArray[np.int64]] = []
        self._times: list[npt.NDArray[np.int64]] = []  # what a timestamp is, and its milliseconds, in turns
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers = _Headers()
        self._faults: dict[int, str] = {}

    def __len__(self) -> int:
        return self._count

    def add(self, messages: list[Message]) -> None:
        """Take over more messages, none of which is an error."""
        keys, values = list(map(Message.key, messages)), list(map(Message.value, messages))
        headers, count = self._headers_of(messages), len(messages)
        self._offsets.append(np.fromiter(map(Message.offset, messages), np.int64, count))
        times = chain.from_iterable(map(Message.timestamp, messages))
        self._times.append(np.fromiter(times, np.int64, 2 * count))
        self._count += count
        self._keys += keys
        self._values += values
        self.size += _size(keys) + _size(values) + self._headers.add(headers)

    def _headers_of(self, messages: list[Message]) -> _HeaderLists:
        """The headers of more messages; a name that is not UTF-8 is a fault of its record.

        Each message is asked once: after the error, librdkafka's Python client gives out the list with a hole in memory
        in place of the name.
        """
        lists: _HeaderLists = []
        while len(lists) < len(messages):
            try:
                lists.extend(cast("_HeaderLists", map(Message.headers, islice(messages, len(lists), None))))
            except SystemError:
                self._faults[len(self) + len(lists)] = "the name of a header is not UTF-8"
                lists.append(None)
        return lists

    def batch(self) -> pa.RecordBatch:
        """The records as columns."""
        times = np.concatenate(self._times)
        kinds = times[::2].astype(np.int32) - 1  # librdkafka: 0 none, 1 creation, 2 append
        columns = [
            pa.array(np.concatenate(self._offsets)),
            pa.array(times[1::2].copy()),
            pa.array(kinds),
            binary_array(self._keys),
            binary_array(self._values),
            self._headers.array(),
            pa.array([self._faults.get(row) for row in range(len(self))], pa.string())
            if self._faults
            else pa.nulls(len(self), pa.string()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=RECORDS)


class _Headers:
    """The headers of records, flattened: mostly there are none, or the same few names in each record."""

    def __init__(self) -> None:
        self._counts: list[int] = []
        self._none: list[bool] = []
        self._names: list[str] = []
        self._values: list[bytes | None] = []

    def add(self, lists: _HeaderLists) -> int:
        """Take over the headers of more records; returns the bytes of their values."""
        self._none += [each is None for each in lists]
        if lists.count(None) == len(lists):
            self._counts += [0] * len(lists)
            return 0
        given = [each or [] for each in lists]
        self._counts += map(len, given)
        entries = list(chain.from_iterable(given))
        values = list(map(_SECOND, entries))
        self._names += map(_FIRST, entries)
        self._values += values
        return _size(values) + sum(map(len, map(_FIRST, entries))) + _ENTRY_BYTES * len(entries)

    def array(self) -> pa.ListArray:
        """One list a record; null where it has none."""
        if not self._names and all(self._none):
            return pa.nulls(len(self._counts), HEADERS)
        bounds = np.zeros(len(self._counts) + 1, np.int32)
        np.cumsum(self._counts, out=bounds[1:])
        numbers = {name: number for number, name in enumerate(dict.fromkeys(self._names))}
        codes = np.fromiter(map(numbers.__getitem__, self._names), np.int32, len(self._names))
        names = pa.array(list(numbers), pa.string()).take(pa.array(codes))
        items = pa.StructArray.from_arrays([names, binary_array(self._values)], fields=list(HEADERS.value_type))
        mask = pa.array(self._none) if any(self._none) else None
        return pa.ListArray.from_arrays(pa.array(bounds), items, type=HEADERS, mask=mask)


def _size(values: list[bytes | None]) -> int:
    try:
        return sum(map(len, values))  # type: ignore[arg-type]
    except TypeError:  # nulls among them
        return sum(len(value) for value in values if value)


def binary_array(values: list[bytes | None]) -> pa.BinaryArray:
    """The same as `pa.array(values, pa.binary())`, from joined bytes: in a third of its time.

    Raises pyarrow's ArrowCapacityError for more bytes than one array holds.
    """
    nulls = values.count(None)
    if nulls == len(values):
        return pa.nulls(nulls, pa.binary())
    validity, texts = None, cast("list[bytes]", values)
    if nulls:
        validity = pa.array([value is not None for value in values]).buffers()[1]
        texts = [value or b"" for value in values]
    bounds = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)), out=bounds[1:])
    if bounds[-1] > np.iinfo(np.int32).max:
        raise pa.ArrowCapacityError(f"{bounds[-1]} bytes do not fit into one array")
    buffers = [validity, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(pa.binary(), len(texts), buffers, null_count=nulls)
