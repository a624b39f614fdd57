"""Protobuf with its schema in the registry: the rows of Confluent's ProtobufConverter, and what is bad."""

from __future__ import annotations

import json
from base64 import b64encode
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firn.connector.config import ProtobufOptions
from firn.registry.protobuf_schema import root_file
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.base import contract, rows
from spark_jobs.sink.decode.base.contract import Decoded, Decoder
from tests.spark_jobs.sink.decode.framed_cases import FRAME, decode, decoder, only, reason, references

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
FIRST = FRAME + b"\0"
"""The frame of the first message of the file."""

EVERYTHING = """
syntax = "proto3";
package shop.v1;
import "confluent/meta.proto";
import "confluent/type/decimal.proto";
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/type/date.proto";
import "google/type/timeofday.proto";
import "shop/address.proto";

enum State { OPEN = 0; PAID = 3; }
message Order {
  message Line { string sku = 1; map<string, int32> tags = 2; message Part { int32 n = 1; } }
  int32 i32 = 1; int64 i64 = 2; uint32 u32 = 3; uint64 u64 = 4; sint32 s32 = 5; sint64 s64 = 6;
  fixed32 f32 = 7; fixed64 f64 = 8; sfixed32 sf32 = 9; sfixed64 sf64 = 10;
  float flo = 11; double dou = 12; bool boo = 13; string str = 14; bytes raw = 15; State state = 16;
  optional int32 maybe = 17; Line line = 18; repeated Line lines = 19; repeated sint32 numbers = 20;
  map<string, Line> by_name = 21; map<int32, string> by_number = 22; map<bool, State> by_flag = 23;
  oneof payment { string card = 24; Line coupon = 25; }
  oneof other { int32 cash = 26; }
  google.protobuf.Int64Value wrapped = 27; google.protobuf.StringValue text = 28;
  google.protobuf.Timestamp at = 29; google.type.Date day = 30; google.type.TimeOfDay time = 31;
  confluent.type.Decimal total = 32 [(confluent.field_meta).params = {key: "precision" value: "8"}];
  Order next = 33; address.Address address = 34;
}
message Second { State state = 1; }
"""
ADDRESS = """
syntax = "proto3";
package address;
import "shop/country.proto";
message Address { string city = 1; Country country = 2; }
"""
COUNTRY = 'syntax = "proto3"; package address; message Country { string code = 1; }'
ORDER = RegisteredSchema(
    "PROTOBUF",
    EVERYTHING,
    (
        (
            "shop/address.proto",
            RegisteredSchema("PROTOBUF", ADDRESS, references("PROTOBUF", {"shop/country.proto": COUNTRY})),
        ),
    ),
)
ABSENT = {
    "i32": 0, "i64": 0, "u32": 0, "u64": 0, "s32": 0, "s64": 0, "f32": 0, "f64": 0, "sf32": 0, "sf64": 0,
    "flo": 0, "dou": 0, "boo": False, "str": "", "raw": "", "state": "OPEN", "maybe": None, "line": None, "lines": [],
    "numbers": [], "by_name": {}, "by_number": [], "by_flag": [], "payment_0": None, "other_1": None, "wrapped": None,
    "text": None, "at": None, "day": None, "time": None, "total": None, "next": None, "address": None,
}  # fmt: skip
LINE = {"sku": "s", "tags": {}}


@cache
def order_decoder(options: ProtobufOptions = ProtobufOptions()) -> Decoder:  # noqa: B008 - frozen
    """Compiled once, as in a worker."""
    return decoder(ORDER, options)


def decode_order(*values: bytes, options: ProtobufOptions = ProtobufOptions()) -> Decoded:  # noqa: B008 - frozen
    return order_decoder(options).decode(pa.array(values, pa.binary()))


def proto(body: str, syntax: str = "proto3", **referred: str) -> RegisteredSchema:
    texts = {f"{name}.proto": text for name, text in referred.items()}
    return RegisteredSchema("PROTOBUF", f'syntax = "{syntax}";\n{body}', references("PROTOBUF", texts))


def b64text(raw: bytes) -> str:
    return b64encode(raw).decode()


@pytest.fixture(scope="module")
def order_class() -> Any:
    return GetMessageClass(root_file(ORDER).message_types_by_name["Order"])


def read(message: Any, options: ProtobufOptions = ProtobufOptions()) -> Any:  # noqa: B008 - frozen
    return only(decode_order(FIRST + message.SerializeToString(), options=options))


