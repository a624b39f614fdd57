"""JSON without a schema: every digit stays, what JSON is not is a bad record, and the quick way says the same."""

from __future__ import annotations

import json
import tracemalloc
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from spark_jobs.sink.decode.base import contract
from spark_jobs.sink.decode.base.contract import MalformedError
from spark_jobs.sink.decode.base.json_text import MAX_DEPTH, number_text
from spark_jobs.sink.decode.json.plain import JsonDecoder, exact_text
from spark_jobs.sink.values.bad_records import INVALID_JSON, INVALID_UTF8, BadRecord
from tests.spark_jobs.sink.decode.avro_cases import parsed
from tests.support.vectors import exact, vectors

QUICK = settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
KAFKA, SNOWFLAKE = JsonDecoder(null_is_tombstone=True), JsonDecoder(null_is_tombstone=False)


def converter(vector: dict[str, Any]) -> str:
    return "SnowflakeJsonConverter" if "snowflake" in vector["value_converter"] else "JsonConverter"


VECTORS = {
    f"{converter(each)} {each['name']}": each
    for each in vectors("records")["vectors"]
    if each["name"].startswith("json:")
}
BIG = next(each["name"] for each in VECTORS.values() if "big" in each["name"])
DIFFERENCES = {
    f"JsonConverter {BIG}": "the official one cuts an integer of more than 64 bits; here it keeps all digits",
    'JsonConverter json:{"a":1}{"b":2}': "the official one drops what follows unseen; here the record is bad",
    'SnowflakeJsonConverter json:{"a":1}{"b":2}': "the official one drops what follows unseen; here the record is bad",
}


def decode(value: bytes, decoder: JsonDecoder = KAFKA) -> str | None:
    decoded = decoder.decode(pa.array([value], pa.binary()))
    assert not decoded.bad
    return decoded.content[0].as_py()  # type: ignore[no-any-return]


def refused(value: bytes) -> BadRecord:
    decoded = KAFKA.decode(pa.array([b"1", value], pa.binary()))
    assert decoded.content.to_pylist() == ["1", None]
    (bad,) = decoded.bad
    assert bad.row == 1
    return bad


def test_the_place_of_nan_is_found_in_little_memory() -> None:
    long = b"a" * 4_000_000
    tracemalloc.start()
    try:
        assert refused(b'["' + long + b'\\"NaN",NaN]').detail.endswith("NaN is not JSON: char 4000009")
        assert tracemalloc.get_traced_memory()[1] < 30 * len(long)
    finally:
        tracemalloc.stop()


def test_a_record_that_is_printed_too_large_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "MAX_TEXT", 10)
    decoded = KAFKA.decode(pa.array([b'"aaaaaaaa"', b'"aaaaaaaaa"', b'[1 , "b"]'], pa.binary()))
    assert decoded.content.to_pylist() == ['"aaaaaaaa"', None, '[1,"b"]']
    assert [(bad.row, bad.reason) for bad in decoded.bad] == [(1, "too_large")]


@pytest.mark.parametrize("name", VECTORS)
def test_content_is_that_of_the_official_connector(name: str) -> None:
    vector = VECTORS[name]
    decoder = KAFKA if name.startswith("JsonConverter") else SNOWFLAKE
    decoded = decoder.decode(pa.array([vector["input"]["value_bytes_utf8"].encode()], pa.binary()))
    text = decoded.content[0].as_py()
    content = "bad" if decoded.bad else {} if text is None else parsed(text)
    for method, output in vector["output"].items():
        if method != "snowpipe_streaming_schematized":
            official = output["RECORD_CONTENT"]
            official = exact(official) if method == "snowpipe_streaming" else official
            assert (content == official) == (name not in DIFFERENCES)


def test_an_integer_beyond_64_bits_keeps_its_digits() -> None:
    assert parsed(decode(BIG.removeprefix("json:").encode()) or "")["big"] == 123456789012345678901234567890


