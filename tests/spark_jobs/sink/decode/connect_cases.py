"""Generated values of Connect's data model: schema, value, the JSON that must come out, and Kafka's own JSON for both.

The expected JSON and the envelope are worked out from the value itself and owe nothing to the code under test.
"""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
from hypothesis import strategies as st

from spark_jobs.sink.decode.connect.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type

Json = Any
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ['"', "\\", "\n\0", "😀", "null"]
)
BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
JSON_NAMES = {Type.FLOAT32: "float", Type.FLOAT64: "double"}


@dataclass(frozen=True)
class Case:
    """One value: as Connect holds it, as the sink must print it, and as JsonConverter writes schema and payload."""

    schema: Schema
    value: Any
    expected: Json
    described: Json
    payload: Json


def finite_or_text(value: float) -> Json:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return Decimal(repr(value))


def _case(kind: Type, value: Any, expected: Json, payload: Json, name: str | None = None, **parameters: str) -> Case:
    schema = Schema(kind, name=name, parameters=parameters)
    described = {"type": JSON_NAMES.get(kind, kind.value), "name": name, "parameters": parameters, "optional": False}
    return Case(schema, value, expected, {key: each for key, each in described.items() if each is not None}, payload)


def _plain(kind: Type, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Case]:
    return values.map(lambda value: _case(kind, value, value, value))


def _float(kind: Type, width: int) -> st.SearchStrategy[Case]:
    def case(value: float) -> Case:
        shortest = float(str(np.float32(value))) if width == 32 else value
        text = finite_or_text(shortest)
        return _case(kind, value, text, shortest if math.isfinite(value) else text)

    return st.floats(width=width).map(case)  # type: ignore[arg-type]


def _decimal(unscaled: int, scale: int, *, as_number: bool) -> Case:
    value = Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -scale))
    raw = unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)
    payload = value if as_number else base64.b64encode(raw).decode()
    return _case(Type.BYTES, value, value if abs(unscaled) < 10**38 else str(value), payload, DECIMAL, scale=str(scale))


def _day(days: int) -> Case:
    text = f"{date(1970, 1, 1) + timedelta(days=days)}T00:00:00.000Z"
    return _case(Type.INT32, days, text, days, DATE)


def _time(millis: int) -> Case:
    seconds, rest = divmod(millis, 1000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{rest:03d}Z"
    return _case(Type.INT32, millis, text, millis, TIME)


LEAVES = st.one_of(
    _plain(Type.BOOLEAN, st.booleans()),
    *(_plain(kind, st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)) for kind, bits in BITS.items()),
    _plain(Type.STRING, TEXTS),
    _float(Type.FLOAT32, 32),
    _float(Type.FLOAT64, 64),
    st.binary(max_size=9).map(lambda raw: _case(Type.BYTES, raw, (b := base64.b64encode(raw).decode()), b)),
    st.builds(_decimal, st.integers(-(10**45), 10**45), st.integers(0, 45), as_number=st.booleans()),
    st.integers(-719_162, 2_932_896).map(_day),
    st.integers(0, 86_399_999).map(_time),
    st.integers(-(2**63), 2**63 - 1).map(lambda millis: _case(Type.INT64, millis, millis, millis, TIMESTAMP)),
)


@st.composite
def cases(draw: st.DrawFn, depth: int = 2) -> Case:
    """Any value, nested `depth` levels at most."""
    kind = draw(st.sampled_from(["leaf", "null", "default", "array", "object", "pairs", "struct"])) if depth else "leaf"
    if kind == "leaf":
        return draw(LEAVES)
    if kind == "struct":
        names = draw(st.lists(TEXTS.filter(bool), max_size=4, unique=True))
        return _struct({name: draw(cases(depth=depth - 1)) for name in names})
    inner = draw(cases(depth=depth - 1))
    if kind in ("null", "default"):
        return inner if inner.value is None else _absent(inner, with_default=kind == "default")
    count = draw(st.integers(0, 3))
    if kind == "array":
        schema, described = Schema(Type.ARRAY, value=inner.schema), {"type": "array", "items": inner.described}
        return Case(schema, [inner.value] * count, [inner.expected] * count, described, [inner.payload] * count)
    return _map(inner, [str(at) for at in range(count)] if kind == "object" else list(range(count)))


def envelope(case: Case) -> bytes:
    """Schema and payload as JsonConverter writes them."""
    parts = {"schema": case.described, "payload": case.payload}
    return orjson.dumps(parts, default=lambda number: orjson.Fragment(str(number)))


def _absent(inner: Case, *, with_default: bool) -> Case:
    """A null where the value of `inner` is the default, or where a value is optional."""
    if with_default:
        schema, described = replace(inner.schema, default=inner.value), {"default": inner.payload}
        return Case(schema, None, inner.expected, {**inner.described, **described}, None)
    return Case(replace(inner.schema, optional=True), None, None, {**inner.described, "optional": True}, None)


def _map(inner: Case, keys: list[Any]) -> Case:
    as_object = bool(keys) and isinstance(keys[0], str)
    key = Schema(Type.STRING if as_object else Type.INT32)
    described = {"type": "map", "keys": {"type": key.type.value}, "values": inner.described}
    texts, payload = ([[name, each] for name in keys] for each in (inner.expected, inner.payload))
    shape = dict if as_object else list
    schema = Schema(Type.MAP, key=key, value=inner.schema)
    return Case(schema, [(name, inner.value) for name in keys], shape(texts), described, shape(payload))


def _struct(fields: dict[str, Case]) -> Case:
    schema = Schema(Type.STRUCT, fields=tuple((name, each.schema) for name, each in fields.items()))
    described = {"type": "struct", "fields": [{**each.described, "field": name} for name, each in fields.items()]}
    value, expected, payload = (
        {name: getattr(each, what) for name, each in fields.items()} for what in ("value", "expected", "payload")
    )
    return Case(schema, value, expected, described, payload)
