"""Whole batches of JSON with a schema say the same, byte for byte, as the same records one by one."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firn.registry.schemas import RegisteredSchema
from spark_jobs.sink.decode.base import contract
from spark_jobs.sink.decode.base.contract import Decoded, Decoder
from spark_jobs.sink.decode.base.rows import RowDecoder
from spark_jobs.sink.decode.base.scalars import CLASSIC_ZONE
from spark_jobs.sink.decode.json.converter import schema_bodies
from spark_jobs.sink.decode.json.envelope import json_envelope_decoder
from spark_jobs.sink.decode.json.vector import ObjectVectors
from tests.spark_jobs.sink.decode.framed_cases import FRAME

CHECKS = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
SCHEMA = {
    "type": "object",
    "properties": {
        "i": {"type": "integer"},
        "d": {"type": "number"},
        "s": {"type": "string"},
        "b": {"type": "boolean"},
        "small": {"type": "integer", "connect.type": "int8"},
        "default": {"type": "integer", "default": 7},
        "list": {"type": "array", "items": {"type": "number"}},
        "any": {},
        "é": {"type": "number"},
        "day": {"type": "integer", "connect.type": "int32", "title": "org.apache.kafka.connect.data.Date"},
    },
    "required": ["i", "s"],
}
ENVELOPE = {
    "type": "struct",
    "fields": [
        {"field": "i", "type": "int64"},
        {"field": "d", "type": "double", "optional": True},
        {"field": "s", "type": "string"},
        {"field": "b", "type": "boolean", "optional": True},
        {"field": "small", "type": "int8", "optional": True},
        {"field": "default", "type": "int32", "default": 7},
        {"field": "list", "type": "array", "items": {"type": "double"}, "optional": True},
        {"field": "é", "type": "double", "optional": True},
        {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp", "optional": True},
        {"field": "day", "type": "int32", "name": "org.apache.kafka.connect.data.Date", "optional": True},
    ],
}
NUMBERS = st.one_of(
    st.integers(-3, 300).map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.sampled_from(
        ["-0", "-0.0", "1.0", "1e2", "1E400", "1e-400", "0.00001", "1e15", "1e16", "01", "1.", "NaN", "123456789.125"]
    ),
)
STRINGS = st.one_of(
    st.text().map(json.dumps),
    st.text().map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.sampled_from(['"\\ud800"', '"\\u0041"', '"NaN"', '"a\nb"', '"\x7f\\/"', "'a'"]),
)
JSON = st.one_of(
    NUMBERS, STRINGS, st.sampled_from(["true", "false", "null", "[]", "[1,2.5]", '{"x":1.50}', "[1e400]", "tru"])
)
NAMES = st.sampled_from(["i", "d", "s", "b", "small", "default", "list", "any", "é", "at", "day", "\\u0069", "other"])
BLANKS = st.sampled_from(["", "", " ", "\n", "\ufeff"])


@st.composite
def objects(draw: st.DrawFn) -> bytes:
    """The text of one object, mostly a good one."""
    good = {
        "i": draw(st.integers(-(2**63), 2**63 - 1).map(str)),
        "s": draw(STRINGS),
        "d": draw(NUMBERS),
        "b": draw(st.sampled_from(["true", "false", "null"])),
    }
    others = draw(st.lists(st.tuples(NAMES, JSON), max_size=3))
    blank = draw(BLANKS)
    members = [f'"{name}":{blank}{value}' for name, value in [*good.items(), *others]]
    return (draw(BLANKS) + "{" + ",".join(members) + "}" + draw(BLANKS)).encode("utf-8", "surrogatepass")


def both(values: list[bytes | None], decoder_of: Any) -> tuple[Decoded, Decoded]:
    """What a decoder makes of values at once, and one by one."""
    array = pa.array(values, pa.binary())
    with patch.object(ObjectVectors, "of", return_value=None):
        rows = decoder_of().decode(array)
    return decoder_of().decode(array), rows


def json_schema() -> Decoder:
    return schema_bodies(RegisteredSchema("JSON", json.dumps(SCHEMA)), CLASSIC_ZONE, True)


def same(found: Decoded, rows: Decoded) -> bool:
    return found.content.to_pylist() == rows.content.to_pylist() and found.bad == rows.bad


@CHECKS
@given(st.lists(objects(), min_size=1, max_size=8), st.booleans())
def test_objects_of_a_json_schema(bodies: list[bytes], cut: bool) -> None:
    values: list[bytes | None] = [FRAME + body for body in bodies]
    if cut:
        values.append(FRAME + bodies[0][:-2])
    assert same(*both(values, json_schema))


@CHECKS
@given(st.lists(objects(), min_size=1, max_size=8), st.sampled_from(["}", "} ", "", ',"x":1}']), st.booleans())
def test_payloads_of_envelopes(payloads: list[bytes], end: str, other: bool) -> None:
    begin = b'{"schema":' + json.dumps(ENVELOPE).encode() + b',"payload":'
    values: list[bytes | None] = [begin + payload + b"}" for payload in payloads]
    values += [None, begin + payloads[0] + end.encode()]
    if other:
        values.insert(0, b'{"payload": 1, "schema": {"type": "int32"}}')
    assert same(*both(values, lambda: json_envelope_decoder(CLASSIC_ZONE)))


@pytest.mark.parametrize("wire", ["schema", "envelope"])
def test_plain_records_never_go_one_by_one(wire: str) -> None:
    good = b'{"i":1,"d":2.5,"s":"x"}'
    with patch.object(RowDecoder, "decode", side_effect=AssertionError):
        if wire == "schema":
            found = json_schema().decode(pa.array([FRAME + good] * 3))
        else:
            begin = b'{"schema":' + json.dumps(ENVELOPE).encode() + b',"payload":'
            found = json_envelope_decoder(CLASSIC_ZONE).decode(pa.array([begin + good + b"}"] * 3))
    assert [json.loads(text)["d"] for text in found.content.to_pylist()] == [2.5] * 3


def test_what_may_become_too_much_text_goes_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "MAX_TEXT", 60)
    found, rows = both([FRAME + b'{"i":1,"s":""}', FRAME + b'{"i":1,"s":"' + b"x" * 90 + b'"}'], json_schema)
    assert same(found, rows)
    assert len(found.bad) == 2


def test_a_doubtful_object_does_not_slow_down_its_neighbours() -> None:
    values = [FRAME + b'{"i":1,"s":"x"}', FRAME + b'{"i":1.0,"s":"x","more":1}', FRAME + b'{"i":"1"}'] * 2
    with patch.object(RowDecoder, "_one", autospec=True, side_effect=RowDecoder._one) as one:
        found = json_schema().decode(pa.array(values))
    assert one.call_count == 4
    assert [each.row for each in found.bad] == [2, 5]
