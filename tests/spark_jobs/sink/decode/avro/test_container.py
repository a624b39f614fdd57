"""Avro object containers as values and keys: rows, codecs, and everything that can be wrong with one."""

from __future__ import annotations

import io
import json
import lzma
import zlib
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firn.connector.config import ConverterConfig, SinkConfig
from firn.connector.formats import Format
from firn.settings import Settings
from firn.sinks.context import SinkContext
from spark_jobs.sink.decode.avro import container as module
from spark_jobs.sink.decode.avro.container import avro_file_decoder
from spark_jobs.sink.decode.avro.schema import Node, parse_schema
from spark_jobs.sink.decode.base import contract
from spark_jobs.sink.decode.base.contract import Decoded
from spark_jobs.sink.decode.base.scalars import STREAMING_ZONE
from spark_jobs.sink.task.worker import decoders_of
from spark_jobs.sink.values.bad_records import (
    INVALID_SCHEMA,
    INVALID_UTF8,
    MALFORMED_AVRO,
    MALFORMED_CONTAINER,
    TOO_LARGE,
    TRAILING_BYTES,
)
from tests.spark_jobs.sink.decode.avro_cases import cases, parsed

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}
ROWS = [{"id": 1, "note": "a"}, {"id": 2, "note": None}, {"id": 3, "note": "Zoë"}]
SYNC = bytes(range(16))
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def zigzag(number: int) -> bytes:
    """A long as Avro writes it."""
    number, out = (number << 1) ^ (number >> 63), bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def span(raw: bytes) -> bytes:
    return zigzag(len(raw)) + raw


def header(schema: Any, codec: str = "null") -> bytes:
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    return (
        b"Obj\x01" + zigzag(2) + span(b"avro.schema") + span(text) + span(b"avro.codec") + span(codec.encode())
        + zigzag(0) + SYNC
    )  # fmt: skip


def block(count: int, data: bytes) -> bytes:
    return zigzag(count) + span(data) + SYNC


def written(rows: list[Any], codec: str = "null", schema: Any = ORDER, **options: Any) -> bytes:
    """A container that fastavro wrote."""
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), rows, codec=codec, sync_marker=SYNC, **options)
    return out.getvalue()


def decode(*values: bytes | None, as_key: bool = False) -> Decoded:
    return avro_file_decoder(as_key=as_key).decode(pa.array(values, pa.binary()))


def contents(*values: bytes | None, as_key: bool = False) -> list[Any]:
    decoded = decode(*values, as_key=as_key)
    assert not decoded.bad
    return [None if text is None else parsed(text) for text in decoded.content.to_pylist()]


def reason(value: bytes) -> str:
    decoded = decode(value)
    assert decoded.content.to_pylist() == [None]
    (bad,) = decoded.bad
    assert bad.row == 0
    assert bad.detail
    return bad.reason


def test_each_datum_of_a_record_becomes_a_row() -> None:
    decoded = decode(written(ROWS), None, written([]), written(ROWS[:1]))
    assert [text and json.loads(text) for text in decoded.content.to_pylist()] == [*ROWS, None, ROWS[0]]
    assert decoded.origin is not None
    assert decoded.origin.tolist() == [0, 0, 0, 1, 3]
    assert decoded.schema_ids.to_pylist() == [None] * 5


def test_one_datum_in_each_record_needs_no_origin() -> None:
    decoded = decode(written(ROWS[:1]), None, b"Obj?")
    assert decoded.origin is None
    assert decoded.content.null_count == 2
    assert [bad.row for bad in decoded.bad] == [2]


def test_a_key_stays_one_text() -> None:
    values = [written(ROWS), written([]), None, written(ROWS[:1])]
    assert contents(*values, as_key=True) == [ROWS, [], None, ROWS[0]]
    assert decode(*values, as_key=True).origin is None
    assert contents(written([None, 1], schema=["null", "int"]), as_key=True) == [[None, 1]]


def test_the_sink_reads_several_data_as_rows_of_a_value_and_one_key() -> None:
    avro = ConverterConfig(Format.AVRO_FILE)
    config = SinkConfig("s", value=avro, key=avro)
    nothing: Any = None
    decoders = decoders_of(SinkContext(config, Settings.model_construct(), nothing, None, None, nothing))
    counts = [len(decoder.decode(pa.array([written(ROWS)])).content) for decoder in decoders]
    assert counts == [3, 1]


def test_a_datum_that_is_null_is_a_tombstone() -> None:
    assert contents(written([None, 5], schema=["null", "int"])) == [None, 5]


def test_blocks_follow_each_other() -> None:
    many = [{"id": number, "note": "x" * 50} for number in range(100)]
    assert contents(written(many, sync_interval=200)) == many


def test_a_container_without_a_codec_is_not_compressed() -> None:
    plain = b"Obj\x01" + zigzag(1) + span(b"avro.schema") + span(b'"int"') + zigzag(0) + SYNC + block(2, b"\x02\x04")
    assert contents(plain) == [1, 2]


BODY = b"\x02\x02\x02a" * 50


