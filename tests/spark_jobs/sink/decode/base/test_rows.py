"""A decoder made of a function: what one record raises never hurts the others."""

from __future__ import annotations

import pyarrow as pa
import pytest

from firn.errors import TransientError
from spark_jobs.sink.decode.base import capacity, contract
from spark_jobs.sink.decode.base.contract import Decoded, MalformedError, OutputTooLargeError
from spark_jobs.sink.decode.base.rows import RowDecoder
from spark_jobs.sink.values.bad_records import INVALID_JSON, SCHEMA_MISMATCH, TOO_LARGE, TOO_SHORT, BadRecord


def convert(value: bytes) -> str | None:
    match value:
        case b"null":
            return None
        case b"malformed":
            raise MalformedError(TOO_SHORT, "too short by far")
        case b"deep":
            return convert_forever(value)
        case b"big":
            raise MemoryError
        case b"registry":
            raise TransientError("the registry is away")
    return f'"{value.decode()}"'


def convert_forever(value: bytes) -> str:
    return convert_forever(value)


def decode(*values: bytes | None, reason: str = SCHEMA_MISMATCH) -> Decoded:
    return RowDecoder(convert, reason).decode(pa.array(values, pa.binary()))


def test_each_row_has_its_text_or_its_reason() -> None:
    decoded = decode(b"a", None, b"malformed", b"null", b"b")
    assert decoded.content.to_pylist() == ['"a"', None, None, None, '"b"']
    assert decoded.bad == (BadRecord(2, TOO_SHORT, "too short by far"),)
    assert decoded.schema_ids.to_pylist() == [None] * 5


def test_a_record_beyond_stack_or_memory_is_bad_and_the_next_one_is_not() -> None:
    decoded = decode(b"deep", b"big", b"a", reason=INVALID_JSON)
    assert decoded.content.to_pylist() == [None, None, '"a"']
    assert [(bad.row, bad.reason) for bad in decoded.bad] == [(0, INVALID_JSON), (1, INVALID_JSON)]


def test_a_record_that_becomes_too_large_is_bad_and_the_next_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "MAX_TEXT", 5)
    decoded = decode(b"abcd", b"abc", b"abcde")
    assert decoded.content.to_pylist() == [None, '"abc"', None]
    assert [(bad.row, bad.reason) for bad in decoded.bad] == [(0, TOO_LARGE), (2, TOO_LARGE)]


def test_a_batch_stops_as_soon_as_it_is_too_much_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "MAX_BYTES", 6)
    with pytest.raises(OutputTooLargeError):
        decode(b"abc", b"abc", b"registry")  # the last one is not asked for


def test_an_error_of_the_outside_world_judges_no_record() -> None:
    with pytest.raises(TransientError):
        decode(b"a", b"registry")
