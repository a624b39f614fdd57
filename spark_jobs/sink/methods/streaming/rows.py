"""Rows as channels take them: a JSON object each, built by Arrow out of the columns that `columns` makes.

Keys are column names as Snowflake keeps them, for the default pipe matches by name; a field that has no value is left
out. Values are of the types that Snowflake takes for a column: numbers with all their digits, texts of dates and times
in ISO 8601, JSON for semi-structured columns, hex for BINARY ("Supported data types" of
https://docs.snowflake.com/en/user-guide/snowpipe-streaming/snowpipe-streaming-table-support). To a pipe of the user's
own the row is the whole record, which its SELECT reads as $1.
Not for what the values are (`columns`, `metadata`), nor for appending them (`writer`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.channels.lines import Lines
from firn.snowflake.columns import CONTENT, METADATA, TIMESTAMPS, Kind
from spark_jobs.sink.decode.base.capacity import string_array, text_bounds
from spark_jobs.sink.decode.base.scalars import quoted
from spark_jobs.sink.values.table_loaders import (
    ColumnsLoader,
    PipeLoader,
    RecordLoader,
    TableLoader,
    VariantLoader,
)

_TO_ESCAPE = r'["\\\x00-\x1f]'
_NOT_FINITE = r"^[+-]?[a-zA-Z]"


def rows_of(loader: TableLoader, columns: Sequence[pa.StringArray]) -> Lines:
    """n rows, at least one, of n texts for each of the loader's columns, as `columns` makes them for this loader."""
    match loader:
        case VariantLoader():
            return _lines(_two_variants(*columns))
        case PipeLoader() | RecordLoader():
            return _lines(pc.binary_join_element_wise(columns[0], "\n", ""))
        case ColumnsLoader():
            return _typed(loader, columns)


def _two_variants(metadata: pa.StringArray, content: pa.StringArray) -> pa.StringArray:
    if metadata.null_count or content.null_count:
        return _objects([_field(METADATA, metadata), _field(CONTENT, content)])
    return pc.binary_join_element_wise(f"{{{quoted(METADATA)}:", metadata, f",{quoted(CONTENT)}:", content, "}\n", "")


def _typed(loader: ColumnsLoader, columns: Sequence[pa.StringArray]) -> Lines:
    fields = [
        _field(column.name, _VALUES[column.type.kind](texts))
        for column, texts in zip(loader.columns, columns, strict=True)
        if not column.generated and column.type.kind in _VALUES and texts.null_count < len(texts)
    ]
    count = len(columns[0])
    return _lines(_objects(fields)) if fields else Lines(b"\n".join([b"{}"] * count), count)


def _field(name: str, values: pa.StringArray) -> pa.StringArray:
    """`"name":value`, null where there is no value."""
    return pc.binary_join_element_wise(f"{quoted(name)}:", values, "")


def _objects(fields: Sequence[pa.StringArray]) -> pa.StringArray:
    """JSON objects of the fields that are not null, with the end of their lines."""
    # The empty text in front: Arrow drops a row of nothing but nulls instead of joining it to an empty text.
    inside = pc.ascii_ltrim(pc.binary_join_element_wise("", *fields, ",", null_handling="skip"), ",")
    return pc.binary_join_element_wise("{", inside, "}\n", "")


def _lines(texts: pa.StringArray) -> Lines:
    """Objects that end in a line break, as Arrow holds them one behind the other.

    Blanks between the values of one may be line breaks too, its strings hold none.
    """
    data = _data(texts)
    # One pass over the bytes tells that there is nothing to replace, which is the rule.
    if np.count_nonzero(np.frombuffer(data, np.uint8) <= ord("\r")) > len(texts):
        blank = pc.replace_substring(pc.replace_substring(texts, "\n", " "), "\r", " ")
        data = _data(pc.binary_join_element_wise(blank, "\n", ""))
    return Lines(data[:-1], len(texts))


def _data(texts: pa.StringArray) -> memoryview:
    bounds = text_bounds(texts)
    return memoryview(texts.buffers()[2])[int(bounds[0]) : int(bounds[-1])]


def _as_they_are(texts: pa.StringArray) -> pa.StringArray:
    return texts


def _strings(texts: pa.StringArray) -> pa.StringArray:
    """JSON strings; those with characters to escape are written one by one."""
    plain = pc.binary_join_element_wise('"', texts, '"', "")
    escaped = pc.fill_null(pc.match_substring_regex(texts, _TO_ESCAPE), fill_value=False)
    if not pc.any(escaped).as_py():
        return plain
    written = [json.dumps(text, ensure_ascii=False) for text in texts.filter(escaped).to_pylist()]
    return pc.replace_with_mask(plain, escaped, string_array(written))


def _floats(texts: pa.StringArray) -> pa.StringArray:
    """Numbers; `NaN`, `inf` and `-inf` as strings, for JSON has no such numbers."""
    words = pc.fill_null(pc.match_substring_regex(texts, _NOT_FINITE), fill_value=False)
    if not pc.any(words).as_py():
        return texts
    return pc.if_else(words, pc.binary_join_element_wise('"', texts, '"', ""), texts)


def _moments(texts: pa.StringArray) -> pa.StringArray:
    """ISO 8601 with the letter T in the middle."""
    return _strings(pc.replace_substring(texts, " ", "T", max_replacements=1))


_VALUES: dict[Kind, Callable[[pa.StringArray], pa.StringArray]] = {
    Kind.NUMBER: _as_they_are,
    Kind.FLOAT: _floats,
    Kind.BOOLEAN: _as_they_are,
    Kind.VARCHAR: _strings,
    Kind.BINARY: _strings,
    Kind.DATE: _strings,
    Kind.TIME: _strings,
    **dict.fromkeys(TIMESTAMPS, _moments),
    **dict.fromkeys((Kind.VARIANT, Kind.OBJECT, Kind.ARRAY), _as_they_are),
}
"""The canonical texts of `columns.cells` as JSON, by the type of their column; no other type is ever written."""
