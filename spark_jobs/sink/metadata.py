"""RECORD_METADATA for a batch of Kafka records: one JSON text per record, made of whole columns.

Fields, names and order are those of the official connector 2.5.0 (RecordService.processRecord), except that schema_id
is always there; a tombstone has 0. Keys are read as by the StringConverter, headers as by the SimpleHeaderConverter.
Not for: keys in other formats than String, and RECORD_CONTENT (`spark_jobs.sink.decode`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.sink.decode.render import Parts, escaped, join, objects
from spark_jobs.sink.decode.scalars import quoted
from spark_jobs.sink.headers import header_text

# Kafka's timestamp types as Spark's source numbers them; anything else has no timestamp.
CREATE_TIME, LOG_APPEND_TIME = 0, 1

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


@dataclass(frozen=True)
class MetadataFields:
    """Which fields to write: the `snowflake.metadata.*` parameters of the same meaning."""

    topic: bool = True
    offset_and_partition: bool = True
    create_time: bool = True


ALL_FIELDS = MetadataFields()


def record_metadata(
    *,
    topic: str,
    partition: int,
    offsets: pa.Int64Array,
    timestamps: pa.Int64Array,
    timestamp_types: pa.Int32Array | int,
    keys: pa.BinaryArray,
    schema_ids: pa.Int32Array,
    headers: pa.ListArray | None,
    push_time: int | None,
    fields: MetadataFields = ALL_FIELDS,
) -> pa.StringArray:
    """JSON text per record of one topic partition (n rows in every column).

    timestamps and push_time in Unix milliseconds; push_time None leaves SnowflakeConnectorPushTime out.
    timestamp_types: 0 CreateTime, 1 LogAppendTime, else none; one for all or one per row.
    keys: null = no field; not UTF-8 = replacement characters. schema_ids: null = tombstone.
    headers: list<struct<key: string, value: binary>>; null or empty = no field; of equal names the last one wins.
    """
    parts: Parts = []
    if fields.topic:
        parts.append(f',"topic":{quoted(topic)}')
    if fields.offset_and_partition:
        parts += [',"offset":', offsets.cast(pa.string()), f',"partition":{partition}']
    schema_id: Parts = [',"schema_id":', pc.fill_null(schema_ids, 0).cast(pa.string())]
    time = _timestamp(timestamps, timestamp_types) if fields.create_time else []
    # A field that some rows lack must not be the first one; a VARIANT keeps no order anyway.
    parts += time + schema_id if parts else schema_id + time
    if push_time is not None:
        parts.append(f',"SnowflakeConnectorPushTime":{push_time}')
    parts += _key(keys)
    if headers is not None:
        parts += _headers(headers)
    return join(["{" + str(parts[0])[1:], *parts[1:], "}"])


def _timestamp(timestamps: pa.Int64Array, types: pa.Int32Array | int) -> Parts:
    if not isinstance(types, int):
        low, high = pc.min_max(types).values()
        if low != high:
            return [_timestamp_by_row(timestamps, types)]
        types = low.as_py()
    name = {CREATE_TIME: "CreateTime", LOG_APPEND_TIME: "LogAppendTime"}.get(types)
    return [f',"{name}":', timestamps.cast(pa.string())] if name else []


def _timestamp_by_row(timestamps: pa.Int64Array, types: pa.Int32Array) -> pa.StringArray:
    appended = pc.equal(types, LOG_APPEND_TIME)
    text = join([pc.if_else(appended, ',"LogAppendTime":', ',"CreateTime":'), timestamps.cast(pa.string())])
    return pc.if_else(pc.or_(appended, pc.equal(types, CREATE_TIME)), text, "")


def _key(keys: pa.BinaryArray) -> Parts:
    parts: Parts = [',"key":"', escaped(_text(keys)), '"']
    return [pc.if_else(keys.is_valid(), join(parts), "")] if keys.null_count else parts


def _text(values: pa.BinaryArray) -> pa.StringArray:
    """Bytes as text; what is not UTF-8 gets replacement characters."""
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()]
        return pa.array(texts, pa.string())


def _headers(headers: pa.ListArray) -> Parts:
    offsets = headers.offsets.to_numpy()
    entries = headers.values.slice(offsets[0], offsets[-1] - offsets[0])
    if not len(entries):
        return []
    names, values = entries.flatten()
    parts: Parts = [',"headers":', objects(offsets - offsets[0], names, header_texts(values))]
    some = pa.array(np.diff(offsets) > 0)
    return parts if pc.all(some).as_py() else [pc.if_else(some, join(parts), "")]


def header_texts(values: pa.BinaryArray) -> pa.StringArray:
    """JSON text per header value: columnwise for plain strings and integers, `header_text` for the others."""
    text = _text(values)
    texts = join(['"', escaped(text), '"'])
    special = np.flatnonzero(~_surely_strings(text))
    if len(special):
        at = pa.array(special)
        mask = np.zeros(len(text), np.bool_)
        mask[special] = True
        texts = pc.replace_with_mask(texts, pa.array(mask), _special(text.take(at), texts.take(at)))
    return pc.fill_null(texts, "null")


def _surely_strings(text: pa.StringArray) -> npt.NDArray[np.bool_]:
    """Rows whose first bytes tell that nothing but a string is possible; the empty text and null are among them."""
    offsets = np.frombuffer(text.buffers()[1], np.int32)[text.offset : text.offset + len(text) + 1]
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
