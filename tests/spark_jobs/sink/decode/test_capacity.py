"""Batches whose JSON is too much for one array: every converter says so, and a smaller batch passes."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from firn.connector.config import ConverterConfig
from firn.connector.formats import Format
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.base import capacity
from spark_jobs.sink.decode.base.contract import OutputTooLargeError
from spark_jobs.sink.decode.converters import converter_for

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
    decoder = converter_for(ConverterConfig(format), lambda _: SCHEMAS[format])
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


NAMED_OFTEN = """
import json, resource, sys
import pyarrow as pa
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.avro.converter import avro_decoder
from spark_jobs.sink.decode.base.contract import OutputTooLargeError

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

schema, body, rows = sys.argv[1], bytes.fromhex(sys.argv[2]), int(sys.argv[3])
decoder = avro_decoder(lambda _: RegisteredSchema("AVRO", schema))
before = peak()
try:
    found = sorted({bad.reason for bad in decoder.decode(pa.array([bytes(4) + b"\\1" + body] * rows)).bad})
except OutputTooLargeError:
    found = ["halves"]
print(json.dumps([found, peak() - before]))
"""
LONG = "x" * 100_000
SYMBOL = {"type": "enum", "name": "E", "symbols": [LONG]}
DEFAULT = {"type": "string", "connect.default": LONG}


def array(items: Any) -> Any:
    return {"type": "array", "items": items}


def record(name: str, *types: Any) -> Any:
    return {"type": "record", "name": "R", "fields": [{"name": f"{name}{at}", "type": t} for at, t in enumerate(types)]}


TWENTY_THOUSAND = b"\xc0\xb8\x02" + bytes(20_000) + b"\0"


@pytest.mark.parametrize(
    ("schema", "body", "rows", "found"),
    [
        pytest.param(array(SYMBOL), TWENTY_THOUSAND, 1, ["too_large"], id="a symbol in an array"),
        pytest.param(array(["null", DEFAULT]), TWENTY_THOUSAND, 1, ["too_large"], id="a default in an array"),
        pytest.param(array(record(LONG, "int")), TWENTY_THOUSAND, 1, ["too_large"], id="a name in an array"),
        pytest.param(record("f", SYMBOL), b"\0", 10_000, ["halves"], id="a symbol in every record"),
        pytest.param(record("f", SYMBOL, *["E"] * 19), bytes(20), 2_000, ["halves"], id="twenty of them"),
        pytest.param(record("f", ["null", DEFAULT]), b"\0", 10_000, ["halves"], id="a default in every record"),
        pytest.param(record(LONG, "int"), b"\0", 10_000, ["halves"], id="a name in every record"),
    ],
)
def test_small_avro_records_that_name_much_text_of_their_schema_take_little_memory(
    schema: Any, body: bytes, rows: int, found: list[str]
) -> None:
    given = [json.dumps(schema), body.hex(), str(rows)]
    done = subprocess.run([sys.executable, "-c", NAMED_OFTEN, *given], check=True, capture_output=True, timeout=60)
    reported, megabytes = json.loads(done.stdout)
    assert reported == found
    assert megabytes < 300
