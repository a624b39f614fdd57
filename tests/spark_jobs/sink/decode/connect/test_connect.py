"""Values of Connect's data model come out as the official connector 2.5.0 writes them."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from spark_jobs.sink.decode.base.contract import MalformedError
from spark_jobs.sink.decode.base.scalars import CLASSIC_ZONE, STREAMING_ZONE
from spark_jobs.sink.decode.connect.schema import DATE, DECIMAL, TIME, Schema, Type
from spark_jobs.sink.decode.connect.values import json_text
from spark_jobs.sink.values.bad_records import SCHEMA_MISMATCH
from tests.spark_jobs.sink.decode.avro_cases import parsed
from tests.spark_jobs.sink.decode.connect_cases import Case, cases
from tests.support.vectors import exact, vectors

VECTORS = [
    each
    for each in vectors("records")["vectors"]
    if each.get("value_converter", "").startswith("native connect") and "value" in each["input"]
]
# Vectors whose content is on purpose not the official one, by name: none.
DIFFERENCES: dict[str, str] = {}
MILLIS_PER_DAY = 86_400_000


def schema_of(raw: Any) -> Schema | None:
    """A schema as the vectors write it."""
    if raw is None:
        return None
    return Schema(
        Type[raw["type"]],
        name=raw.get("name"),
        optional=raw.get("optional", False),
        parameters=raw.get("parameters", {}),
        fields=tuple((each["field"], schema_of(each["schema"])) for each in raw.get("fields", [])),  # type: ignore[misc]
        key=schema_of(raw.get("keySchema")),
        value=schema_of(raw.get("valueSchema")),
    )


def value_of(raw: Any, schema: Schema | None) -> Any:
    """A Java value as the vectors write it."""
    fields = dict(schema.fields) if schema else {}
    if isinstance(raw, list):
        return [value_of(each, None) for each in raw]
    if not isinstance(raw, dict):
        return raw
    if len(raw) != 1 or not next(iter(raw)).startswith("$"):
        return {name: value_of(each, fields.get(name)) for name, each in raw.items()}
    ((kind, given),) = raw.items()
    match kind:
        case "$bytes_base64" | "$bytebuffer_base64":
            return base64.b64decode(given)
        case "$decimal":
            return Decimal(given)
        case "$float" | "$double":
            return float(given)
    return given // MILLIS_PER_DAY if schema and schema.name == DATE else given


def content(vector: dict[str, Any], zone: str) -> Any:
    """The content as the sink writes it: a null value is an empty object."""
    schema = schema_of(vector["input"]["value_schema"])
    text = json_text(schema, value_of(vector["input"]["value"], schema), time_zone=zone)
    return {} if text is None else parsed(text)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
@pytest.mark.parametrize(("method", "zone"), [("snowpipe", CLASSIC_ZONE), ("snowpipe_streaming", STREAMING_ZONE)])
def test_content_is_that_of_the_official_connector(vector: dict[str, Any], method: str, zone: str) -> None:
    official = vector["output"][method]
    if "error" in official:
        with pytest.raises(MalformedError):
            content(vector, zone)
        return
    wanted = official["RECORD_CONTENT"]
    wanted = exact(wanted) if method == "snowpipe_streaming" else wanted
    assert (content(vector, zone) == wanted) == (vector["name"] not in DIFFERENCES)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_every_type_becomes_the_json_that_was_meant(case: Case) -> None:
    text = json_text(case.schema, case.value, time_zone=STREAMING_ZONE)
    assert (None if text is None else parsed(text)) == case.expected


def field(kind: Type, **described: Any) -> Schema:
    return Schema(Type.STRUCT, fields=(("f", Schema(kind, **described)),))


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (Schema(Type.MAP, key=Schema(Type.INT32), value=Schema(Type.STRING)), {1: "a"}, '[[1,"a"]]'),
        (Schema(Type.MAP, key=Schema(Type.STRING), value=Schema(Type.INT8)), [("a", 1), ("a", 2)], '{"a":2}'),
        (Schema(Type.MAP, key=Schema(Type.INT8), value=Schema(Type.INT8)), [(1, 1), (1, 2)], "[[1,2]]"),
        (None, {1: "a", "b": None}, '[[1,"a"],["b",null]]'),
        (None, {"a": [True, b"\xff", 10**38, 10**37]}, f'{{"a":[true,"/w==","{10**38}",{10**37}]}}'),
        (Schema(Type.STRUCT), {}, "{}"),
        (field(Type.INT32, default=5), {}, '{"f":5}'),
        (field(Type.INT32, name=TIME), {"f": 86_400_000}, '{"f":86400000}'),
        (field(Type.INT32, name=DATE), {"f": -719_163}, '{"f":"0000-12-31T00:00:00.000Z"}'),
        (field(Type.INT64, name=DATE), {"f": 1}, '{"f":1}'),
        (field(Type.BYTES, name=DECIMAL), {"f": Decimal("1E+40")}, '{"f":1E+40}'),
        (field(Type.BYTES, name=DECIMAL), {"f": Decimal("1E+400")}, '{"f":"1E+400"}'),
        (field(Type.BYTES, name=DECIMAL), {"f": Decimal("-1.50")}, '{"f":-1.50}'),
    ],
)
def test_forms_beyond_the_vectors(schema: Schema | None, value: Any, text: str) -> None:
    assert json_text(schema, value) == text


def test_a_null_record_is_a_tombstone_with_or_without_a_schema() -> None:
    assert json_text(None, None) is None
    assert json_text(Schema(Type.INT8, optional=True), None) is None
    assert json_text(Schema(Type.INT8, optional=True, default=3), None) == "3"


def test_a_null_that_the_schema_does_not_allow_is_named_by_its_path() -> None:
    schema = field(Type.ARRAY, value=field(Type.STRING))
    with pytest.raises(MalformedError, match=r"value\.f\[\]\.f is null") as caught:
        json_text(schema, {"f": [{"f": "a"}, {"f": None}]})
    assert caught.value.reason == SCHEMA_MISMATCH
    with pytest.raises(MalformedError, match="value is null"):
        json_text(Schema(Type.INT8), None)