def test_kafka_takes_null_for_a_tombstone_and_snowflake_for_the_json_null() -> None:
    values = pa.array([None, b"null", b"", b" \n", b'"null"', b"[null]"], pa.binary())
    assert KAFKA.decode(values).content.to_pylist() == [None, None, None, None, '"null"', "[null]"]
    assert SNOWFLAKE.decode(values).content.to_pylist() == [None, "null", "null", "null", '"null"', "[null]"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (b'{"a": 1, "a": 2}', '{"a":2}'),
        (b'{"a": 1.10, "a": 12345678901234567890.12}', '{"a":12345678901234567890.12}'),
        ('{"ä": "\\u00e4"}'.encode(), '{"ä":"ä"}'),
        (b'["\\ud800", "\\udc00\\ud800", "\\ud83d\\ude00", "\\\\ud800"]', '["\ufffd","\ufffd\ufffd","😀","\\\\ud800"]'),
        (b'"\\u0000\\u001f"', '"\\u0000\\u001f"'),
        (b"-0", "0"),
        (b"[18446744073709551615, 18446744073709551616]", "[18446744073709551615,18446744073709551616]"),
        (b"\xef\xbb\xbf[1]", "[1]"),
        (b" [ ]\r\n", "[]"),
        (b'{"": ""}', '{"":""}'),
        (b"1e400", '"1e400"'),
        (b"[1, -1e-400]", '[1,"-1e-400"]'),
        (b'{"a":  0.1000000000000000055511151231257827}', '{"a":0.1000000000000000055511151231257827}'),
        (b"[" * MAX_DEPTH + b"]" * MAX_DEPTH, "[" * MAX_DEPTH + "]" * MAX_DEPTH),
    ],
)
def test_what_a_text_becomes(value: bytes, text: str) -> None:
    assert decode(value) == text


@pytest.mark.parametrize(
    "number",
    [
        "1234567890123456789.5",
        "0.10000000000000001",
        "1234567.900000001999",
        "12345678.900000001",
        "1234567890123456.7",
        "12345678901234567e1",
        "9223372036854775809",
        "36893488147419103232",
    ],
)
def test_a_number_that_a_double_would_cut_keeps_its_digits_among_others(number: str) -> None:
    assert decode(f'{{"a":  1, "b":\t{number}, "a" : {number}}}'.encode()) == f'{{"a":{number},"b":{number}}}'


@pytest.mark.parametrize(
    ("value", "reason", "detail"),
    [
        (b'{"NaN":NaN}', INVALID_JSON, "NaN is not JSON: char 7"),
        (b"[1,-Infinity]", INVALID_JSON, "-Infinity is not JSON: char 3"),
        (b'{"a":1}{"b":2}', INVALID_JSON, "char 7"),
        (b'{"a":', INVALID_JSON, "char 5"),
        (b"{'a':1}", INVALID_JSON, "char 1"),
        (b"[01]", INVALID_JSON, "char 2"),
        (b"[1,]", INVALID_JSON, "char"),
        (b'"\n"', INVALID_JSON, "char 1"),
        (b"\0", INVALID_JSON, "char 0"),
        (b'"\xff"', INVALID_UTF8, "byte 1"),
        (b'"\xed\xa0\x80"', INVALID_UTF8, "byte 1"),
        (b"[" * 255 + b"]" * 255, INVALID_JSON, "nested"),
        (b'{"a":' * 100_000, INVALID_JSON, "nested"),
    ],
)
def test_what_is_no_json_is_a_bad_record(value: bytes, reason: str, detail: str) -> None:
    bad = refused(value)
    assert bad.reason == reason
    assert detail in bad.detail


