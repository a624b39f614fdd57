"""Values of files become Avro values, or an error that names the field and what was expected."""

import io
from datetime import UTC, date, datetime, time
from decimal import Decimal

import fastavro
import pytest

from firn.errors import ConfigError
from firn.produce.coerce import record_coercer
from firn.produce.scalars import CoercionError

ENUM = {"type": "enum", "name": "Size", "symbols": ["S", "M"]}
INNER = {"type": "record", "name": "Inner", "fields": [{"name": "a", "type": "int"}]}


def schema_of(avro_type, **attributes):
    fields = [{"name": "f", "type": avro_type, **attributes}]
    return fastavro.parse_schema({"type": "record", "name": "R", "fields": fields})


def through_avro(avro_type, value, *, text=True):
    """What a reader gets back for `value` in a field of this type."""
    schema = schema_of(avro_type)
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, record_coercer(schema, text=text)({"f": value}))
    buffer.seek(0)
    return fastavro.schemaless_reader(buffer, schema)["f"]


def logical(avro_type, name, **attributes):
    return {"type": avro_type, "logicalType": name, **attributes}


@pytest.mark.parametrize(
    ("avro_type", "text", "value"),
    [
        ("string", "", ""),
        ("string", "  x ", "  x "),
        ("boolean", "TRUE", True),
        ("boolean", "0", False),
        ("boolean", "yes", True),
        ("int", " 7 ", 7),
        ("int", "7.0", 7),
        ("long", "-9223372036854775808", -(2**63)),
        ("double", "1e3", 1000.0),
        ("float", "0.5", 0.5),
        ("bytes", "AAH/", b"\x00\x01\xff"),
        ({"type": "fixed", "name": "F", "size": 3}, "AAH/", b"\x00\x01\xff"),
        (logical("bytes", "decimal", precision=38, scale=4), "1234567890123456789012345678901234.5678", None),
        (logical("bytes", "decimal", precision=5, scale=2), "1.5", Decimal("1.50")),
        (logical("int", "date"), "2026-03-05", date(2026, 3, 5)),
        (logical("int", "time-millis"), "12:30:15.123", time(12, 30, 15, 123_000)),
        (
            logical("long", "timestamp-millis"),
            "2026-03-05T12:30:15.123Z",
            datetime(2026, 3, 5, 12, 30, 15, 123_000, UTC),
        ),
        (logical("long", "timestamp-millis"), "2026-03-05 12:30", datetime(2026, 3, 5, 12, 30, tzinfo=UTC)),
        (logical("long", "timestamp-millis"), "1772713815123", datetime(2026, 3, 5, 12, 30, 15, 123_000, UTC)),
        (logical("long", "timestamp-micros"), "2026-03-05T13:30:15+01:00", datetime(2026, 3, 5, 12, 30, 15, 0, UTC)),
        (ENUM, "M", "M"),
        (["null", "long"], "", None),
        (["null", "string"], "", None),
        (["null", "string"], "x", "x"),
        (["null", "long", "string"], "12", 12),
        (["null", "long", "string"], "12x", "12x"),
        ({"type": "array", "items": "int"}, '[1, "2"]', [1, 2]),
        ({"type": "map", "values": ["null", "double"]}, '{"a": 1, "b": null}', {"a": 1.0, "b": None}),
        (INNER, '{"a": 3}', {"a": 3}),
    ],
)
def test_a_csv_cell_becomes_its_avro_value(avro_type, text, value):
    assert through_avro(avro_type, text) == (Decimal(text) if value is None and text else value)


@pytest.mark.parametrize(
    ("avro_type", "value", "wanted"),
    [
        (["long", "string"], "5", "5"),
        (["string", "long"], 5, 5),
        (["null", INNER, {"type": "record", "name": "Other", "fields": []}], {"a": 1}, {"a": 1}),
        ("string", 12, "12"),
        ("double", 3, 3.0),
        (["null", "string"], "", ""),
    ],
)
def test_values_with_types_of_their_own_keep_them(avro_type, value, wanted):
    result = through_avro(avro_type, value, text=False)
    assert (type(result), result) == (type(wanted), wanted)


@pytest.mark.parametrize(
    ("avro_type", "text", "wanted"),
    [
        ("int", "2147483648", "int"),
        ("int", "1_000", "int"),
        ("long", "", "long"),
        ("long", "1.5", "long"),
        ("float", "1e39", "float"),
        ("double", "NULL", "double"),
        ("boolean", "maybe", "boolean"),
        ("bytes", "not base64!", "base64"),
        ({"type": "fixed", "name": "F", "size": 2}, "AAH/", "2 bytes"),
        (logical("bytes", "decimal", precision=5, scale=2), "1.234", "decimal(5, 2)"),
        (logical("bytes", "decimal", precision=5, scale=2), "1234.5", "decimal(5, 2)"),
        (logical("bytes", "decimal", precision=5, scale=2), "NaN", "decimal(5, 2)"),
        (logical("bytes", "decimal", precision=5, scale=2), "1_0", "decimal(5, 2)"),
        (logical("int", "date"), "05/03/2026", "date"),
        (logical("long", "timestamp-millis"), "yesterday", "timestamp"),
        (logical("string", "uuid"), "12", "uuid"),
        (ENUM, "XL", "one of S, M"),
        (["null", "long"], "x", "long"),
        ({"type": "array", "items": "int"}, "[1", "array as JSON"),
    ],
)
def test_a_value_of_another_type_is_refused(avro_type, text, wanted):
    with pytest.raises(CoercionError) as refused:
        record_coercer(schema_of(avro_type), text=True)({"f": text})
    assert refused.value.path == "f"
    assert wanted in refused.value.wanted


def test_the_path_leads_into_nested_values():
    schema = schema_of({"type": "array", "items": INNER})
    with pytest.raises(CoercionError) as refused:
        record_coercer(schema, text=True)({"f": '[{"a": 1}, {"a": "x"}]'})
    assert refused.value.path == "f.1.a"


def test_an_unknown_field_names_the_nearest():
    with pytest.raises(CoercionError, match="did you mean f") as refused:
        record_coercer(schema_of(INNER), text=False)({"F": 1})
    assert refused.value.path == "F"


def test_an_absent_field_takes_its_default_or_null():
    assert through_default(schema_of("int", default=4)) == 4
    assert through_default(schema_of(["null", "int"])) is None
    assert through_default(schema_of("bytes", default="\u00ff\u0001")) == b"\xff\x01"
    assert through_default(schema_of(["string", "null"], default="x")) == "x"
    with pytest.raises(CoercionError, match="absent"):
        through_default(schema_of("int"))


def through_default(schema):
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, schema, record_coercer(schema, text=False)({}))
    buffer.seek(0)
    return fastavro.schemaless_reader(buffer, schema)["f"]


def test_a_recursive_schema_takes_a_tree():
    tree = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    assert through_avro(tree, '{"next": {"next": null}}') == {"next": {"next": None}}


def test_a_long_value_is_shortened_in_the_error():
    with pytest.raises(CoercionError) as refused:
        record_coercer(schema_of("int"), text=True)({"f": "x" * 1000})
    assert len(refused.value.value) < 80


def test_a_schema_that_is_no_record_is_refused():
    with pytest.raises(ConfigError, match="not a record"):
        record_coercer("string", text=True)
