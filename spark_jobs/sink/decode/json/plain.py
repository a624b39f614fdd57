"""JSON without a schema: Connect's JsonConverter with schemas.enable=false, and Snowflake's own JSON converter.

What a quick parser and printer give is the content where it is the same text but for blanks, or where the text holds
no number that a double could cut; every other record takes the exact way (`base.json_text`).
Not for envelopes and schemas.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.sink.decode.base import contract, json_text
from spark_jobs.sink.decode.base.capacity import string_array
from spark_jobs.sink.decode.base.contract import Decoded
from spark_jobs.sink.decode.base.rows import RowDecoder, no_schema_ids
from spark_jobs.sink.values.bad_records import INVALID_JSON

# Digits that may be more than 64 bits or a double hold, or an exponent beyond a double. A decimal point parts 16
# digits so that ten follow it, or 13 precede it, or seven precede it and four follow.
_LONG_NUMBER = (
    r"[0-9]{19}|\.[0-9]{10}|[0-9]{13}\.|[0-9]{7}\.[0-9]{4}|[0-9]{16}[eE]"
    r"|(?:^|[\[:,\s])-?[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]{3}"
)

_BLANKS = b" \t\r\n"


class JsonDecoder:
    """Decodes JSON texts.

    null_is_tombstone: whether the text `null` and an empty value are null records (JsonConverter), or the JSON null.
    """

    def __init__(self, *, null_is_tombstone: bool) -> None:
        self._null_is_tombstone = null_is_tombstone
        self._exact = RowDecoder(exact_text, INVALID_JSON)

    def decode(self, values: pa.BinaryArray) -> Decoded:
        """Decode one batch (n rows in, n out; null stays null)."""
        content = string_array(_reprinted(value) for value in values.to_pylist())
        decoded = self._settle(values, content)
        if not self._null_is_tombstone:
            return decoded
        is_null = pc.fill_null(pc.equal(decoded.content, "null"), fill_value=False)
        return replace(decoded, content=pc.if_else(is_null, pa.scalar(None, pa.string()), decoded.content))

    def _settle(self, values: pa.BinaryArray, content: pa.StringArray) -> Decoded:
        """`content` where it surely says what `values` say, and the exact way for the other rows."""
        unsure = _unsure(values, content)
        if not len(unsure):
            return Decoded(content, no_schema_ids(len(values)), ())
        return self._exact.override(values, content, unsure)


def exact_text(value: bytes) -> str:
    """The JSON of one value, printed again without losing a digit; an empty value is `null`. Raises MalformedError."""
    text = json_text.utf8(value)
    return "null" if json_text.is_blank(text) else json_text.printed(json_text.exact(text))


def _reprinted(value: bytes | None) -> bytes | str | None:
    """What a quick parser and printer make of a text; None where the exact ones have to look."""
    if value is None:
        return None
    try:
        text = orjson.dumps(orjson.loads(value))
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    if len(text) > contract.MAX_TEXT:
        return None
    # The printer's own bytes are not kept: they were allocated too large, which makes a batch of them slow.
    return value if text == value else text.decode()


def _unsure(values: pa.BinaryArray, content: pa.StringArray) -> npt.NDArray[np.int64]:
    """Rows that were not printed, or perhaps with fewer digits than they had."""
    same = pc.fill_null(pc.equal(content.view(pa.binary()), values), fill_value=False)
    rows = np.flatnonzero(pc.and_not(values.is_valid(), same).to_numpy(zero_copy_only=False))
    if not len(rows):
        return rows
    others = pa.array(rows)
    printed, texts = content.take(others), values.take(others)
    doubtful = pc.or_(printed.is_null(), pc.match_substring_regex(texts, _LONG_NUMBER))
    rows, printed, texts = (
        rows[doubtful.to_numpy(zero_copy_only=False)],
        printed.filter(doubtful),
        texts.filter(doubtful),
    )
    pairs = zip(printed.to_pylist(), texts.to_pylist(), strict=True)
    unsure = [text is None or not _same_but_blanks(text.encode(), value) for text, value in pairs]
    return np.compress(unsure, rows)


def _same_but_blanks(text: bytes, value: bytes) -> bool:
    return text.translate(None, _BLANKS) == value.translate(None, _BLANKS)
