"""Small records that would cost much time, memory or stack: each is bad at once, and says why."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from firn.connector.config import ConverterConfig
from firn.connector.formats import Format
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.base import capacity
from spark_jobs.sink.decode.base.contract import Decoded, OutputTooLargeError
from spark_jobs.sink.decode.base.scalars import MAX_DECIMAL_BYTES
from spark_jobs.sink.decode.converters import converter_for
from tests.spark_jobs.sink.decode.avro_cases import frame, write

DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}
PROTOBUF_DECIMAL = """syntax = "proto3"; package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
message A { Decimal d = 1; }"""


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < 5


def decode(format: Format, value: bytes, schema: RegisteredSchema | None = None) -> Decoded:
    decoder = converter_for(ConverterConfig(format), lambda _: schema or RegisteredSchema("AVRO", '"null"'))
    return decoder.decode(pa.array([value], pa.binary()))


def avro(schema: Any, body: bytes) -> Decoded:
    return decode(Format.AVRO, frame(body), RegisteredSchema("AVRO", json.dumps(schema)))


def why(decoded: Decoded) -> tuple[str, str]:
    (bad,) = decoded.bad
    return bad.reason, bad.detail


def envelope(payload: bytes) -> Decoded:
    schema = b'{"type":"bytes","name":"org.apache.kafka.connect.data.Decimal","parameters":{"scale":"2"}}'
    return decode(Format.JSON_ENVELOPE, b'{"schema":' + schema + b',"payload":' + payload + b"}")


def test_an_avro_decimal_of_a_megabyte() -> None:
    reason, detail = why(avro(DECIMAL, write("bytes", b"\x7f" * 1_000_000)))
    assert (reason, detail) == ("malformed_avro", "a decimal of 1000000 bytes, more than 16384")


def test_an_avro_decimal_of_all_the_bytes_that_are_allowed() -> None:
    decoded = avro(DECIMAL, write("bytes", b"\x7f" * MAX_DECIMAL_BYTES))
    assert not decoded.bad
    assert len(decoded.content[0].as_py()) > 39_000


def test_a_decimal_of_a_megabyte_in_an_envelope() -> None:
    reason, detail = why(envelope(b'"' + base64.b64encode(b"\x7f" * 1_000_000) + b'"'))
    assert reason == "schema_mismatch"
    assert "1000000 bytes" in detail


def test_a_decimal_of_a_million_digits_in_an_envelope_keeps_them() -> None:
    decoded = envelope(b"7" * 1_000_000)
    assert decoded.content.to_pylist() == ['"' + "7" * 1_000_000 + '"']


def test_a_protobuf_decimal_of_200_kilobytes() -> None:
    def field(number: int, value: bytes) -> bytes:
        length, sizes = len(value), bytearray()
        while length > 127:
            sizes.append(length & 127 | 128)
            length >>= 7
        return bytes([number << 3 | 2, *sizes, length]) + value

    body = b"\x02\x02" + field(1, field(1, b"\x7f" * 200_000))
    reason, detail = why(decode(Format.PROTOBUF, frame(body), RegisteredSchema("PROTOBUF", PROTOBUF_DECIMAL)))
    assert reason == "schema_mismatch"
    assert "200000 bytes" in detail


def long_number(number: int) -> bytes:
    found = bytearray()
    number <<= 1
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def test_a_union_of_thousands_of_types() -> None:
    union = [{"type": "fixed", "name": f"f{at}", "size": 1} for at in range(5_000)]
    decoded = avro(union, b"\x02a")
    text = json.loads(decoded.content[0].as_py())
    assert (len(text), text["f0"], text["f1"]) == (5_000, None, "YQ==")


def test_few_bytes_of_a_wide_union_that_become_much_text() -> None:
    union = [{"type": "record", "name": letter * 200, "fields": []} for letter in "abcdef"]
    body = long_number(500_000) + b"\x02" * 500_000 + b"\x00"
    assert why(avro({"type": "array", "items": union}, body))[0] == "too_large"
    wide = [{"type": "record", "name": f"r{at}", "fields": []} for at in range(2_000)]
    assert (
        why(avro({"type": "array", "items": wide}, long_number(50_000) + b"\x02" * 50_000 + b"\x00"))[0] == "too_large"
    )


def test_a_symbol_that_is_named_often() -> None:
    enum = {"type": "enum", "name": "e", "symbols": ["x" * 5_000]}
    body = long_number(30_000) + bytes(30_000) + b"\x00"
    reason, detail = why(avro({"type": "array", "items": enum}, body))
    assert reason == "too_large"
    assert "134217728 characters" in detail


def doubling(levels: int) -> Any:
    schema: Any = {"type": "record", "name": "R0", "fields": []}
    for level in range(1, levels):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"R{level - 1}"}]
        schema = {"type": "record", "name": f"R{level}", "fields": fields}
    return schema


def test_records_that_double_at_every_level_and_take_no_bytes() -> None:
    assert not avro(doubling(10), b"").bad
    assert why(avro(doubling(40), b""))[0] == "too_large"


TREE = {
    "type": "record",
    "name": "T",
    "fields": [{"name": "m", "type": {"type": "map", "values": ["null", {"type": "array", "items": ["null", "T"]}]}}],
}


def tree(levels: int) -> bytes:
    body = b"\x00"
    for _ in range(levels):
        body = b"\x02\x02k\x02\x02\x02" + body + b"\x00\x00"
    return body


@pytest.mark.parametrize("frames", [0, 200, 300])
def test_the_depth_that_is_refused_is_the_same_whoever_calls(frames: int) -> None:
    def deeper(left: int, body: bytes) -> Decoded:
        return deeper(left - 1, body) if left else avro(TREE, body)

    assert not deeper(frames, tree(32)).bad
    assert why(deeper(frames, tree(40))) == ("malformed_avro", "nested more than 100 levels deep")


def test_types_that_use_the_one_before_are_no_deep_stack() -> None:
    fields = [{"name": "r0", "type": {"type": "record", "name": "R0", "fields": [{"name": "x", "type": "int"}]}}]
    for at in range(1, 700):
        inner = {"type": "record", "name": f"R{at}", "fields": [{"name": "x", "type": ["null", f"R{at - 1}"]}]}
        fields.append({"name": f"r{at}", "type": inner})
    decoded = avro({"type": "record", "name": "A", "fields": fields}, b"\x00" * 700)
    assert not decoded.bad
    deep = b"\x00" * 699 + b"\x02" * 699 + b"\x00"
    assert why(avro({"type": "record", "name": "A", "fields": fields}, deep))[1] == "nested more than 100 levels deep"


def test_a_batch_that_is_more_than_an_array_holds_is_for_the_sink_to_halve(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "MAX_BYTES", 100_000)
    enum = {"type": "enum", "name": "e", "symbols": ["x" * 1_000]}
    decoder = converter_for(ConverterConfig(Format.AVRO), lambda _: RegisteredSchema("AVRO", json.dumps([enum])))
    assert not decoder.decode(pa.array([frame(b"\x00\x00")] * 90, pa.binary())).bad
    with pytest.raises(OutputTooLargeError):
        decoder.decode(pa.array([frame(b"\x00\x00")] * 110, pa.binary()))
