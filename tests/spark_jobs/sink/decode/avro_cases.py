"""Generated Avro: writer schemas, values to write with fastavro, and the JSON that each must become.

The expected JSON is worked out from the value itself, so it owes nothing to the decoders under test.
"""

from __future__ import annotations

import base64
import io
import json
import math
import struct
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
from hypothesis import strategies as st

Json = Any
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,6}", fullmatch=True)
LONGS = st.integers(-(2**63), 2**63 - 1) | st.sampled_from([0, -1, 2**53 + 1, 2**63 - 1, -(2**63)])
INTS = st.integers(-(2**31), 2**31 - 1)
TEXTS = st.text(max_size=8) | st.sampled_from(['"', "\\", "\n\x00\x1f", "\x7f\u2028", "😀", "null", ","])
SIMPLE = ["boolean", "int", "long", "float", "double", "string", "date", "time-millis", "timestamp-millis", "enum"]
RICH = [*SIMPLE, "null", "bytes", "fixed", "decimal", "fixed-decimal", "uuid", "time-micros"]


def number(value: float) -> Json:
    """A double as the JSON the sink writes, numbers exact."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return Decimal(repr(value))


def frame(body: bytes, schema_id: int = 1) -> bytes:
    return b"\0" + struct.pack(">i", schema_id) + body


def write(schema: Json, value: Json) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()


def parsed(text: str) -> Json:
    """JSON with exact numbers; a key that stands twice in an object is an error, as it is to Snowflake."""
    return json.loads(text, parse_float=Decimal, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Json]]) -> Json:
    found = dict(pairs)
    assert len(found) == len(pairs), f"a repeated key in {pairs}"
    return found


class _Names:
    """Counts, so that no two types of a schema share a name."""

    def __init__(self) -> None:
        self.count = 0

    def next(self) -> str:
        self.count += 1
        return f"T{self.count}"


@st.composite
def schemas(draw: st.DrawFn, *, rich: bool) -> Json:
    """A record schema; `rich` has the types that only the reference decoder reads."""
    return draw(_records(_Names(), 3, rich))


@st.composite
def _records(draw: st.DrawFn, names: _Names, depth: int, rich: bool) -> Json:
    fields = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    name = names.next()
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": each, "type": draw(_types(names, depth - 1, rich))} for each in fields],
    }


@st.composite
def _types(draw: st.DrawFn, names: _Names, depth: int, rich: bool) -> Json:
    nested = ["record", "array", "map", "optional"] + (["union"] if rich else []) if depth > 0 else []
    kind = draw(st.sampled_from((RICH if rich else SIMPLE) + nested * 2))
    match kind:
        case "record":
            return draw(_records(names, depth, rich))
        case "array":
            return {"type": "array", "items": draw(_types(names, depth - 1, rich))}
        case "map":
            return {"type": "map", "values": draw(_types(names, depth - 1, rich))}
        case "optional":
            inner = draw(_types(names, depth - 1, rich).filter(_may_be_optional))
            return draw(st.sampled_from([["null", inner], [inner, "null"]]))
        case "union":
            return ["null", "string", "long", draw(_records(names, depth, rich)), leaf("enum", names)]
    return leaf(kind, names)


def _may_be_optional(schema: Json) -> bool:
    return schema != "null" and not isinstance(schema, list)


def leaf(kind: str, names: _Names) -> Json:
    match kind:
        case "date" | "time-millis":
            return {"type": "int", "logicalType": kind}
        case "timestamp-millis" | "time-micros":
            return {"type": "long", "logicalType": kind}
        case "uuid":
            return {"type": "string", "logicalType": "uuid"}
        case "enum":
            return {"type": "enum", "name": names.next(), "symbols": ["A", "B_2", "c"]}
        case "fixed":
            return {"type": "fixed", "name": names.next(), "size": 3}
        case "decimal":
            return {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 4}
        case "fixed-decimal":
            return {
                "type": "fixed", "name": names.next(), "size": 8, "logicalType": "decimal", "precision": 18, "scale": 2,
            }  # fmt: skip
    return kind


def values(schema: Json) -> st.SearchStrategy[tuple[Json, Json]]:
    """Pairs of a value to write and the JSON it becomes."""
    if isinstance(schema, list):
        return _union_values(schema)
    logical = schema.get("logicalType") if isinstance(schema, dict) else None
    kind = schema["type"] if isinstance(schema, dict) else schema
    match logical or kind:
        case "null":
            return st.just((None, None))
        case "boolean":
            return st.booleans().map(lambda v: (v, v))
        case "int":
            return INTS.map(lambda v: (v, v))
        case "long" | "timestamp-millis" | "time-micros":
            return LONGS.map(lambda v: (v, v))
        case "float":
            return st.floats(width=32).map(lambda v: (v, _float32(v)))
        case "double":
            return st.floats().map(lambda v: (v, number(v)))
        case "string":
            return TEXTS.map(lambda v: (v, v))
        case "uuid":
            return st.uuids().map(lambda v: (str(v), str(v)))
        case "date":
            return st.integers(-719_162, 2_932_896).map(lambda v: (v, _date(v)))
        case "time-millis":
            return st.integers(0, 86_399_999).map(lambda v: (v, _time(v)))
        case "bytes":
            return st.binary(max_size=6).map(lambda v: (v, base64.b64encode(v).decode()))
        case "fixed":
            return st.binary(min_size=3, max_size=3).map(lambda v: (v, base64.b64encode(v).decode()))
        case "decimal":
            return _decimals(schema)
        case "enum":
            return st.sampled_from(schema["symbols"]).map(lambda v: (v, v))
        case "array":
            return st.lists(values(schema["items"]), max_size=3).map(
                lambda pairs: ([v for v, _ in pairs], [j for _, j in pairs])
            )
        case "map":
            return st.dictionaries(TEXTS, values(schema["values"]), max_size=3).map(
                lambda found: ({k: v for k, (v, _) in found.items()}, {k: j for k, (_, j) in found.items()})
            )
        case "record":
            names = [field["name"] for field in schema["fields"]]
            return st.tuples(*[values(field["type"]) for field in schema["fields"]]).map(
                lambda pairs: (
                    {n: v for n, (v, _) in zip(names, pairs, strict=True)},
                    {n: j for n, (_, j) in zip(names, pairs, strict=True)},
                )
            )
    raise AssertionError(schema)


def _union_values(branches: list[Json]) -> st.SearchStrategy[tuple[Json, Json]]:
    others = [branch for branch in branches if branch != "null"]
    if len(others) == 1:
        return st.just((None, None)) | values(others[0])
    names = [branch if isinstance(branch, str) else branch["name"] for branch in others]

    def wide(at: int) -> st.SearchStrategy[tuple[Json, Json]]:
        pairs = values(others[at])
        return pairs.map(lambda p: ((names[at], p[0]), {n: p[1] if n == names[at] else None for n in names}))

    return st.one_of(st.just((None, None)), *[wide(at) for at in range(len(others))])


def _float32(value: float) -> Json:
    return Decimal(str(np.float32(value))) if math.isfinite(value) else number(value)


def _date(days: int) -> str:
    return f"{(date(1970, 1, 1) + timedelta(days)).isoformat()}T00:00:00.000Z"


def _time(millis: int) -> str:
    text = (timedelta(milliseconds=millis) + __import__("datetime").datetime(2000, 1, 1)).strftime("%H:%M:%S")
    return f"{text}.{millis % 1000:03d}+0000"


def _decimals(schema: Json) -> st.SearchStrategy[tuple[Json, Json]]:
    fixed = schema["type"] == "fixed"
    limit = 2**63 if fixed else 10**45

    def pair(unscaled: int) -> tuple[Json, Json]:
        size = 8 if fixed else max(1, (unscaled.bit_length() + 8) // 8)
        text = Decimal((unscaled < 0, tuple(map(int, str(abs(unscaled)))), -schema["scale"]))
        expected = text if abs(unscaled) < 10**38 else str(text)
        return unscaled.to_bytes(size, "big", signed=True), expected

    return st.integers(-limit, limit - 1).map(pair)


@st.composite
def cases(draw: st.DrawFn, *, rich: bool) -> tuple[Json, list[bytes], list[Json]]:
    """A schema, bodies written with it, and the JSON of each."""
    schema = draw(schemas(rich=rich))
    pairs = draw(st.lists(values(schema), min_size=1, max_size=5))
    return schema, [write(schema, value) for value, _ in pairs], [expected for _, expected in pairs]


@st.composite
def damaged(draw: st.DrawFn, *, rich: bool) -> tuple[Json, list[bytes]]:
    """A schema and bodies of which most were cut, lengthened or changed somewhere."""
    schema, bodies, _ = draw(cases(rich=rich))
    return schema, [draw(_damage(body)) for body in bodies for _ in range(3)]


@st.composite
def _damage(draw: st.DrawFn, body: bytes) -> bytes:
    at = draw(st.integers(0, len(body)))
    some = draw(
        st.binary(max_size=3) | st.sampled_from([b"\xff" * 9 + b"\x01", b"\x01", b"\xfe\xff\xff\xff\x0f", b"\x80\x00"])
    )
    return draw(
        st.sampled_from(
            [
                body,
                body[:at],
                body + some,
                body[:at] + some + body[at:],
                body[:at] + some + body[at + len(some) :],
                some,
            ]
        )
    )
