"""Whole batches of Protobuf messages say the same, byte for byte, as the same messages one by one."""

from __future__ import annotations

import json
import struct
from functools import cache
from unittest.mock import patch

import pyarrow as pa
import pytest
from google.protobuf.descriptor import FileDescriptor
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firn.connector.config import ProtobufOptions
from firn.registry import protobuf_schema
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.base import contract
from spark_jobs.sink.decode.base.contract import Decoded
from spark_jobs.sink.decode.base.rows import RowDecoder
from spark_jobs.sink.decode.protobuf import converter
from spark_jobs.sink.decode.protobuf.vector import MessageVectors
from tests.spark_jobs.sink.decode.framed_cases import FRAME, decoder

CHECKS = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
FIRST = FRAME + b"\0"
PROTO3 = """
syntax = "proto3";
import "google/protobuf/timestamp.proto";
enum State { OPEN = 0; PAID = 3; REFUND = -1; }
message Row {
  int64 i64 = 1; optional int32 i32 = 2; optional string maybe = 3; bytes raw = 4; bool boo = 5; float flo = 6;
  uint64 u64 = 7; sint32 s32 = 8; fixed64 f64 = 9; double dou = 10; State state = 11;
  google.protobuf.Timestamp at = 12; string str = 13; optional double odd = 14; optional State maybe_state = 15;
  oneof payment { string card = 16; int32 cash = 17; }
  repeated int32 numbers = 18; Row inner = 19;
}
message Second { int32 n = 1; }
"""
PROTO2 = """
syntax = "proto2";
enum State { OPEN = 0; PAID = 3; }
message Row {
  required int64 i64 = 1; optional int32 i32 = 2 [default = 5]; optional string str = 3; optional bytes raw = 4;
  optional bool boo = 5; optional State state = 11;
}
"""


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


NUMBERS = st.one_of(st.integers(-2, 130), st.integers(-(2**63), 2**64 - 1))
LENGTHY = st.one_of(
    st.text().map(str.encode),
    st.binary(max_size=6),
    st.builds(lambda s, n: b"\x08" + varint(s) + b"\x10" + varint(n), NUMBERS, st.integers(0, 2_000_000_000)),
)
DOUBLES = st.one_of(st.floats(), st.sampled_from([0.0, -0.0, 1e-4, 9e-5, 1e10, 1e15, 1e16, 12.5]))
FLOATS = st.floats(width=32)


@st.composite
def fields(draw: st.DrawFn) -> bytes:
    """One field of a message, mostly of the type that its number has."""
    number = draw(st.integers(1, 20))
    wire = {3: 2, 4: 2, 6: 5, 9: 1, 10: 1, 12: 2, 13: 2, 14: 1, 16: 2, 18: 2, 19: 2}.get(number, 0)
    wire = draw(st.sampled_from([wire] * 9 + [0, 1, 2, 5]))
    tag = varint(number << 3 | wire)
    if wire == 0:
        return tag + varint(draw(NUMBERS))
    if wire == 2:
        value = draw(LENGTHY)
        return tag + varint(len(value)) + value
    return tag + (struct.pack("<d", draw(DOUBLES)) if wire == 1 else struct.pack("<f", draw(FLOATS)))


MESSAGES = st.lists(fields(), max_size=8).map(b"".join)


@cache
def file_of(text: str) -> FileDescriptor:
    return protobuf_schema.root_file(RegisteredSchema("PROTOBUF", text))


@pytest.fixture(autouse=True)
def _compile_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converter, "root_file", lambda schema: file_of(schema.text))


def both(text: str, *values: bytes, options: ProtobufOptions | None = None) -> tuple[Decoded, Decoded]:
    schema, array = RegisteredSchema("PROTOBUF", text), pa.array(values, pa.binary())
    with patch.object(MessageVectors, "of", return_value=None):
        rows = decoder(schema, options).decode(array)
    return decoder(schema, options).decode(array), rows


def same(found: Decoded, rows: Decoded) -> bool:
    return found.content.to_pylist() == rows.content.to_pylist() and found.bad == rows.bad


@CHECKS
@given(st.lists(MESSAGES, min_size=1, max_size=6), st.booleans(), st.booleans())
def test_any_bytes_as_a_message(bodies: list[bytes], as_numbers: bool, flat: bool) -> None:
    options = ProtobufOptions(enums_as_numbers=as_numbers, flatten_unions=flat)
    assert same(*both(PROTO3, *[FIRST + body for body in bodies], options=options))


@CHECKS
@given(st.lists(MESSAGES.map(b"\x08\x01".__add__), min_size=1, max_size=6))
def test_any_bytes_as_a_message_of_proto2(bodies: list[bytes]) -> None:
    assert same(*both(PROTO2, *[FIRST + body for body in bodies]))


def test_messages_that_lack_a_required_field_are_bad_in_any_company() -> None:
    found, rows = both(PROTO2, FIRST + b"\x08\x01", FIRST)
    assert same(found, rows)
    assert [each.row for each in found.bad] == [1]


def test_other_messages_of_the_file_go_one_by_one() -> None:
    found, rows = both(PROTO3, FRAME + b"\x02\x02" + b"\x08\x07", FIRST)
    assert same(found, rows)
    assert found.parts == rows.parts == [(1,), (0,)]


def test_plain_messages_never_go_one_by_one() -> None:
    text = "syntax = 'proto3'; message Row { int64 a = 1; string b = 2; double c = 3; }"
    row = GetMessageClass(file_of(text).message_types_by_name["Row"])
    values = [FIRST + row(a=at, b=f'"{at}"', c=at / 8).SerializeToString() for at in range(1000)]
    with patch.object(RowDecoder, "decode", side_effect=AssertionError):
        found = decoder(RegisteredSchema("PROTOBUF", text)).decode(pa.array(values))
    assert [json.loads(each) for each in found.content.to_pylist()] == [
        {"a": at, "b": f'"{at}"', "c": at / 8} for at in range(1000)
    ]


def test_what_may_become_too_much_text_goes_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "MAX_TEXT", 100)
    found, rows = both(PROTO3, *[FIRST] * 3)
    assert same(found, rows)
    assert len(found.bad) == 3
