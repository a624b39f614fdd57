"""The factory of decoders and HoistField; and whatever the bytes, every converter gives JSON or a bad record."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import cache

import fastavro
import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firn.connector.config import ConverterConfig
from firn.connector.formats import Format
from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.base.contract import Decoded, Decoder
from spark_jobs.sink.decode.base.scalars import STREAMING_ZONE
from spark_jobs.sink.decode.converters import HoistDecoder, converter_for
from spark_jobs.sink.values.bad_records import INVALID_JSON, BadRecord
from tests.spark_jobs.sink.decode.avro_cases import Json, frame, parsed, write

SCHEMAS = {
    Format.AVRO: RegisteredSchema("AVRO", '"string"'),
    Format.JSON_SCHEMA: RegisteredSchema("JSON", '{"type":"string"}'),
    Format.PROTOBUF: RegisteredSchema("PROTOBUF", 'syntax = "proto3"; message A { string a = 1; }'),
}


def container(schema: Json, value: Json) -> bytes:
    """An Avro object container of one datum."""
    out = io.BytesIO()
    fastavro.writer(out, schema, [value], sync_marker=b"s" * 16)
    return out.getvalue()


VALUES = {
    Format.AVRO: (frame(write("string", "a")), '"a"'),
    Format.AVRO_FILE: (container("string", "a"), '"a"'),
    Format.JSON_SCHEMA: (frame(b'"a"'), '"a"'),
    Format.PROTOBUF: (frame(b"\0\x0a\x01a"), '{"a":"a"}'),
    Format.JSON: (b'{"a": 1}', '{"a":1}'),
    Format.JSON_ENVELOPE: (b'{"schema":{"type":"string"},"payload":"a"}', '"a"'),
    Format.STRING: (b"a", '"a"'),
    Format.BYTES: (b"a", '"YQ=="'),
    Format.BOOLEAN: (b"\1", "true"),
    Format.SHORT: (b"\0\1", "1"),
    Format.INTEGER: (b"\0\0\0\1", "1"),
    Format.LONG: (b"\0\0\0\0\0\0\0\1", "1"),
    Format.FLOAT: (b"\x3f\x80\0\0", "1.0"),
    Format.DOUBLE: (b"\x3f\xf0\0\0\0\0\0\0", "1.0"),
}


@cache
def decoder(config: ConverterConfig) -> Decoder:
    return converter_for(config, lambda _: SCHEMAS[config.format], time_zone=STREAMING_ZONE, as_key=True)


def decode(config: ConverterConfig, *values: bytes | None) -> Decoded:
    return decoder(config).decode(pa.array(values, pa.binary()))


@pytest.mark.parametrize("format_", VALUES)
def test_every_format_has_its_decoder(format_: Format) -> None:
    value, text = VALUES[format_]
    decoded = decode(ConverterConfig(format_), None, value)
    assert not decoded.bad
    assert decoded.content.to_pylist() == [None, text]


def test_both_readings_of_a_json_null() -> None:
    config = ConverterConfig(Format.JSON)
    assert decode(config, b"null").content.to_pylist() == [None]
    assert decode(replace(config, json_null_is_tombstone=False), b"null").content.to_pylist() == ["null"]


def test_the_time_zone_reaches_a_schema() -> None:
    time = b'{"schema":{"type":"int32","name":"org.apache.kafka.connect.data.Time"},"payload":1}'
    assert decode(ConverterConfig(Format.JSON_ENVELOPE), time).content.to_pylist() == ['"00:00:00.001Z"']


def test_hoist_wraps_content_and_tombstones_but_not_bad_records() -> None:
    config = ConverterConfig(Format.JSON, hoist=('in"side', "out"))
    decoded = decode(config, b'{"a":1}', None, b"{", b"null")
    assert decoded.content.to_pylist() == [
        '{"out":{"in\\"side":{"a":1}}}', '{"out":{"in\\"side":null}}', None, '{"out":{"in\\"side":null}}',
    ]  # fmt: skip
    assert [(bad.row, bad.reason) for bad in decoded.bad] == [(2, INVALID_JSON)]


def test_hoist_keeps_schema_ids() -> None:
    decoded = decode(ConverterConfig(Format.AVRO, hoist=("f",)), frame(write("string", "a"), 7), None)
    assert decoded.content.to_pylist() == ['{"f":"a"}', '{"f":null}']
    assert decoded.schema_ids.to_pylist() == [7, None]


class Several:
    """Three rows for the first record, none for the second, a bad third, a tombstone."""

    def decode(self, values: pa.BinaryArray) -> Decoded:
        origin: npt.NDArray[np.int64] = np.array([0, 0, 0, 2, 3])
        texts = pa.array(["1", "2", "3", None, None], pa.string())
        return Decoded(texts, pa.nulls(5, pa.int32()), (BadRecord(2, INVALID_JSON, ""),), origin)


def test_hoist_wraps_every_row_of_a_record() -> None:
    decoded = HoistDecoder(Several(), "f").decode(pa.nulls(4, pa.binary()))
    assert decoded.content.to_pylist() == ['{"f":1}', '{"f":2}', '{"f":3}', None, '{"f":null}']
    assert decoded.origin is not None
    assert decoded.origin.tolist() == [0, 0, 0, 2, 3]


def damaged(value: bytes) -> st.SearchStrategy[bytes]:
    def cut(at: int, more: bytes, gone: int) -> bytes:
        return value[:at] + more + value[at + gone :]

    return st.builds(cut, st.integers(0, len(value)), st.binary(max_size=3), st.integers(0, 3))


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(list(VALUES)), st.booleans(), st.data())
def test_any_bytes_at_all_are_json_or_a_bad_record(format_: Format, hoisted: bool, data: st.DataObject) -> None:
    one = st.none() | st.binary(max_size=12) | damaged(VALUES[format_][0])
    values = data.draw(st.lists(one, max_size=6))
    decoded = decode(ConverterConfig(format_, hoist=("f",) if hoisted else ()), *values)
    texts, bad = decoded.content.to_pylist(), {each.row for each in decoded.bad}
    assert len(texts) == len(decoded.schema_ids) == len(values)
    assert [each.row for each in decoded.bad] == sorted(bad)
    for row, text in enumerate(texts):
        assert row not in bad or text is None
        if text is not None:
            parsed(text)
            orjson.loads(text.encode())  # strict: UTF-8, no NaN
        assert values[row] is not None or text == ('{"f":null}' if hoisted else None)