def compressed(codec: str) -> bytes:
    """BODY in a codec that fastavro needs a library for, made with Arrow's."""
    if codec == "snappy":
        return bytes(pa.compress(BODY, "snappy", asbytes=True)) + zlib.crc32(BODY).to_bytes(4, "big")
    return bytes(pa.compress(BODY, "zstd", asbytes=True))


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz"])
def test_every_codec_that_fastavro_writes(codec: str) -> None:
    whole = written(ROWS, codec)
    assert contents(whole) == ROWS
    at = whole.index(SYNC) + 18
    assert reason(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :]) == MALFORMED_CONTAINER


@pytest.mark.parametrize("codec", ["snappy", "zstandard"])
def test_every_other_codec_of_java(codec: str) -> None:
    data = compressed(codec)
    assert contents(header(ORDER, codec) + block(50, data)) == [ROWS[0]] * 50
    for wrong in (data[:-1], data[:3], b"", bytes([data[0] ^ 0x55]) + data[1:], b"\xff" * 30):
        assert reason(header(ORDER, codec) + block(50, wrong)) in (MALFORMED_CONTAINER, MALFORMED_AVRO)


def test_a_deflated_block_without_its_end_is_bad_also_when_all_data_are_there() -> None:
    codec = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    unended = codec.compress(BODY) + codec.flush(zlib.Z_SYNC_FLUSH)
    assert contents(header(ORDER, "deflate") + block(50, unended + codec.flush())) == [ROWS[0]] * 50
    assert reason(header(ORDER, "deflate") + block(50, unended)) == MALFORMED_CONTAINER


def test_a_snappy_block_with_a_wrong_checksum_is_bad() -> None:
    data = compressed("snappy")
    assert reason(header(ORDER, "snappy") + block(50, data[:-1] + bytes([data[-1] ^ 1]))) == MALFORMED_CONTAINER


GOOD = header(ORDER) + block(1, b"\x02\x02\x02a")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"", MALFORMED_CONTAINER),
        (b"Obj\x00" + GOOD[4:], MALFORMED_CONTAINER),
        (GOOD[:3], MALFORMED_CONTAINER),
        (GOOD[:20], MALFORMED_CONTAINER),
        (header(ORDER)[:-1], MALFORMED_CONTAINER),
        (b"Obj\x01" + zigzag(0) + SYNC, MALFORMED_CONTAINER),
        (b"Obj\x01" + zigzag(2**60) + SYNC, MALFORMED_CONTAINER),
        (header(ORDER, "lzo") + block(1, b"\x02\x02\x02a"), MALFORMED_CONTAINER),
        (GOOD[:-1], MALFORMED_CONTAINER),
        (GOOD[:-16] + bytes(16), MALFORMED_CONTAINER),
        (GOOD + b"\x02", MALFORMED_CONTAINER),
        (GOOD + b"\x80", MALFORMED_CONTAINER),
        (GOOD + GOOD, MALFORMED_CONTAINER),
        (header(ORDER) + block(-1, b"\x02\x02\x02a"), MALFORMED_CONTAINER),
        (header(ORDER) + block(2**60, b"\x02\x02\x02a"), MALFORMED_CONTAINER),
        (header("null") + block(2**60, b""), MALFORMED_CONTAINER),
        (header(ORDER) + block(2, b"\x02\x02\x02a"), MALFORMED_AVRO),
        (header(ORDER) + block(1, b"\x02\x02\x02a\x00"), TRAILING_BYTES),
        (header(ORDER) + block(1, b"\x02\x02\x02\xff"), INVALID_UTF8),
        (header(b"{"), INVALID_SCHEMA),
        (header(b"\xff"), INVALID_SCHEMA),
        (header(b'"no.such"'), INVALID_SCHEMA),
        (header(b'{"type":"fixed","name":"f","size":' + b"9" * 5000 + b"}"), INVALID_SCHEMA),
        (header(b'{"type":"enum","name":"e","symbols":5}'), INVALID_SCHEMA),
        (header(b'{"type":"record","name":"r","fields":null}'), INVALID_SCHEMA),
        (header(b'{"type":"enum","name":"e","symbols":["\\ud800"]}'), INVALID_SCHEMA),
        (header(b'{"type":"array","items":' * 3000 + b'"int"' + b"}" * 3000), INVALID_SCHEMA),
    ],
)
def test_what_is_damaged_is_a_bad_record_with_its_reason(value: bytes, expected: str) -> None:
    assert reason(value) == expected


