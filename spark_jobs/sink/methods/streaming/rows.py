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

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.channels.client import Row
from firn.snowflake.columns import CONTENT, METADATA, TIMESTAMPS, Kind
from spark_jobs.sink.decode.base.capacity import string_array
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


def rows_of(loader: TableLoader, columns: Sequence[pa.StringArray]) -> list[Row]:
    """n rows out of n texts for each of the loader's columns, as `columns` makes them for this loader."""
    match loader:
        case VariantLoader():
            metadata, content = columns
            return _raw(_objects([_field(METADATA, metadata), _field(CONTENT, content)]))
        case PipeLoader() | RecordLoader():
            return _raw(columns[0])
        case ColumnsLoader():
            return _typed(loader, columns)


def _typed(loader: ColumnsLoader, columns: Sequence[pa.StringArray]) -> list[Row]:
    fields = [
        _field(column.name, _VALUES[column.type.kind](texts))
        for column, texts in zip(loader.columns, columns, strict=True)
        if not column.generated and column.type.kind in _VALUES and texts.null_count < len(texts)
    ]
    return _raw(_objects(fields)) if fields else [msgspec.Raw(b"{}") for _ in range(len(columns[0]))]


def _field(name: str, values: pa.StringArray) -> pa.StringArray:
    """`"name":value`, null where there is no value."""
    return pc.binary_join_element_wise(f"{quoted(name)}:", values, "")


def _objects(fields: Sequence[pa.StringArray]) -> pa.StringArray:
    """JSON objects of the fields that are not null."""
    # The empty text in front: Arrow drops a row of nothing but nulls instead of joining it to an empty text.
    inside = pc.ascii_ltrim(pc.binary_join_element_wise("", *fields, ",", null_handling="skip"), ",")
    return pc.binary_join_element_wise("{", inside, "}", "")


def _raw(objects: pa.StringArray) -> list[Row]:
    """Each object as the bytes of one line: blanks between its values may be line breaks, its strings hold none."""
    if _has_line_breaks(objects):
        objects = pc.replace_substring(pc.replace_substring(objects, "\n", " "), "\r", " ")
    return list(map(msgspec.Raw, objects.cast(pa.binary()).to_pylist()))


def _has_line_breaks(texts: pa.StringArray) -> bool:
    data = texts.buffers()[2]
    if data is None:
        return False
    seen = np.frombuffer(data, np.uint8)
    return bool((seen == ord("\n")).any() or (seen == ord("\r")).any())


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
