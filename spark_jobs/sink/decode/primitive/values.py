"""Strings, bytes, booleans and numbers, as Kafka's serializers write them, a whole column at a time.

A string or bytes is never malformed, only too large: what is not UTF-8 gets replacement characters, as in Java, and
bytes become base64. A boolean or number is big-endian and of an exact size. Sources: Connect's StringConverter and
ByteArrayConverter; Kafka's Boolean-, Short-, Integer-, Long-, Float- and DoubleDeserializer, which Connect's converters
of these names use. Not for JSON in a string (`json.plain`), or numbers in JSON or Avro.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firn.connector.formats import Format
from spark_jobs.sink.decode.base import contract
from spark_jobs.sink.decode.base.capacity import counted_by_arrow, text_bytes
from spark_jobs.sink.decode.base.contract import Decoded
from spark_jobs.sink.decode.base.rows import no_schema_ids
from spark_jobs.sink.decode.base.texts import base64_strings, double_texts, json_strings, utf8_text
from spark_jobs.sink.values.bad_records import SCHEMA_MISMATCH, TOO_LARGE, WRONG_SIZE, BadRecord

_DETAIL = f"the record becomes more than {contract.MAX_TEXT} characters of JSON"


class StringDecoder:
    """UTF-8 text to a JSON string; an empty value is the empty string."""

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode one batch (n rows in, n out; null stays null)."""
        with counted_by_arrow():
            return _judged(json_strings(utf8_text(values)))


class BytesDecoder:
    """Bytes to a JSON string of base64 (RFC 4648, with padding)."""

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode one batch (n rows in, n out; null stays null)."""
        with counted_by_arrow():
            return _judged(base64_strings(values))


def _judged(texts: pa.StringArray) -> Decoded:
    """The texts without those that are too large for a record."""
    bad: tuple[BadRecord, ...] = ()
    if text_bytes(texts) > contract.MAX_TEXT:
        over = pc.fill_null(pc.greater(pc.utf8_length(texts), contract.MAX_TEXT), fill_value=False)
        texts = pc.if_else(over, pa.scalar(None, pa.string()), texts)
        rows = np.flatnonzero(over.to_numpy(zero_copy_only=False))
        bad = tuple(BadRecord(int(row), TOO_LARGE, _DETAIL) for row in rows)
    return Decoded(texts, no_schema_ids(len(texts)), bad)


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
