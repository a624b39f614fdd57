"""Schemas: references are written in, slips are noticed, faults are named."""

import json

import fastavro
import pytest

from firn.errors import ConfigError
from firn.produce.orders import SCHEMA_FILE
from firn.registry.avro_schema import inline_references, misplaced_logical_types, parse, read_schema

COUNTRY = {"type": "enum", "name": "Country", "symbols": ["A", "B"]}
ADDRESS = {"type": "record", "name": "Address", "namespace": "n", "fields": [{"name": "c", "type": COUNTRY}]}


def test_a_type_from_elsewhere_is_defined_where_first_used_and_named_afterwards():
    person = {
        "type": "record",
        "name": "Person",
        "namespace": "m",
        "fields": [
            {"name": "born", "type": "n.Country"},
            {"name": "home", "type": ["null", "n.Address"]},
            {"name": "work", "type": {"type": "array", "items": "n.Address"}},
        ],
    }
    alone = inline_references(person, [ADDRESS])
    parsed = fastavro.parse_schema(json.loads(json.dumps(alone)))
    value = {"born": "A", "home": {"c": "B"}, "work": [{"c": "A"}]}
    assert fastavro.validate(value, parsed)
    assert json.dumps(alone).count('"symbols"') == 1


def test_a_logical_type_beside_its_type_is_noticed_and_corrected():
    slip = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "at", "type": "long", "logicalType": "timestamp-millis"},
            {"name": "ok", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        ],
    }
    (warning,) = misplaced_logical_types(json.dumps(slip))
    assert "Field at:" in warning
    assert '{"type": "long", "logicalType": "timestamp-millis"}' in warning


def test_the_schema_of_the_sample_orders_has_no_slip():
    assert misplaced_logical_types(read_schema(SCHEMA_FILE)) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{", "line 1"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "x.Y"}]}', "unknown type x.Y"),
    ],
)
def test_a_faulty_schema_is_named(text, fault):
    with pytest.raises(ConfigError, match=fault):
        parse(text, where="orders.avsc")
