"""Kafka's binary booleans and numbers (big-endian, of an exact size), a whole column at a time.

Source: Kafka's Boolean-, Short-, Integer-, Long-, Float- and DoubleDeserializer, which Connect's converters of these
names use. Not for: numbers in JSON or Avro.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firn.connector.config import Format
from spark_jobs.sink.decode.records import Decoded
from spark_jobs.sink.decode.render import double_texts
from spark_jobs.sink.decode.rows import no_schema_ids
from spark_jobs.sink.values.bad_records import SCHEMA_MISMATCH, WRONG_SIZE, BadRecord

DTYPES = {
    Format.BOOLEAN: "u1",
    Format.SHORT: ">i2",
    Format.INTEGER: ">i4",
    Format.LONG: ">i8",
    Format.FLOAT: ">f4",
    Format.DOUBLE: ">f8",
}


class NumberDecoder:
    """Decodes values of one of the formats of DTYPES."""

    def __init__(self, number: Format) -> None:
        self._format, self._dtype = number, np.dtype(DTYPES[number])

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode one batch (n rows in, n out; null stays null)."""
        lengths = pc.fill_null(pc.binary_length(values), -1).to_numpy()
        rows = np.flatnonzero(lengths == self._dtype.itemsize)
        wrong = np.flatnonzero((lengths >= 0) & (lengths != self._dtype.itemsize))
        bad = [BadRecord(int(row), WRONG_SIZE, self._wrong_size(int(lengths[row]))) for row in wrong]
        numbers = np.frombuffer(b"".join(values.take(pa.array(rows)).to_pylist()), self._dtype)
        if self._format is Format.BOOLEAN:
            strange = numbers > 1
            bad += [
                BadRecord(int(row), SCHEMA_MISMATCH, f"the byte 0x{byte:02x} is no boolean: 0x00 or 0x01")
                for row, byte in zip(rows[strange], numbers[strange], strict=True)
            ]
            rows, numbers = rows[~strange], numbers[~strange]
        content = _spread(_texts(numbers), rows, len(values))
        return Decoded(content, no_schema_ids(len(values)), tuple(sorted(bad, key=lambda each: each.row)))

    def _wrong_size(self, length: int) -> str:
        return f"{length} bytes where a {self._format} has {self._dtype.itemsize}"


def _texts(numbers: npt.NDArray[np.generic]) -> pa.StringArray:
    native = pa.array(numbers.astype(numbers.dtype.newbyteorder("=")))
    if numbers.dtype.kind == "f":
        return double_texts(native)
    return (native.cast(pa.bool_()) if numbers.dtype == np.uint8 else native).cast(pa.string())


def _spread(texts: pa.StringArray, rows: npt.NDArray[np.int64], count: int) -> pa.StringArray:
    """`texts` at `rows` of a column of `count` rows, null elsewhere."""
    if len(rows) == count:
        return texts
    at = np.zeros(count, np.int64)
    at[rows] = np.arange(len(rows))
    here = np.zeros(count, np.bool_)
    here[rows] = True
    return texts.take(pa.array(at, mask=~here))
