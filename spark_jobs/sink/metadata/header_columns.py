"""The values of all headers of a batch as JSON text, in the format that the header converter stands for.

Connect's SimpleHeaderConverter guesses what a text is: plain strings and integers are told apart columnwise here, all
others go one by one through `headers`. Not for: which record has which headers (`record_metadata`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firn.connector.config import HeaderFormat
from spark_jobs.sink.decode.base.capacity import text_bounds
from spark_jobs.sink.decode.base.texts import base64_strings, json_strings, utf8_text
from spark_jobs.sink.metadata.headers import header_text

_INTEGER = r"^(?:0|-?[1-9][0-9]{0,17})$"
# Begins like a number and is none: a letter other than e stands in it. Hexadecimal ids are mostly like that.
_IDENTIFIER = r"^[0-9+\-][0-9A-Za-z_.\-]*[A-DF-Za-df-z_][0-9A-Za-z_.\-]*$"
# Connect takes ten characters that begin like a date for one, whatever follows; times have colons.
_DATE_LENGTH = 10


def _plain_first_bytes() -> npt.NDArray[np.bool_]:
    """By first byte: can the value be nothing but a string? Not a number, array, map or what begins with a blank."""
    plain = np.zeros(256, np.bool_)
    plain[0x21:0x7F] = True
    plain[np.frombuffer(b"0123456789+-[{", np.uint8)] = False
    return plain


_PLAIN_FIRST = _plain_first_bytes()
_LITERAL_STARTS = [int.from_bytes(start, "little") for start in (b"nu", b"tr", b"fa")]


def header_texts(values: pa.BinaryArray, header_format: HeaderFormat = HeaderFormat.SIMPLE) -> pa.StringArray:
    """JSON text per header value (n in, n out, never null: a header without a value is the JSON null).

    SIMPLE: what the text looks like, a number, boolean, array, object, date or string. STRING: the text as it is.
    BYTES: base64. What is not UTF-8 gets replacement characters in the first two.
    """
    match header_format:
        case HeaderFormat.SIMPLE:
            texts = _guessed(utf8_text(values))
        case HeaderFormat.STRING:
            texts = json_strings(utf8_text(values))
        case HeaderFormat.BYTES:
            texts = base64_strings(values)
    return pc.fill_null(texts, "null")


def _guessed(text: pa.StringArray) -> pa.StringArray:
    """Columnwise for plain strings and integers, `header_text` for the others."""
    texts = json_strings(text)
    special = np.flatnonzero(~_surely_strings(text))
    if len(special):
        at = pa.array(special)
        mask = np.zeros(len(text), np.bool_)
        mask[special] = True
        texts = pc.replace_with_mask(texts, pa.array(mask), _special(text.take(at), texts.take(at)))
    return texts


def _surely_strings(text: pa.StringArray) -> npt.NDArray[np.bool_]:
    """Rows whose first bytes tell that nothing but a string is possible; the empty text and null are among them."""
    offsets = text_bounds(text)
    data = np.frombuffer(text.buffers()[2] or b"", np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    sure: npt.NDArray[np.bool_] = lengths == 0
    some = np.flatnonzero(lengths >= 2)
    first, second = data[starts[some]], data[starts[some] + 1]
    literal = np.isin(first.astype(np.int32) | second.astype(np.int32) << 8, _LITERAL_STARTS)
    sure[some] = _PLAIN_FIRST[first] & ~literal
    one = np.flatnonzero(lengths == 1)
    sure[one] = _PLAIN_FIRST[data[starts[one]]]
    return sure


def _special(text: pa.StringArray, as_string: pa.StringArray) -> pa.StringArray:
    """The texts of values that may be no strings; `as_string` is what they are if they are."""
    may_be_date = pc.equal(pc.binary_length(text), _DATE_LENGTH)
    identifier = pc.and_not(pc.match_substring_regex(text, _IDENTIFIER), may_be_date)
    found = pc.if_else(pc.match_substring_regex(text, _INTEGER), text, pa.scalar(None, pa.string()))
    found = pc.if_else(identifier, as_string, found)
    if found.null_count:
        others = [
            None if value is None else header_text(value.encode()) for value in text.filter(found.is_null()).to_pylist()
        ]
        found = pc.replace_with_mask(found, found.is_null(), pa.array(others, pa.string()))
    return found