@pytest.mark.parametrize(
    ("token", "is_number"),
    [
        ("9" * 38, True),
        ("1" + "0" * 38, False),
        ("0." + "1" * 37, True),
        ("0." + "1" * 38, False),
        ("0.1000000000000000055511151231257827", True),
        ("1.7976931348623157e308", True),
        ("1.7976931348623159e308", False),
        ("5e-324", True),
        ("2e-324", False),
        ("1.23456789012345e-320", False),
        ("123456789012345678901e300", False),
        ("0e999", True),
        ("-0.0", True),
        ("1e-99999999999999999999", False),
        ("1e99999999999999999999", False),
    ],
)
def test_a_number_that_no_snowflake_number_holds_is_a_string(token: str, is_number: bool) -> None:
    assert number_text(token) == (token if is_number else f'"{token}"')


NUMBERS = st.one_of(
    st.integers(),
    st.integers(-(10**45), 10**45),
    st.floats(allow_nan=False, allow_infinity=False),
    st.from_regex(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,4})?", fullmatch=True).map(Decimal),
)


def same(written: Any, found: Any) -> bool:
    """Whether `found` says what was written; a number may have become a string of the same digits."""
    if isinstance(written, int | float | Decimal) and not isinstance(written, bool):
        number = Decimal(repr(written)) if isinstance(written, float) else Decimal(written)
        return not isinstance(found, bool | None) and Decimal(found) == number
    if isinstance(written, dict):
        return written.keys() == found.keys() and all(same(each, found[name]) for name, each in written.items())
    if isinstance(written, list):
        return len(written) == len(found) and all(map(same, written, found))
    return type(written) is type(found) and written == found


def dumps(value: Any, separators: tuple[str, str], *, ascii_only: bool) -> str:
    """JSON in the style of some writer."""
    match value:
        case dict():
            pairs = (
                json.dumps(name, ensure_ascii=ascii_only)
                + separators[1]
                + dumps(each, separators, ascii_only=ascii_only)
                for name, each in value.items()
            )
            return "{" + separators[0].join(pairs) + "}"
        case list():
            return "[" + separators[0].join(dumps(each, separators, ascii_only=ascii_only) for each in value) + "]"
        case Decimal():
            return str(value)
    return json.dumps(value, ensure_ascii=ascii_only)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ['"', "\\", "\n\0", "😀", "1e999"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)


@QUICK
@given(VALUES, st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", "\t:")]), st.booleans())
@example([12345678901234567890], (",", ":"), True)
def test_whatever_the_writer_no_digit_is_lost(value: Any, separators: tuple[str, str], ascii_only: bool) -> None:
    text = dumps(value, separators, ascii_only=ascii_only)
    assert same(value, parsed(decode(text.encode(), SNOWFLAKE) or ""))


ALPHABET = st.sampled_from([*'{}[]",:0123456789.eE+-\\ \n', "\\ud83d", "\\u0000", "null", "true", "NaN", "é", '"a":'])


def exactly(value: bytes) -> tuple[str | None, str | None]:
    """Text and reason by the exact way alone."""
    try:
        return exact_text(value), None
    except MalformedError as error:
        return None, error.reason


@QUICK
@given(st.lists(st.lists(ALPHABET, max_size=12).map("".join).map(str.encode) | st.binary(max_size=6), max_size=6))
def test_the_quick_way_says_what_the_exact_way_says(values: list[bytes]) -> None:
    decoded = SNOWFLAKE.decode(pa.array(values, pa.binary()))
    reasons = {bad.row: bad.reason for bad in decoded.bad}
    for row, (value, text) in enumerate(zip(values, decoded.content.to_pylist(), strict=True)):
        wanted, reason = exactly(value)
        assert reasons.get(row) == reason
        assert (text and parsed(text)) == (wanted and parsed(wanted))


def test_values_of_16_megabytes() -> None:
    value = json.dumps({"a": "é" * 8_000_000, "n": [1.5] * 100_000}).encode()
    assert parsed(decode(value) or "") == {"a": "é" * 8_000_000, "n": [Decimal("1.5")] * 100_000}