def test_scalars_are_there_and_messages_null_when_nothing_was_set(order_class: Any) -> None:
    assert read(order_class()) == ABSENT


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("i32", -(2**31), -(2**31)),
        ("i64", -(2**63), -(2**63)),
        ("u32", 2**32 - 1, 2**32 - 1),
        ("u64", 2**64 - 1, 2**64 - 1),
        ("s32", -5, -5),
        ("s64", -5, -5),
        ("f32", 7, 7),
        ("f64", 2**64 - 1, 2**64 - 1),
        ("sf32", -7, -7),
        ("sf64", -7, -7),
        ("flo", 0.1, Decimal("0.1")),
        ("flo", float("-inf"), "-Infinity"),
        ("dou", 1e300, Decimal("1E+300")),
        ("dou", float("nan"), "NaN"),
        ("boo", True, True),
        ("str", 'é"\n', 'é"\n'),
        ("raw", b"\1\2", "AQI="),
        ("state", 3, "PAID"),
        ("state", 9, "UNKNOWN_ENUM_VALUE_State_9"),
        ("maybe", 0, 0),
        ("numbers", [1, -1], [1, -1]),
        ("line", {"sku": "s"}, LINE),
        ("lines", [{"sku": "s"}, {}], [LINE, {"sku": "", "tags": {}}]),
        ("by_name", {'k"': {"sku": "s"}}, {'k"': LINE}),
        ("by_number", {5: "x"}, [[5, "x"]]),
        ("by_flag", {True: 3}, [[True, "PAID"]]),
        ("wrapped", {"value": 7}, 7),
        ("wrapped", {}, 0),
        ("text", {"value": "x"}, "x"),
        ("at", {"seconds": 1_760_000_000, "nanos": 123_999_999}, 1_760_000_000_123),
        ("at", {"seconds": -1, "nanos": 500_000_000}, -500),
        ("day", {"year": 2025, "month": 10, "day": 10}, "2025-10-10T00:00:00.000Z"),
        ("time", {"hours": 1, "minutes": 2, "seconds": 3, "nanos": 4_000_000}, "01:02:03.004+0000"),
        ("total", {"value": (12345).to_bytes(2, "big"), "scale": 2}, Decimal("123.45")),
        ("total", {"value": (10**38).to_bytes(17, "big"), "scale": 1}, f"1{'0' * 37}.0"),
        ("total", {"value": b"\x05", "scale": -3}, 5000),
        ("address", {"city": "Bern", "country": {"code": "CH"}}, {"city": "Bern", "country": {"code": "CH"}}),
    ],
)
def test_every_type(order_class: Any, field: str, value: Any, expected: Any) -> None:
    assert read(order_class(**{field: value})) == ABSENT | {field: expected}


def test_a_union_is_a_struct_of_its_fields(order_class: Any) -> None:
    assert read(order_class(card="c"))["payment_0"] == {"card": "c", "coupon": None}
    assert read(order_class(coupon={"sku": "s"}))["payment_0"] == {"card": None, "coupon": LINE}
    assert read(order_class(cash=0))["other_1"] == {"cash": 0}


def test_a_message_may_hold_itself(order_class: Any) -> None:
    assert read(order_class(next={"next": {"i32": 5}}))["next"]["next"] == ABSENT | {"i32": 5}


def test_the_options_of_the_converter(order_class: Any) -> None:
    message = order_class(state=3, card="c", wrapped={"value": 7})
    assert read(message, ProtobufOptions(enums_as_numbers=True))["state"] == 3
    assert read(message, ProtobufOptions(index_in_union_names=False))["payment"] == {"card": "c", "coupon": None}
    assert read(message, ProtobufOptions(raw_wrappers=False))["wrapped"] == {"value": 7}
    flat = read(message, ProtobufOptions(flatten_unions=True))
    assert (flat["card"], flat["coupon"], flat["cash"], "payment_0" in flat) == ("c", None, None, False)


@pytest.mark.parametrize(
    ("steps", "body", "expected"),
    [
        (b"\x02\x02", b"\x08\x03", {"state": "PAID"}),  # [1]
        (b"\x04\x00\x00", b"\x0a\x01s", LINE),  # [0, 0]
        (b"\x06\x00\x00\x00", b"\x08\x05", {"n": 5}),  # [0, 0, 0]: the entries of maps do not count
    ],
)
def test_the_way_to_the_message(steps: bytes, body: bytes, expected: Any) -> None:
    assert only(decode_order(FRAME + steps + body)) == expected


