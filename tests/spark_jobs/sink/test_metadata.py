"""RECORD_METADATA of a batch, and header values as Connect reads them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.sink.headers import header_text
from spark_jobs.sink.metadata import MetadataFields, header_texts, record_metadata
from tests.spark_jobs.sink.avro_cases import parsed

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
Headers = list[tuple[str, bytes | None]] | None


def metadata(count: int = 1, **columns: Any) -> list[dict[str, Any]]:
    """The metadata of `count` records, parsed; columns given as lists."""
    given: dict[str, Any] = {
        "topic": "t",
        "partition": 3,
        "offsets": pa.array(range(10, 10 + count), pa.int64()),
        "timestamps": pa.array([1_000] * count, pa.int64()),
        "timestamp_types": 0,
        "keys": pa.array([b"k"] * count, pa.binary()),
        "schema_ids": pa.array([7] * count, pa.int32()),
        "headers": None,
        "push_time": 5,
    }
    types = {"keys": pa.binary(), "schema_ids": pa.int32(), "headers": HEADERS, "timestamp_types": pa.int32()}
    for name, value in columns.items():
        given[name] = pa.array(value, types[name]) if isinstance(value, list) else value
    texts = record_metadata(**given)
    assert isinstance(texts, pa.StringArray)
    return [parsed(text) for text in texts.to_pylist()]


def headers(*rows: Headers) -> list[Any]:
    return [row.get("headers") for row in metadata(len(rows), headers=list(rows))]


def test_fields_and_their_order() -> None:
    (row,) = metadata(headers=[[("h", b"v")]])
    assert row == {
        "topic": "t", "offset": 10, "partition": 3, "CreateTime": 1000, "schema_id": 7,
        "SnowflakeConnectorPushTime": 5, "key": "k", "headers": {"h": "v"},
    }  # fmt: skip
    assert list(row) == [
        "topic", "offset", "partition", "CreateTime", "schema_id", "SnowflakeConnectorPushTime", "key", "headers",
    ]  # fmt: skip


def test_a_null_key_has_no_field_and_an_empty_one_has() -> None:
    assert [row.get("key") for row in metadata(3, keys=[None, b"", b"a"])] == [None, "", "a"]
    assert "key" not in metadata(2, keys=[None, b"x"])[0]
    assert all("key" not in row for row in metadata(2, keys=[None, None]))


def test_keys_are_text_whatever_they_look_like() -> None:
    keys = [b'{"a":1}', b'q"\\\n\x01', "Zoë 😀".encode(), b"5"]
    assert [row["key"] for row in metadata(4, keys=keys)] == ['{"a":1}', 'q"\\\n\x01', "Zoë 😀", "5"]


def test_a_key_that_is_not_utf8_gets_replacement_characters() -> None:
    assert [row.get("key") for row in metadata(3, keys=[b"a\xff", None, b"b"])] == ["a\ufffd", None, "b"]


def test_a_topic_with_odd_characters_stays_whole() -> None:
    assert metadata(topic='a"b')[0]["topic"] == 'a"b'


def test_a_tombstone_has_schema_id_0() -> None:
    assert [row["schema_id"] for row in metadata(2, schema_ids=[None, 4])] == [0, 4]


def test_timestamp_types_by_row() -> None:
    rows = metadata(3, timestamp_types=[0, 1, -1])
    assert [row.get("CreateTime") for row in rows] == [1000, None, None]
    assert [row.get("LogAppendTime") for row in rows] == [None, 1000, None]
    assert metadata(2, timestamp_types=[1, 1])[0]["LogAppendTime"] == 1000
    assert "CreateTime" not in metadata(timestamp_types=-1)[0]


def test_fields_that_are_switched_off() -> None:
    (row,) = metadata(push_time=None, fields=MetadataFields(topic=False, offset_and_partition=False))
    assert row == {"schema_id": 7, "CreateTime": 1000, "key": "k"}
    rows = metadata(2, timestamp_types=[-1, 0], fields=MetadataFields(topic=False, offset_and_partition=False))
    assert ["CreateTime" in row for row in rows] == [False, True]


def test_records_without_headers_have_no_field() -> None:
    assert headers(None, [], [("a", b"x")], None) == [None, None, {"a": "x"}, None]
    assert headers(None, []) == [None, None]


def test_the_last_of_equal_headers_wins() -> None:
    assert headers([("d", b"1"), ("e", b"x"), ("d", b"2")], [("d", b"3")]) == [{"d": 2, "e": "x"}, {"d": 3}]


def test_an_empty_batch() -> None:
    assert metadata(0, headers=[], timestamp_types=[]) == []


def test_slices_give_the_rows_of_the_slice() -> None:
    whole = pa.record_batch(
        {
            "offset": pa.array([1, 2, 3, 4], pa.int64()),
            "key": pa.array([b"a", None, b'"', b"d"], pa.binary()),
            "headers": pa.array([[("x", b"1")], [("y", b"two"), ("z", None)], None, [("w", b"true")]], HEADERS),
        }
    ).slice(1, 3)
    rows = metadata(3, offsets=whole.column("offset"), keys=whole.column("key"), headers=whole.column("headers"))
    assert [row["offset"] for row in rows] == [2, 3, 4]
    assert [row.get("key") for row in rows] == [None, '"', "d"]
    assert [row.get("headers") for row in rows] == [{"y": "two", "z": None}, None, {"w": True}]


# What org.apache.kafka.connect.data.Values makes of a header, as the connector prints it.
VALUES = [
    ("abc", '"abc"'),
    ("", '""'),
    (" ", '" "'),
    ("5", "5"),
    ("+5", "5"),
    ("007", "7"),
    ("-0", "0"),
    (" 5 ", "5"),
    ("5 apples", '"5 apples"'),
    ("1.0", "1"),
    ("1e5", "100000"),
    ("1.5", "1.5"),
    ("0.5", "0.5"),
    ("-.5", "-0.5"),
    (".5", '".5"'),
    ("1.", "1"),
    ("1e", '"1e"'),
    ("3.14159265358979", "3.1415927"),
    ("1e39", "1e+39"),
    ("9223372036854775807", "9223372036854775807"),
    ("9223372036854775808", "9223372036854775808"),
    ("9" * 39, f'"{"9" * 39}"'),
    ("407127e212797209", '"407127e212797209"'),
    ("1e99999999999", '"1e99999999999"'),
    ("74320e6e26adc8f8", '"74320e6e26adc8f8"'),
    ("1_000", '"1_000"'),
    ("true", "true"),
    ("false ", "false"),
    ("null", "null"),
    ("nullable", '"nullable"'),
    ("true}", '"true}"'),
    ("True", '"True"'),
    ("NaN", '"NaN"'),
    ("-Infinity", '"-Infinity"'),
    ("http://a:80/x?y={1}", '"http://a:80/x?y={1}"'),
    ('"quoted"', '"\\"quoted\\""'),
    ("10.0.0.1", '"10.0.0.1"'),
    ("00-4bf92f3577b34da6-00f067aa0ba902b7-01", '"00-4bf92f3577b34da6-00f067aa0ba902b7-01"'),
    ("4bf92f35-77b3-4da6-a3ce-929d0e0e4736", '"4bf92f35-77b3-4da6-a3ce-929d0e0e4736"'),
    ("2025-10-10", '"2025-10-10T00:00:00.000Z"'),
    ("2025-10-1x", '"2025-10-01T00:00:00.000Z"'),
    ("2025-13-01", '"2026-01-01T00:00:00.000Z"'),
    ("0000000001", "1"),
    ("12:34:56.789Z", '"12:34:56.789+0000"'),
    ("2025-10-09T08:53:20.123Z", "1760000000123"),
    ("2025-10-09T08:53:20Z", '"2025-10-09T08:53:20Z"'),
    ("[1,2]", "[1,2]"),
    ("[1, 2.5]", "[1.0,2.5]"),
    ("[]", "[]"),
    ("{}", "[]"),
    ("[1] x", "[1]"),
    ("[1,2", '"[1,2"'),
    ("[1,,2]", '"[1,,2]"'),
    ("[1,]", "[1]"),
    ("[a]", '"[a]"'),
    ('["a", "b"]', '["a","b"]'),
    ("[1,null]", '"[1,null]"'),
    ("[null]", "[null]"),
    ('[1,"a"]', '[1,"a"]'),
    ("[[1],[2,3]]", "[[1],[2,3]]"),
    ('{"a":1,"b":2}', '{"a":1,"b":2}'),
    ('{"a":"x","b":1}', '{"a":"x","b":1}'),
    ('{"a":1,"b":null}', '"{\\"a\\":1,\\"b\\":null}"'),
    ('{"a":null}', '{"a":null}'),
    ("{1:2}", "[[1,2]]"),
    ("{a:1}", '"{a:1}"'),
    ('{"a":{"b":[true]}}', '{"a":{"b":[true]}}'),
    ('{"d":"2025-10-10"}', '{"d":"2025-10-10T00:00:00.000Z"}'),
    ("[" * 50_000, f'"{"[" * 50_000}"'),
]  # fmt: skip


@pytest.mark.parametrize(("value", "expected"), VALUES, ids=[value[:30] for value, _ in VALUES])
def test_a_header_value_is_taken_for_what_it_looks_like(value: str, expected: str) -> None:
    assert header_text(value.encode()) == expected


def test_a_batch_of_headers_has_the_same_texts_as_one_by_one() -> None:
    values = [value.encode() for value, _ in VALUES]
    texts = header_texts(pa.array([*values, None], pa.binary())).to_pylist()
    assert [json.loads(text) for text in texts] == [*(json.loads(expected) for _, expected in VALUES), None]


PIECES = st.sampled_from([*'0159+-.eEaftnuZTé:,{}[]"\\ \t', "null", "true", "2025-01-02", "12:34:56.789Z", "1e5", "ab"])


@settings(max_examples=500, deadline=None)
@given(st.lists(st.none() | st.lists(PIECES, max_size=8).map("".join) | st.text(max_size=6), min_size=1, max_size=6))
def test_whatever_the_values_a_batch_agrees_with_one_by_one(values: list[str | None]) -> None:
    raw = [None if value is None else value.encode() for value in values]
    texts = header_texts(pa.array(raw, pa.binary())).to_pylist()
    assert [json.loads(text) for text in texts] == [
        None if value is None else json.loads(header_text(value)) for value in raw
    ]


def test_header_values_that_are_not_utf8_get_replacement_characters() -> None:
    assert header_texts(pa.array([b"\xff", b"a"], pa.binary())).to_pylist() == ['"\ufffd"', '"a"']
