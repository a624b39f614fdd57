"""Header values of a batch: as Connect's converters read them and the connector prints them."""

from __future__ import annotations

import base64
import json
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.connector.config import HeaderFormat
from spark_jobs.sink.metadata.header_columns import header_texts
from spark_jobs.sink.metadata.headers import header_text

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


def test_long_values_are_not_remembered() -> None:
    tracemalloc.start()
    try:
        for at in range(300):
            header_text(b'["%d%s"]' % (at, b"x" * 20_000))
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


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
    values = [b"\xff", b"a", b"\xed\xa0\x80"]
    assert header_texts(pa.array(values, pa.binary())).to_pylist() == ['"\ufffd"', '"a"', '"\ufffd"']
    assert header_text(b"\xed\xa0\x80") == '"\ufffd"'


RAW = pa.array([b"5", b"true", b'q"\\\n', b"", None, b"\xff", "Zoë".encode()], pa.binary())


def test_as_text_a_header_value_stays_what_it_is() -> None:
    texts = header_texts(RAW, HeaderFormat.STRING).to_pylist()
    assert [json.loads(text) for text in texts] == ["5", "true", 'q"\\\n', "", None, "\ufffd", "Zoë"]


def test_as_bytes_a_header_value_is_base64() -> None:
    texts = header_texts(RAW, HeaderFormat.BYTES).to_pylist()
    expected = [None if value is None else base64.b64encode(value).decode() for value in RAW.to_pylist()]
    assert [json.loads(text) for text in texts] == expected


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | st.binary(max_size=12), max_size=6), st.sampled_from(HeaderFormat))
def test_any_bytes_give_json_in_every_format(values: list[bytes | None], header_format: HeaderFormat) -> None:
    texts = header_texts(pa.array(values, pa.binary()), header_format).to_pylist()
    assert len(texts) == len(values)
    for text, value in zip(texts, values, strict=True):
        found = json.loads(text)
        assert found is None if value is None else found is not None or value.strip() == b"null"