def test_absent_fields_of_proto2_are_null_whatever_their_default() -> None:
    schema = proto(
        'message R { required int32 a = 1; optional string s = 2 [default = "x"]; optional group G = 3 {} }', "proto2"
    )
    assert only(decode(schema, FIRST + b"\x08\x05")) == {"a": 5, "s": None, "g": None}
    assert reason(decode(schema, FIRST)) == "malformed_protobuf"


def test_of_several_names_for_a_number_the_first_one_stands() -> None:
    schema = proto("enum E { option allow_alias = true; A = 0; B = 1; C = 1; } message M { E e = 1; }")
    assert only(decode(schema, FIRST + b"\x08\x01")) == {"e": "B"}


def test_fields_that_the_schema_does_not_know_are_dropped() -> None:
    assert only(decode(proto("message M { int32 a = 1; }"), FIRST + b"\x08\x05\x10\x07")) == {"a": 5}


def test_a_schema_may_be_a_descriptor_in_base64(order_class: Any) -> None:
    serialized = RegisteredSchema("PROTOBUF", b64encode(root_file(ORDER).serialized_pb).decode(), ORDER.references)
    assert only(decode(serialized, FIRST + order_class(i32=5).SerializeToString())) == ABSENT | {"i32": 5}
    address = b64encode(root_file(RegisteredSchema("PROTOBUF", COUNTRY)).serialized_pb).decode()
    mixed = proto('import "country.proto"; message M { address.Country c = 1; }', country=address)
    assert only(decode(mixed, FIRST + b"\x0a\x04\x0a\x02CH")) == {"c": {"code": "CH"}}


@pytest.mark.parametrize(
    ("behind_frame", "expected"),
    [
        (b"", "malformed_protobuf"),
        (b"\x02", "malformed_protobuf"),
        (b"\x80", "malformed_protobuf"),
        (b"\x01", "malformed_protobuf"),
        (b"\x80" * 6 + b"\x00", "malformed_protobuf"),
        (b"\xfe\xff\xff\xff\x0f", "malformed_protobuf"),
        (b"\x02\x06", "schema_mismatch"),
        (b"\x02\x01", "schema_mismatch"),
        (b"\x04\x00\x08", "schema_mismatch"),
        (b"\x00\xff", "malformed_protobuf"),
        (b"\x00\x72\x02\xc3\x28", "malformed_protobuf"),  # a string of proto3 that is not UTF-8
        (b"\x00\xf2\x01\x02\x08\x05", "schema_mismatch"),  # a Date without month and day
        (b"\x00\xfa\x01\x02\x08\x18", "schema_mismatch"),  # 24 o'clock
        (b"\x00\x82\x02\x00", "schema_mismatch"),  # a Decimal without value
        (b"\x00" + b"\x8a\x02\x00" * 1 + b"\x0b" * 500, "malformed_protobuf"),
    ],
)
def test_what_is_bad(behind_frame: bytes, expected: str) -> None:
    assert reason(decode_order(FRAME + behind_frame)) == expected


@pytest.mark.parametrize("body", [b"\x0a\x02\xc3\x28", b"\x12\x04\x0a\x02\xc3\x28"])
def test_text_of_proto2_that_is_not_utf8_is_refused(body: bytes) -> None:
    schema = proto("message M { optional string s = 1; map<string, string> m = 2; }", "proto2")
    assert reason(decode(schema, FIRST + body)) == "invalid_utf8"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "firn_root.proto:1:1"),
        ('syntax = "proto3"; import "absent.proto";', "absent.proto: File not found"),
        ('syntax = "proto3"; message A { B b = 1; }', '"B" is not defined'),
    ],
)
def test_what_protoc_refuses_is_told_in_its_words(text: str, said: str) -> None:
    (bad,) = decode(RegisteredSchema("PROTOBUF", text), FIRST).bad
    assert bad.reason == "invalid_schema"
    assert said in bad.detail
    assert "WARNING" not in bad.detail


@pytest.mark.parametrize("name", ["../outside.proto", "/tmp/outside.proto", "", ".", "a\0b", "\ud800", "x" * 300])
def test_an_import_stays_within_its_folder(name: str) -> None:
    schema = RegisteredSchema("PROTOBUF", "message A {}", references("PROTOBUF", {name: "message B {}"}))
    assert reason(decode(schema, FIRST)) == "invalid_schema"