def test_a_bad_record_takes_no_other_with_it() -> None:
    decoded = decode(written(ROWS), GOOD[:-1], GOOD)
    assert decoded.content.to_pylist()[-2:] == [None, '{"id":1,"note":"a"}']
    assert decoded.origin is not None
    assert decoded.origin.tolist() == [0, 0, 0, 1, 2]
    assert [(bad.row, bad.reason) for bad in decoded.bad] == [(1, MALFORMED_CONTAINER)]


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "snappy", "zstandard"])
def test_blocks_that_unpack_beyond_the_limit_are_refused(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DATA", 1000)
    data = b"\x02" * 999
    if codec == "snappy":
        one = block(999, pa.compress(data, "snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big"))
    elif codec == "zstandard":
        one = block(999, pa.compress(data, "zstd", asbytes=True))
    else:
        one = written([1] * 999, codec, "int")[len(written([], codec, "int")) :]
    assert contents(header("int", codec) + one) == [1] * 999
    assert reason(header("int", codec) + one + one) == MALFORMED_CONTAINER


def test_xz_that_wants_more_memory_than_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    value = header("int", "xz") + block(1, lzma.compress(b"\x02", preset=1))
    assert contents(value) == [1]
    monkeypatch.setattr(module, "_LZMA_MEMORY", 100_000)
    assert reason(value) == MALFORMED_CONTAINER


def test_data_of_no_bytes_are_counted_over_all_blocks_of_one_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_EMPTY_ITEMS", 10)
    decoder, of_null = avro_file_decoder(), header("null")
    most, more = of_null + block(6, b"") + block(4, b""), of_null + block(6, b"") + block(5, b"")
    for _ in range(2):
        decoded = decoder.decode(pa.array([more, most], pa.binary()))
        assert [(bad.row, bad.reason) for bad in decoded.bad] == [(0, MALFORMED_CONTAINER)]
        assert len(decoded.content) == 11


def test_few_bytes_that_become_much_text_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "MAX_TEXT", 10_000)
    long = {"type": "enum", "name": "e", "symbols": ["x" * 1000]}
    assert len(contents(header(long) + block(9, bytes(9)))) == 9
    assert reason(header(long) + block(20, bytes(20))) == TOO_LARGE
    array = zigzag(20) + bytes(20) + zigzag(0)
    assert reason(header({"type": "array", "items": long}) + block(1, array)) == TOO_LARGE
    in_map = {"type": "map", "values": {"type": "array", "items": long}}
    assert reason(header(in_map) + block(1, zigzag(1) + span(b"k") + array + zigzag(0))) == TOO_LARGE


def test_a_record_that_doubles_at_every_level_ends() -> None:
    schema: Any = "null"
    for level in range(60):
        fields = [{"name": "a", "type": schema}, {"name": "b", "type": f"r{level - 1}" if level else "null"}]
        schema = {"type": "record", "name": f"r{level}", "fields": fields}
    decoder = avro_file_decoder()
    assert not decoder.decode(pa.array([header(schema)], pa.binary())).bad


def test_a_schema_is_compiled_once_and_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def parse(text: str) -> Node:
        compiled.append(text)
        return parse_schema(text)

    monkeypatch.setattr(module, "parse_schema", parse)
    monkeypatch.setattr(module, "MAX_SCHEMAS", 2)
    decoder = avro_file_decoder()
    for name in ["a", "a", "b", "a", "c", "a", "b", "b"]:
        value = header({"type": "fixed", "name": name, "size": 1}) + block(1, b"\0")
        assert not decoder.decode(pa.array([value], pa.binary())).bad
    assert [json.loads(text)["name"] for text in compiled] == ["a", "b", "c", "b"]


def test_the_time_zone_ends_times_of_day() -> None:
    value = header({"type": "int", "logicalType": "time-millis"}) + block(1, b"\0")
    assert contents(value) == ["00:00:00.000+0000"]
    streamed = avro_file_decoder(STREAMING_ZONE).decode(pa.array([value], pa.binary()))
    assert streamed.content.to_pylist() == ['"00:00:00.000Z"']


@QUICK
@given(cases(rich=True))
def test_the_json_is_that_of_framed_avro(case: tuple[Any, list[bytes], list[Any]]) -> None:
    schema, bodies, expected = case
    assert contents(header(schema) + block(len(bodies), b"".join(bodies))) == expected
    assert contents(*[header(schema) + block(1, body) for body in bodies]) == expected


PIECES = st.sampled_from(
    [GOOD, GOOD[:4], header("int"), header(ORDER, "deflate"), header("null"), SYNC, zigzag(2**62), b"\xff" * 9]
)  # fmt: skip


@QUICK
@given(st.lists(st.lists(PIECES | st.binary(max_size=8), max_size=5).map(b"".join), max_size=4), st.booleans())
def test_whatever_the_bytes_nothing_is_raised(values: list[bytes], as_key: bool) -> None:
    decoded = decode(*values, as_key=as_key)
    decoded.content.validate(full=True)
    origin = np.arange(len(values)) if decoded.origin is None else decoded.origin
    assert len(origin) == len(decoded.content)
    bad = {each.row for each in decoded.bad}
    for row, text in zip(origin, decoded.content.to_pylist(), strict=True):
        assert text is None if row in bad else text is None or parsed(text) is not None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.sampled_from(["int", "record", "enum", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "name", "fields", "symbols", "items", "values", "size", "logicalType", "scale"]),
            inner,
        )
    ),
    max_leaves=12,
)


@QUICK
@given(JSON, st.binary(max_size=12), st.integers(0, 3))
def test_whatever_the_schema_nothing_is_raised(schema: Any, data: bytes, count: int) -> None:
    decode(header(schema) + block(count, data)).content.validate(full=True)
