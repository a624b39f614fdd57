"""Kafka's binary booleans and numbers."""

from __future__ import annotations

import json
import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firn.connector.formats import Format
from spark_jobs.sink.decode.base.contract import Decoded
from spark_jobs.sink.decode.primitive.values import NumberDecoder
from spark_jobs.sink.values.bad_records import SCHEMA_MISMATCH, WRONG_SIZE

QUICK = settings(max_examples=60, deadline=None)
CODES = {Format.SHORT: ">h", Format.INTEGER: ">i", Format.LONG: ">q", Format.FLOAT: ">f", Format.DOUBLE: ">d"}


def decode(number: Format, *values: bytes | None) -> Decoded:
    return NumberDecoder(number).decode(pa.array(values, pa.binary()))


@QUICK
@given(st.sampled_from(list(CODES)), st.data())
def test_numbers_come_back_in_order(number: Format, data: st.DataObject) -> None:
    size = struct.calcsize(CODES[number])
    values = data.draw(st.lists(st.none() | st.binary(min_size=size, max_size=size), max_size=6))
    decoded = decode(number, *values)
    assert not decoded.bad
    for value, text in zip(values, decoded.content.to_pylist(), strict=True):
        assert (text and json.loads(text, parse_float=Decimal)) == (value and written(number, value))


def written(number: Format, value: bytes) -> Any:
    (found,) = struct.unpack(CODES[number], value)
    if isinstance(found, int):
        return found
    if math.isnan(found):
        return "NaN"
    if math.isinf(found):
        return "Infinity" if found > 0 else "-Infinity"
    return Decimal(str(np.float32(found))) if number is Format.FLOAT else Decimal(repr(found))


def test_booleans() -> None:
    decoded = decode(Format.BOOLEAN, b"\1", None, b"\0", b"\2", b"")
    assert decoded.content.to_pylist() == ["true", None, "false", None, None]
    assert [(bad.row, bad.reason) for bad in decoded.bad] == [(3, SCHEMA_MISMATCH), (4, WRONG_SIZE)]
    assert "0x02" in decoded.bad[0].detail


@pytest.mark.parametrize("number", [Format.BOOLEAN, *CODES])
def test_another_number_of_bytes_is_a_bad_record(number: Format) -> None:
    size = struct.calcsize(CODES.get(number, ">b"))
    decoded = decode(number, b"\0" * size, b"", b"\0" * (size + 1), b"\0" * size, None)
    assert [text is None for text in decoded.content.to_pylist()] == [False, True, True, False, True]
    assert [(bad.row, bad.reason) for bad in decoded.bad] == [(1, WRONG_SIZE), (2, WRONG_SIZE)]
    assert decoded.bad[1].detail == f"{size + 1} bytes where a {number} has {size}"
    assert decoded.schema_ids.null_count == 5


def test_an_empty_batch() -> None:
    assert decode(Format.LONG).content.to_pylist() == []
    assert decode(Format.DOUBLE, None).content.to_pylist() == [None]
