"""How much text one batch may become, and the error where it is more: its caller takes the batch in halves.

A batch of a few megabytes can name gigabytes of text that its schema brings. Sizes are counted, since Arrow reports
some overflows of its arrays and not others. Not for the text of a single record (`rows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_jobs.sink.decode.base.contract import MAX_TEXT, OutputTooLargeError

MAX_BYTES = 2 * MAX_TEXT
"""Bytes of UTF-8 in one batch: a worker holds them two or three times. The longest record of Snowflake fits in."""


def string_array(texts: Iterable[str | bytes | None]) -> pa.StringArray:
    """The array of `texts` (bytes: UTF-8), which are asked for one by one. Raises OutputTooLargeError."""
    found: list[str | bytes | None] = []
    size = 0
    for text in texts:
        if text is not None:
            size += len(text) if isinstance(text, bytes) or text.isascii() else len(text.encode())
            if size > MAX_BYTES:
                raise OutputTooLargeError
        found.append(text)
    return pa.array(found, pa.string())


def one_array(arrays: Iterable[pa.StringArray]) -> pa.StringArray:
    """The arrays, which are asked for one by one, one behind the other. Raises OutputTooLargeError."""
    found: list[pa.StringArray] = []
    size = 0
    for array in arrays:
        size += text_bytes(array)
        if size > MAX_BYTES:
            raise OutputTooLargeError
        if len(array):
            found.append(array)
    if len(found) == 1:
        return found[0]
    return pa.concat_arrays(found) if found else pa.nulls(0, pa.string())


def check_size(*arrays: pa.StringArray) -> None:
    """Raise OutputTooLargeError where the texts of all arrays are too much for one."""
    if sum(map(text_bytes, arrays)) > MAX_BYTES:
        raise OutputTooLargeError


def text_bytes(texts: pa.StringArray) -> int:
    """Bytes of all texts of an array, which may be a slice."""
    bounds = text_bounds(texts)
    return int(bounds[-1]) - int(bounds[0])


def text_bounds(texts: pa.StringArray) -> npt.NDArray[np.int32]:
    """Where each text begins in the array's data, and the last one ends (n + 1 for n texts); null takes no bytes."""
    if not len(texts):
        return np.zeros(1, np.int32)
    return np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]


@contextmanager
def counted_by_arrow() -> Iterator[None]:
    """Turns what Arrow says of a column that becomes too long into OutputTooLargeError."""
    try:
        yield
    except pa.ArrowCapacityError as error:
        raise OutputTooLargeError from error
