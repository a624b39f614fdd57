"""Small records that would cost much time, memory or stack: each is bad at once, and says why."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from firn.connector.config import ConverterConfig, Format
from firn.registry import RegisteredSchema
from spark_jobs.sink.decode import Decoded
from spark_jobs.sink.decode.converters import decoder_for
from spark_jobs.sink.decode.scalars import MAX_DECIMAL_BYTES
from tests.spark_jobs.sink.avro_cases import frame, write

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
    decoder = decoder_for(ConverterConfig(format), lambda _: schema or RegisteredSchema("AVRO", '"null"'))
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
