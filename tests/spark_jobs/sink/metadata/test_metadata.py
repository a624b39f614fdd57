"""RECORD_METADATA of a batch: which fields a record has, in which order, under which flags."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.connector.config import HeaderFormat, MetadataConfig
from spark_jobs.sink.metadata.record_metadata import record_metadata
from tests.spark_jobs.sink.decode.avro_cases import parsed

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
Headers = list[tuple[str, bytes | None]] | None
TYPES = {
    "offsets": pa.int64(), "timestamps": pa.int64(), "keys": pa.string(), "schema_ids": pa.int32(),
    "key_schema_ids": pa.int32(), "headers": HEADERS, "timestamp_types": pa.int32(),
}  # fmt: skip


def texts(count: int = 1, **columns: Any) -> pa.StringArray:
    """The metadata of `count` records; columns given as lists."""
    given: dict[str, Any] = {
        "topic": "t",
        "partition": 3,
        "offsets": list(range(10, 10 + count)),
        "timestamps": [1_000] * count,
        "timestamp_types": 0,
        "keys": ['"k"'] * count,
        "schema_ids": [7] * count,
        "key_schema_ids": None,
        "headers": None,
        "header_format": HeaderFormat.SIMPLE,
        "push_time": 5,
        "fields": MetadataConfig(),
    } | columns
    arrays = {name: pa.array(value, TYPES[name]) for name, value in given.items() if isinstance(value, list)}
    found = record_metadata(**(given | arrays))
    assert isinstance(found, pa.StringArray)
    assert len(found) == count
    return found


def metadata(count: int = 1, **columns: Any) -> list[dict[str, Any]]:
    """The metadata of `count` records, parsed."""
    return [parsed(text) for text in texts(count, **columns).to_pylist()]


def headers(*rows: Headers) -> list[Any]:
    return [row.get("headers") for row in metadata(len(rows), headers=list(rows))]


def test_fields_and_their_order() -> None:
    (row,) = metadata(headers=[[("h", b"v")]], key_schema_ids=[8])
    expected = {
        "topic": "t", "offset": 10, "partition": 3, "CreateTime": 1000, "schema_id": 7,
        "SnowflakeConnectorPushTime": 5, "key": "k", "key_schema_id": 8, "headers": {"h": "v"},
    }  # fmt: skip
    assert row == expected
    assert list(row) == list(expected)


def test_a_null_key_has_no_field_and_an_empty_one_has() -> None:
    assert [row.get("key") for row in metadata(3, keys=[None, '""', '"a"'])] == [None, "", "a"]
    assert "key" not in metadata(2, keys=[None, '"x"'])[0]
    assert all("key" not in row for row in metadata(2, keys=[None, None]))


def test_a_key_is_the_json_that_its_converter_gave() -> None:
    keys = ['"a\\"b"', "5", '{"id":9}', '[1,"x"]', "null", "true"]
    assert [row["key"] for row in metadata(6, keys=keys)] == ['a"b', 5, {"id": 9}, [1, "x"], None, True]


def test_a_schema_id_that_is_not_there_has_no_field() -> None:
    assert [row.get("schema_id") for row in metadata(3, schema_ids=[None, 4, 0])] == [None, 4, 0]
    assert "schema_id" not in metadata(2, schema_ids=[None, 4])[0]
    assert "schema_id" not in metadata(schema_ids=[None])[0]
    assert [row["schema_id"] for row in metadata(2, schema_ids=[-3, 2**31 - 1])] == [-3, 2**31 - 1]


def test_a_record_without_a_key_has_no_key_schema_id() -> None:
    rows = metadata(3, keys=['"a"', None, '"b"'], key_schema_ids=[1, 1, None])
    assert [row.get("key_schema_id") for row in rows] == [1, None, None]
    assert ["key_schema_id" in row for row in rows] == [True, False, False]


def test_a_topic_with_odd_characters_stays_whole() -> None:
    assert metadata(topic='a"b')[0]["topic"] == 'a"b'


def test_timestamp_types_by_row() -> None:
    rows = metadata(3, timestamp_types=[0, 1, -1])
    assert [row.get("CreateTime") for row in rows] == [1000, None, None]
    assert [row.get("LogAppendTime") for row in rows] == [None, 1000, None]
    assert metadata(2, timestamp_types=[1, 1])[0]["LogAppendTime"] == 1000
    assert "CreateTime" not in metadata(timestamp_types=-1)[0]


def test_the_timestamp_is_iso_text_in_utc_where_it_is_asked_for() -> None:
    asked = MetadataConfig(create_time=False, timestamp=True)
    moments = [1_722_513_845_678, 0, -1, 253_402_300_800_000, -62_135_596_800_000]
    rows = metadata(5, fields=asked, timestamps=moments, timestamp_types=[0, 1, -1, 0, 0])
    assert [row.get("timestamp") for row in rows] == [
        "2024-08-01T12:04:05.678Z",
        "1970-01-01T00:00:00.000Z",
        None,  # a record without a timestamp
        None,  # year 10000
        "0001-01-01T00:00:00.000Z",
    ]
    assert metadata(fields=asked)[0]["timestamp"] == "1970-01-01T00:00:01.000Z"
    assert "timestamp" not in metadata(fields=asked, timestamp_types=-1)[0]
    assert "timestamp" not in metadata()[0]


@pytest.mark.parametrize("flags", [*itertools.product([True, False], repeat=4)], ids=str)
def test_each_flag_takes_its_own_fields_away(flags: tuple[bool, ...]) -> None:
    topic, offset, create_time, push_time = flags
    fields = MetadataConfig(
        topic=topic, offset_and_partition=offset, create_time=create_time, push_time=push_time
    )  # fmt: skip
    expected = {"schema_id", "key"}
    expected |= {"topic"} if topic else set()
    expected |= {"offset", "partition"} if offset else set()
    expected |= {"CreateTime"} if create_time else set()
    expected |= {"SnowflakeConnectorPushTime"} if push_time else set()
    assert set(metadata(fields=fields)[0]) == expected


def test_without_all_fields_the_column_is_null() -> None:
    assert texts(2, fields=MetadataConfig(all=False)).to_pylist() == [None, None]


def test_a_record_may_have_no_field_at_all() -> None:
    nothing = MetadataConfig(topic=False, offset_and_partition=False, create_time=False, push_time=False)
    assert metadata(2, fields=nothing, keys=[None, None], schema_ids=[None, None]) == [{}, {}]
    assert metadata(2, fields=nothing, keys=[None, "1"], schema_ids=[None, None]) == [{}, {"key": 1}]


def test_records_without_headers_have_no_field() -> None:
    assert headers(None, [], [("a", b"x")], None) == [None, None, {"a": "x"}, None]
    assert headers(None, []) == [None, None]


def test_the_last_of_equal_headers_wins() -> None:
    assert headers([("d", b"1"), ("e", b"x"), ("d", b"2")], [("d", b"3")]) == [{"d": 2, "e": "x"}, {"d": 3}]


@pytest.mark.parametrize(
    ("header_format", "expected"), [(HeaderFormat.SIMPLE, 5), (HeaderFormat.STRING, "5"), (HeaderFormat.BYTES, "NQ==")]
)
def test_the_header_format_decides_what_a_value_is(header_format: HeaderFormat, expected: object) -> None:
    assert metadata(headers=[[("n", b"5")]], header_format=header_format)[0]["headers"] == {"n": expected}


def test_an_empty_batch() -> None:
    assert metadata(0, headers=[], timestamp_types=[], key_schema_ids=[]) == []
    assert metadata(0, fields=MetadataConfig(topic=False)) == []


def test_slices_give_the_rows_of_the_slice() -> None:
    whole = pa.record_batch(
        {
            "offset": pa.array([1, 2, 3, 4], pa.int64()),
            "key": pa.array(['"a"', None, "7", '"d"'], pa.string()),
            "headers": pa.array([[("x", b"1")], [("y", b"two"), ("z", None)], None, [("w", b"true")]], HEADERS),
        }
    ).slice(1, 3)
    rows = metadata(3, offsets=whole.column("offset"), keys=whole.column("key"), headers=whole.column("headers"))
    assert [row["offset"] for row in rows] == [2, 3, 4]
    assert [row.get("key") for row in rows] == [None, 7, "d"]
    assert [row.get("headers") for row in rows] == [{"y": "two", "z": None}, None, {"w": True}]


ROW = st.fixed_dictionaries(
    {
        "keys": st.none() | st.sampled_from(['"k,"', '""', "5", "null", '{"a":[1]}', '"\\u0000"']),
        "schema_ids": st.none() | st.integers(0, 3),
        "key_schema_ids": st.none() | st.integers(0, 3),
        "timestamp_types": st.sampled_from([-1, 0, 1]),
        "headers": st.none() | st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=6)), max_size=3),
    }
)


@settings(max_examples=200, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=5), st.tuples(*[st.booleans()] * 4), st.sampled_from(HeaderFormat), st.text())
def test_whatever_a_record_has_its_metadata_is_json(
    rows: list[dict[str, Any]], flags: tuple[bool, ...], header_format: HeaderFormat, topic: str
) -> None:
    names = ("topic", "offset_and_partition", "create_time", "push_time")
    fields = MetadataConfig(**dict(zip(names, flags, strict=True)))
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    found = metadata(len(rows), fields=fields, header_format=header_format, topic=topic, **columns)
    for row, record in zip(found, rows, strict=True):
        assert ("key" in row) is (record["keys"] is not None)
        assert row.get("schema_id") == record["schema_ids"]
        assert ("CreateTime" in row) is (fields.create_time and record["timestamp_types"] == 0)
        assert set(row.get("headers", {})) == {name for name, _ in record["headers"] or []}
        assert row.get("topic") == (topic if fields.topic else None)
