"""Whatever the schema and the bytes: both decoders give the same JSON, and call the same records bad."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.avro.converter import avro_decoder
from spark_jobs.sink.decode.avro.schema import parse_schema
from spark_jobs.sink.decode.avro.values import ReferenceDecoder
from spark_jobs.sink.decode.avro.vector import VectorDecoder
from spark_jobs.sink.decode.base.contract import Decoded, MalformedError
from tests.spark_jobs.sink.decode.avro_cases import cases, damaged, frame, parsed

QUICK = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
THOROUGH = settings(QUICK, max_examples=5_000)

Case = tuple[Any, list[bytes], list[Any]]


def decode(schema: Any, bodies: list[bytes]) -> Decoded:
    values = pa.array([frame(body) for body in bodies], pa.binary())
    return avro_decoder(lambda _: RegisteredSchema("AVRO", json.dumps(schema))).decode(values)


def judged(schema: Any, body: bytes) -> tuple[str | None, str | None]:
    """Text and reason by the reference alone."""
    try:
        return ReferenceDecoder(parse_schema(json.dumps(schema)), "+0000").decode(frame(body), 5), None
    except MalformedError as error:
        return None, error.reason


def value_of(text: str | None) -> Any:
    """A null at the top has no text."""
    return None if text is None else parsed(text)


def both_give_what_was_written(case: Case) -> None:
    schema, bodies, expected = case
    decoded = decode(schema, bodies)
    assert not decoded.bad
    assert [value_of(text) for text in decoded.content.to_pylist()] == expected
    assert [value_of(judged(schema, body)[0]) for body in bodies] == expected


def vector_alone_gives_what_was_written(case: Case) -> None:
    schema, bodies, expected = case
    vector = VectorDecoder.of(parse_schema(json.dumps(schema)), "+0000")
    assert vector is not None
    texts = vector.decode(pa.array([frame(body) for body in bodies], pa.binary())).to_pylist()
    for text, body, wanted in zip(texts, bodies, expected, strict=True):
        # The least long looks like the block count that the vector decoder does not trust itself with.
        assert parsed(text) == wanted if text is not None else wanted is None or b"\xff" * 9 in body


def both_give_the_same_verdict(case: tuple[Any, list[bytes]]) -> None:
    schema, bodies = case
    decoded = decode(schema, bodies)
    reasons = {bad.row: bad.reason for bad in decoded.bad}
    for row, (text, body) in enumerate(zip(decoded.content.to_pylist(), bodies, strict=True)):
        wanted, reason = judged(schema, body)
        assert reasons.get(row) == reason, body.hex()
        assert (text and parsed(text)) == (wanted and parsed(wanted)), body.hex()
        assert_vector_only_says_what_is_so(schema, body, wanted)


def assert_vector_only_says_what_is_so(schema: Any, body: bytes, wanted: str | None) -> None:
    """Alone in its batch, so that no other row sends it to the reference."""
    vector = VectorDecoder.of(parse_schema(json.dumps(schema)), "+0000")
    text = vector.decode(pa.array([frame(body)], pa.binary()))[0].as_py() if vector else None
    if text is not None:
        assert wanted is not None, body.hex()
        assert parsed(text) == parsed(wanted), body.hex()


@QUICK
@given(cases(rich=False))
def test_the_vector_decoder_needs_no_help_with_common_types(case: Case) -> None:
    vector_alone_gives_what_was_written(case)


@QUICK
@given(cases(rich=True))
def test_every_type_becomes_the_json_that_was_written(case: Case) -> None:
    both_give_what_was_written(case)


@QUICK
@given(damaged(rich=False))
def test_damaged_bytes_get_the_same_verdict_from_both(case: tuple[Any, list[bytes]]) -> None:
    both_give_the_same_verdict(case)


@QUICK
@given(damaged(rich=True))
def test_damaged_bytes_of_any_type_neither_crash_nor_hang(case: tuple[Any, list[bytes]]) -> None:
    both_give_the_same_verdict(case)


@QUICK
@given(st.lists(st.none() | st.binary(max_size=12), max_size=8))
def test_any_bytes_at_all_are_either_a_row_or_a_bad_record(values: list[bytes | None]) -> None:
    decoded = avro_decoder(lambda _: RegisteredSchema("AVRO", '"string"')).decode(pa.array(values, pa.binary()))
    bad = {each.row for each in decoded.bad}
    without = [value is None or row in bad for row, value in enumerate(values)]
    assert [text is None for text in decoded.content.to_pylist()] == without


@pytest.mark.full
class TestThousands:
    def test_common_types(self) -> None:
        THOROUGH(given(cases(rich=False))(vector_alone_gives_what_was_written))()

    def test_all_types(self) -> None:
        THOROUGH(given(cases(rich=True))(both_give_what_was_written))()

    def test_damage(self) -> None:
        THOROUGH(given(damaged(rich=False))(both_give_the_same_verdict))()

    def test_damage_of_all_types(self) -> None:
        THOROUGH(given(damaged(rich=True))(both_give_the_same_verdict))()
