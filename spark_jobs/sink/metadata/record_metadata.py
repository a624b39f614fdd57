"""RECORD_METADATA for a batch of Kafka records: one JSON text per record, made of whole columns.

Fields, names and order are those of the official connector 2.5.0 (RecordService.processRecord), except that schema_id
and SnowflakeConnectorPushTime are there for every format and method, and that `timestamp` can be asked for.
Not for: converting keys and RECORD_CONTENT (`spark_jobs.sink.decode`), or header values (`header_columns`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from firn.connector.config import HeaderFormat, MetadataConfig
from spark_jobs.sink.decode.base.scalars import quoted
from spark_jobs.sink.decode.base.texts import Parts, join, objects
from spark_jobs.sink.metadata.header_columns import header_texts

# Kafka's timestamp types (`firn.kafka.message_columns.RECORDS`); anything else has no timestamp.
CREATE_TIME, LOG_APPEND_TIME = 0, 1
# Unix milliseconds of the years that Snowflake's timestamps have.
_YEAR_1, _YEAR_10000 = -62_135_596_800_000, 253_402_300_800_000


def record_metadata(
    *,
    topic: str,
    partition: int,
    offsets: pa.Int64Array,
    timestamps: pa.Int64Array,
    timestamp_types: pa.Int32Array | int,
    keys: pa.StringArray,
    schema_ids: pa.Int32Array,
    key_schema_ids: pa.Int32Array | None,
    headers: pa.ListArray | None,
    header_format: HeaderFormat,
    push_time: int,
    fields: MetadataConfig,
) -> pa.StringArray:
    """JSON text per record of one topic partition (n rows in every column); all null without `fields.all`.

    timestamps and push_time in Unix milliseconds. timestamp_types: 0 CreateTime, 1 LogAppendTime, else none; one for
    all or one per row. keys: JSON texts; null = no field. schema_ids and key_schema_ids: null = no field, and a record
    without a key has no key_schema_id either.
    headers: list<struct<key: string, value: binary>>; null or empty = no field; of equal names the last one wins.
    """
    if not fields.all:
        return pa.nulls(len(offsets), pa.string())
    parts: Parts = [f',"topic":{quoted(topic)}'] if fields.topic else []
    if fields.offset_and_partition:
        parts += [',"offset":', offsets.cast(pa.string()), f',"partition":{partition}']
    if fields.create_time:
        parts += _timestamp(timestamps, timestamp_types)
    if fields.timestamp:
        parts += _optional("timestamp", _iso_texts(timestamps, timestamp_types))
    parts += _id("schema_id", schema_ids)
    if fields.push_time:
        parts.append(f',"SnowflakeConnectorPushTime":{push_time}')
    parts += _optional("key", keys)
    if key_schema_ids is not None:
        parts += _id("key_schema_id", _of_keys(key_schema_ids, keys))
    if headers is not None:
        parts += _headers(headers, header_format)
    return _object(parts, len(offsets))


def _object(parts: Parts, rows: int) -> pa.StringArray:
    """JSON objects out of fields that each begin with a comma, and of which rows may lack any."""
    if parts and isinstance(parts[0], str):
        texts = join(["{", parts[0][1:], *parts[1:], "}"])
    elif parts:
        texts = join(["{", pc.utf8_slice_codeunits(join(parts), 1), "}"])
    else:
        texts = "{}"
    return pa.repeat(pa.scalar(texts, pa.string()), rows) if isinstance(texts, str) else texts


def _id(name: str, ids: pa.Int32Array) -> Parts:
    """A schema id, mostly the same one in all rows."""
    low, high = pc.min_max(ids).values()
    if low.is_valid and low == high and not ids.null_count:
        return [f',"{name}":{low}']
    return _optional(name, ids.cast(pa.string()))


def _optional(name: str, texts: pa.StringArray) -> Parts:
    """A field of the rows where `texts`, which are JSON, is not null."""
    if texts.null_count == len(texts):
        return []
    parts: Parts = [f',"{name}":', texts]
    return [pc.if_else(texts.is_valid(), join(parts), "")] if texts.null_count else parts


def _of_keys(key_schema_ids: pa.Int32Array, keys: pa.StringArray) -> pa.Int32Array:
    if not keys.null_count:
        return key_schema_ids
    return pc.if_else(keys.is_valid(), key_schema_ids, pa.scalar(None, pa.int32()))


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


def _iso_texts(timestamps: pa.Int64Array, types: pa.Int32Array | int) -> pa.StringArray:
    """JSON texts that a cast to any TIMESTAMP reads; null without a timestamp, and beyond the years that it has.

    Source: https://docs.snowflake.com/en/user-guide/date-time-input-output, "ISO timestamp formats".
    """
    known = pc.is_in(pa.array([types]) if isinstance(types, int) else types, pa.array([CREATE_TIME, LOG_APPEND_TIME]))
    known = pc.and_(known[0] if isinstance(types, int) else known, pc.and_(*_in_years(timestamps)))
    moments = pc.if_else(known, timestamps, pa.scalar(None, pa.int64())).cast(pa.timestamp("ms"))
    return join(['"', pc.replace_substring(moments.cast(pa.string()), " ", "T", max_replacements=1), 'Z"'])


def _in_years(timestamps: pa.Int64Array) -> tuple[pa.BooleanArray, pa.BooleanArray]:
    return pc.greater_equal(timestamps, _YEAR_1), pc.less(timestamps, _YEAR_10000)


def _headers(headers: pa.ListArray, header_format: HeaderFormat) -> Parts:
    offsets = headers.offsets.to_numpy()
    entries = headers.values.slice(offsets[0], offsets[-1] - offsets[0])
    if not len(entries):
        return []
    names, values = entries.flatten()
    texts = header_texts(values, header_format)
    parts: Parts = [',"headers":', objects(offsets - offsets[0], names, texts)]
    some = pa.array(np.diff(offsets) > 0)
    return parts if pc.all(some).as_py() else [pc.if_else(some, join(parts), "")]
