"""Batches whose JSON is too much for one array: every converter says so, and a smaller batch passes."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from firn.connector.config import ConverterConfig, Format
from firn.registry import RegisteredSchema
from spark_jobs.sink.decode import capacity
from spark_jobs.sink.decode.converters import decoder_for
from spark_jobs.sink.decode.records import OutputTooLargeError

ROWS, LENGTH = 40, 100
ONE, OTHER = b"\0\0\0\0\1", b"\0\0\0\0\2"
AVRO = RegisteredSchema("AVRO", '"string"')
JSON = RegisteredSchema("JSON", json.dumps({"type": "string"}))
PROTOBUF = RegisteredSchema("PROTOBUF", 'syntax = "proto3"; message M { string s = 1; }')
TEXT = b"x" * LENGTH
FRAMED_AVRO = bytes([LENGTH * 2 & 0x7F | 0x80, LENGTH * 2 >> 7]) + TEXT


def values(format: Format, number: int) -> bytes:
    match format:
        case Format.AVRO:
            return (ONE if number % 2 else OTHER) + FRAMED_AVRO
        case Format.JSON_SCHEMA:
            return ONE + b'"' + TEXT + b'"'
        case Format.PROTOBUF:
            return ONE + b"\0\x0a" + bytes([LENGTH]) + TEXT
        case Format.JSON_ENVELOPE:
            return b'{"schema":{"type":"string"},"payload":"%s"}' % TEXT
        case Format.STRING:
            return b'"' * LENGTH
        case Format.JSON:
            return b'["%s",1.%s]' % (TEXT, b"1" * 30)
    return TEXT


SCHEMAS = {Format.AVRO: AVRO, Format.JSON_SCHEMA: JSON, Format.PROTOBUF: PROTOBUF}


@pytest.mark.parametrize("format", [*SCHEMAS, Format.JSON, Format.JSON_ENVELOPE, Format.STRING, Format.BYTES])
def test_a_batch_that_becomes_too_much_text_is_not_decoded_at_once(
    format: Format, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capacity, "MAX_BYTES", ROWS * LENGTH - 1)
    decoder = decoder_for(ConverterConfig(format), lambda _: SCHEMAS[format])
    batch = pa.array([values(format, number) for number in range(ROWS)], pa.binary())
    with pytest.raises(OutputTooLargeError):
        decoder.decode(batch)
    for start in range(0, ROWS, ROWS // 8):
        decoded = decoder.decode(batch.slice(start, ROWS // 8))
        assert isinstance(decoded.content, pa.StringArray)
        assert (decoded.content.null_count, decoded.bad) == (0, ())


def test_text_is_counted_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "MAX_BYTES", 100)
    assert len(capacity.string_array(["x" * 50, None, b"x" * 50])) == 3
    with pytest.raises(OutputTooLargeError):
        capacity.string_array(["\u20ac" * 34])


def test_a_slice_counts_for_itself_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "MAX_BYTES", 3)
    texts = pa.array(["aaaa", "b", None, "cc", "dddd"])
    assert capacity.one_array([texts.slice(1, 1), texts.slice(2, 2)]).to_pylist() == ["b", None, "cc"]
    with pytest.raises(OutputTooLargeError):
        capacity.one_array([texts.slice(1, 3), texts.slice(1, 1)])


def test_what_arrow_finds_too_long_is_said_alike() -> None:
    with pytest.raises(OutputTooLargeError), capacity.counted_by_arrow():
        raise pa.ArrowCapacityError("array cannot contain more than 2147483646 bytes")