def test_names_of_imports_that_exclude_each_other() -> None:
    for names in (["a", "a/b"], ["a/b", "a"]):
        schema = RegisteredSchema("PROTOBUF", "", references("PROTOBUF", dict.fromkeys(names, 'syntax = "proto3";')))
        assert reason(decode(schema, FIRST)) == "invalid_schema"


def test_a_schema_is_utf8_whatever_the_place() -> None:
    schema = proto('// žluťoučký\nmessage A { string s = 1 [json_name = "é"]; }')
    assert only(decode(schema, FIRST)) == {"s": ""}


TOKENS = st.sampled_from(
    ["message A", "{", "}", "enum E", "int32 a = 1;", "oneof o", "extend A", "import", '"a"', ";", "group G = 2", "E",
     'syntax = "proto3";', 'edition = "2023";', "reserved 1 to max;", "map<string, A> m = 3;", "\0", "\ud800", "/*"]
)  # fmt: skip


@settings(QUICK, max_examples=12)  # each runs protoc
@given(st.lists(TOKENS | st.text(max_size=4), max_size=12).map(" ".join) | st.binary(max_size=20).map(b64text))
def test_whatever_the_schema_nothing_is_raised(text: str) -> None:
    decode(RegisteredSchema("PROTOBUF", text), FIRST + b"\x08\x05")


LONG = "x" * 500


@pytest.mark.parametrize(
    ("body", "bad", "good"),
    [
        (f"repeated B b = 1; message B {{ int32 {LONG} = 1; }}", b"\x0a\x00" * 30, b"\x0a\x00"),
        (f"repeated B b = 1; message B {{ oneof {LONG} {{ int32 c = 1; }} }}", b"\x0a\x00" * 30, b"\x0a\x00"),
        (f"repeated E e = 1; enum E {{ {LONG} = 0; }}", b"\x0a\x1e" + bytes(30), b"\x0a\x01\x00"),
    ],
)
def test_names_and_defaults_that_become_too_large_are_bad_and_the_next_record_is_not(
    body: str, bad: bytes, good: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contract, "MAX_TEXT", 12_000)
    monkeypatch.setattr(rows, "checked", str)  # it would come too late
    values, at = pa.array([FIRST + bad, FIRST + good], pa.binary()), decoder(proto(f"message A {{ {body} }}"))
    for _ in range(30):  # what the good ones take does not add up
        decoded = at.decode(values)
        assert [(each.row, each.reason) for each in decoded.bad] == [(0, "too_large")]
        assert decoded.content[1].is_valid


@cache
def full_body() -> bytes:
    """A message with something in most fields."""
    order = GetMessageClass(root_file(ORDER).message_types_by_name["Order"])
    return order(
        u64=5, str="text", state=3, lines=[{"sku": "s", "tags": {"a": 1}}], by_number={5: "x"}, card="c",
        next={"i32": 1}, at={"seconds": 1}, day={"year": 2025, "month": 10, "day": 10},
        total={"value": b"\x05", "scale": 2},
    ).SerializeToString()  # fmt: skip


def changed(at: int, lost: int, added: bytes) -> bytes:
    """That message with a few bytes replaced, added or lost."""
    body = full_body()
    return body[:at] + added + body[at + lost :]


CHANGED = st.builds(changed, st.integers(0, 120), st.integers(0, 4), st.binary(max_size=4))


@QUICK
@given(st.lists(st.binary(max_size=40) | CHANGED, max_size=8), st.sampled_from([b"", b"\0", b"\x02\x02", b"\x04\0\0"]))
def test_any_bytes_are_a_row_of_valid_json_or_a_bad_record(bodies: list[bytes], steps: bytes) -> None:
    decoded = decode_order(*[FRAME + steps + body for body in bodies])
    bad = {each.row for each in decoded.bad}
    for row, text in enumerate(decoded.content.to_pylist()):
        assert (text is None) == (row in bad)
        assert text is None or isinstance(json.loads(text), dict)


def test_each_value_tells_its_message() -> None:
    schema = proto("message A {} message B { message C {} }")
    values = [FIRST, None, FRAME + b"\2\2", b"bad", FRAME + b"\4\2\0", FRAME + b"\2\x0a"]
    found = decode(schema, *values)
    assert [each.row for each in found.bad] == [3, 5]
    assert found.parts == [(0,), (), (1,), (), (1, 0), (0,)]
