"""Strings and plain bytes, as Connect's StringConverter and ByteArrayConverter read them, a whole column at a time.

Neither knows a malformed record, only one that is too large: what is not UTF-8 gets replacement characters, as in Java,
and bytes become base64. Not for: JSON in a string (`json_plain`).
"""

from __future__ import annotations

import re
from binascii import b2a_base64

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.sink.decode import records
from spark_jobs.sink.decode.capacity import counted_by_arrow, string_array, text_bytes
from spark_jobs.sink.decode.records import Decoded
from spark_jobs.sink.decode.render import escaped, join
from spark_jobs.sink.decode.rows import no_schema_ids
from spark_jobs.sink.values.bad_records import TOO_LARGE, BadRecord

# A surrogate in three bytes, or the first two of them where the third is missing. Python sees an error in each byte.
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_DETAIL = f"the record becomes more than {records.MAX_TEXT} characters of JSON"
_REPLACEMENT = "\ufffd".encode()


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
        text = string_array(None if value is None else b2a_base64(value, newline=False) for value in values.to_pylist())
        with counted_by_arrow():
            return _judged(join(['"', text, '"']))


def _judged(texts: pa.StringArray) -> Decoded:
    """The texts without those that are too large for a record."""
    bad: tuple[BadRecord, ...] = ()
    if text_bytes(texts) > records.MAX_TEXT:
        over = pc.fill_null(pc.greater(pc.utf8_length(texts), records.MAX_TEXT), fill_value=False)
        texts = pc.if_else(over, pa.scalar(None, pa.string()), texts)
        rows = np.flatnonzero(over.to_numpy(zero_copy_only=False))
        bad = tuple(BadRecord(int(row), TOO_LARGE, _DETAIL) for row in rows)
    return Decoded(texts, no_schema_ids(len(texts)), bad)


def json_strings(text: pa.StringArray) -> pa.StringArray:
    """Each text as a JSON string; null stays null."""
    return join(['"', escaped(text), '"'])


def utf8_text(values: pa.BinaryArray) -> pa.StringArray:
    """Bytes as text; what is not UTF-8 gets replacement characters."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return string_array(None if value is None else java_text(value) for value in values.to_pylist())


def java_text(value: bytes) -> str:
    """The text that Java's decoder gives: replacement characters for what is not UTF-8, one for half a surrogate pair.

    Source: java.lang.String of JDK 17, decodeUTF8.
    """
    try:
        return value.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, value).decode("utf-8", "replace")
