"""Strings and bytes as Connect's StringConverter and ByteArrayConverter read them."""

from __future__ import annotations

import base64
import json

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_jobs.sink.decode.base.texts import java_text
from spark_jobs.sink.decode.primitive.values import BytesDecoder, StringDecoder

QUICK = settings(max_examples=100, deadline=None)


def strings(*values: bytes | None) -> list[str | None]:
    decoded = StringDecoder().decode(pa.array(values, pa.binary()))
    assert not decoded.bad
    assert decoded.schema_ids.null_count == len(values)
    return decoded.content.to_pylist()  # type: ignore[no-any-return]


def test_text_is_a_json_string_whatever_is_in_it() -> None:
    assert strings(None, b"", b"1001", b'{"a":1}', b"a\"b\\c\n\0\x1f\x7f") == [
        None, '""', '"1001"', '"{\\"a\\":1}"', '"a\\"b\\\\c\\n\\u0000\\u001f\x7f"',
    ]  # fmt: skip
    assert strings("žluťoučký 😀\u2028".encode()) == ['"žluťoučký 😀\u2028"']


def test_what_is_not_utf8_gets_the_replacement_characters_that_java_gives() -> None:
    assert strings(b"good", None, b"a\xff\xfeb", b"\xe2\x82", b"\xf0\x9f\x98\x80\xc3") == [
        '"good"', None, '"a\ufffd\ufffdb"', '"\ufffd"', '"😀\ufffd"',
    ]  # fmt: skip


def test_half_a_surrogate_pair_is_one_replacement_character_as_in_java() -> None:
    assert strings(b"\xed\xa0\x80", b"a\xed\xa0\xbd\xed\xb8\x80b", b"\xed\xa0", b"\xed\xbfA", b"\xed\x9f\xbf") == [
        '"\ufffd"', '"a\ufffd\ufffdb"', '"\ufffd"', '"\ufffdA"', '"\ud7ff"',
    ]  # fmt: skip


def test_bytes_are_base64() -> None:
    decoded = BytesDecoder().decode(pa.array([None, b"", b"\0\1\2\xfe\xff"], pa.binary()))
    assert decoded.content.to_pylist() == [None, '""', '"AAEC/v8="']
    assert not decoded.bad


def test_values_of_16_megabytes() -> None:
    value = b'"' * (16 * 1024 * 1024)
    assert json.loads(strings(value)[0] or "") == value.decode()
    text = BytesDecoder().decode(pa.array([value], pa.binary())).content[0].as_py()
    assert base64.b64decode(json.loads(text)) == value


@QUICK
@given(
    st.lists(st.none() | st.binary(max_size=12) | st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace")))
)
def test_any_bytes_come_back(values: list[bytes | None]) -> None:
    texts = strings(*values)
    encoded = BytesDecoder().decode(pa.array(values, pa.binary())).content.to_pylist()
    for value, text, base in zip(values, texts, encoded, strict=True):
        assert (text and json.loads(text)) == (None if value is None else java_text(value))
        assert (base and base64.b64decode(json.loads(base))) == value


def test_a_slice_of_a_batch_is_only_itself() -> None:
    values = pa.array([b"\n", b"a", b"b", b"\xff"], pa.binary()).slice(1, 2)
    assert StringDecoder().decode(values).content.to_pylist() == ['"a"', '"b"']
