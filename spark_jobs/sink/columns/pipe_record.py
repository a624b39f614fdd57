"""Whole records as one JSON object a row: what `$1` is to the SELECT of a user's pipe.

Source: the official connector 4, user-defined pipe mode: the record's first-level fields and RECORD_METADATA beside
them. Without schematization RECORD_CONTENT stands in their place, as in the table that the sink makes by itself.
"""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firn.snowflake.columns import CONTENT, METADATA
from spark_jobs.sink.decode.base.capacity import counted_by_arrow

_BLANK = " \t\r\n"
_NAMES = msgspec.json.Decoder(dict[str, msgspec.Raw])


def record_texts(
    content: pa.StringArray, metadata: pa.StringArray, *, fields: bool
) -> tuple[pa.StringArray, tuple[int, ...]]:
    """The objects of n records as JSON text, and the rows that cannot become one, whose text is null.

    content: JSON texts, none null; metadata: JSON texts, null where a record has none and gets no RECORD_METADATA.
    fields: whether the object has the record's fields. Then a record that is no object is refused, and one with a field
    RECORD_METADATA of its own: PARSE_JSON takes no key twice. Raises OutputTooLargeError.
    """
    with counted_by_arrow():
        if not fields:
            return _joined(f'{{"{CONTENT}":', content, ",", metadata), ()
        trimmed = pc.ascii_trim(content, _BLANK)
        refused = _refused(trimmed)
        opened = pc.ascii_rtrim(pc.binary_slice(trimmed.cast(pa.binary()), 0, -1).cast(pa.string()), _BLANK)
        comma = pc.if_else(pc.equal(opened, "{"), "", ",")
        taken = pc.if_else(pa.array(refused), pa.scalar(None, pa.string()), opened)
        return _joined("", taken, comma, metadata), tuple(int(row) for row in np.flatnonzero(refused))


def _joined(
    before: str, content: pa.StringArray, comma: pa.StringArray | str, metadata: pa.StringArray
) -> pa.StringArray:
    """Objects that begin with `before` and `content`; RECORD_METADATA is their last field, if there is one."""
    with_it = pc.binary_join_element_wise(before, content, comma, f'"{METADATA}":', metadata, "}", "")
    if not metadata.null_count:
        return with_it
    return pc.if_else(metadata.is_valid(), with_it, pc.binary_join_element_wise(before, content, "}", ""))


def _refused(content: pa.StringArray) -> npt.NDArray[np.bool_]:
    refused = np.array(pc.invert(pc.starts_with(content, "{")).to_numpy(zero_copy_only=False), np.bool_)
    # A name may be written with escapes too; only few texts have either.
    doubtful = pc.or_(pc.match_substring(content, METADATA), pc.match_substring(content, "\\u"))
    for row in np.flatnonzero(doubtful.to_numpy(zero_copy_only=False)):
        refused[row] = refused[row] or METADATA in _NAMES.decode(content[int(row)].as_py())
    return refused
