"""Schemas of three formats as one description: types, nulls, symbols, texts, and what has no description."""

import json
from typing import Any

import pytest

from firn.errors import ConfigError
from firn.modelling.columns import Column, Table, tables_of
from firn.modelling.description import VARIANT, Described, Kind, Record
from firn.modelling.generate import described
from firn.modelling.overrides import Overrides
from firn.modelling.sql import data_type
from firn.registry.schemas import RegisteredSchema
from tests.firn.modelling.subjects import DEEP, FLAT, MESSAGES, PROTO, UNIONS, Subject


def columns(described: Described, suffix: str = "") -> dict[str, tuple[str, bool]]:
    """Type and nullability of each column of a table."""
    return {each.name: (data_type(each.type), each.nullable) for each in table(described, suffix).columns}


def table(described: Described, suffix: str = "") -> Table:
    return {each.suffix: each for each in tables_of(described, Overrides())}[suffix]


def column(described: Described, name: str, suffix: str = "") -> Column:
    return {each.name: each for each in table(described, suffix).columns}[name]


def of_fields(*fields: dict[str, Any]) -> RegisteredSchema:
    return RegisteredSchema("AVRO", json.dumps({"type": "record", "name": "R", "fields": fields}))


def test_a_flat_record_has_a_column_for_each_field() -> None:
    assert columns(FLAT.described) == {
        "sensor_id": ("varchar", False),
        "celsius": ("float", False),
        "valid": ("boolean", False),
        "count": ("number(38, 0)", True),
        "raw": ("binary", False),
        "value_order": ("number(38, 0)", False),  # a word of SQL
        "value_topic": ("varchar", False),  # the record's own column has the name
        "taken_at": ("number(38, 0)", False),
    }
    assert column(FLAT.described, "sensor_id").doc == "Id of the sensor's board."


def test_nested_objects_are_columns_and_arrays_are_tables() -> None:
    found = DEEP.described
    assert columns(found) == {
        "basket": ("number(38, 0)", False),
        "customer_name": ("varchar", False),
        "customer_address_city": ("varchar", True),  # its object may be absent
        "customer_address_zip_code": ("varchar", True),
        "state": ("varchar", True),
        "payment_option_0": ("number(38, 0)", True),
        "payment_option_1": ("varchar", True),
        "anything": ("variant", True),
    }
    assert [each.suffix for each in tables_of(found, Overrides())] == [
        "",
        "__lines",
        "__lines__discounts",
        "__labels",
    ]
    assert columns(found, "__lines") == {"sku": ("varchar", False), "amount": ("float", True)}
    assert table(found, "__lines").doc == "What is in it."
    assert table(found, "__lines__discounts").keys == ("lines_index", "discounts_index")
    assert table(found, "__labels").keys == ("labels_key",)
    assert columns(found, "__labels") == {"value": ("varchar", False)}
    assert column(found, "state").type.symbols == ("OPEN", "PAID")


def test_logical_types_have_types_of_their_own() -> None:
    assert columns(UNIONS.described) == {
        "id": ("varchar", False),
        "price": ("number(10, 3)", False),
        "huge": ("varchar", False),  # a NUMBER has 38 digits
        "day": ("date", False),
        "at_time": ("time", False),
        "at_micro": ("time", False),
        "seen_ms": ("timestamp_ntz", False),
        "seen_us": ("timestamp_ntz", True),
        "detail_string": ("varchar", True),  # a member for each type of a union
        "detail_move_metres": ("float", True),
        "colour": ("varchar", True),
        "parent": ("variant", True),  # a record inside itself
    }
    assert columns(UNIONS.described, "__detail_array") == {"value": ("number(38, 0)", False)}
    assert columns(UNIONS.described, "__tags") == {"value": ("number(38, 0)", True)}


def test_protobuf_has_presence_oneofs_wrappers_and_maps() -> None:
    assert columns(MESSAGES.described) == {
        "paid_by_0_card": ("varchar", True),
        "paid_by_0_counter_name": ("varchar", True),
        "id": ("varchar", False),
        "kind": ("varchar", False),
        "started": ("timestamp_ntz", True),
        "fare": ("number(38, 0)", True),
        "rating": ("float", True),
    }
    assert column(MESSAGES.described, "kind").type.symbols == ("UNKNOWN", "CAR")
    assert columns(MESSAGES.described, "__stops") == {"name": ("varchar", False)}
    assert columns(MESSAGES.described, "__stops__platforms") == {"value": ("number(38, 0)", False)}
    # Its keys are no text, so the sink writes [key, value].
    assert table(MESSAGES.described, "__seats").keys == ("seats_index",)
    assert columns(MESSAGES.described, "__seats") == {"key": ("number(38, 0)", False), "value": ("varchar", False)}


def test_a_message_is_named_or_the_first() -> None:
    schema = RegisteredSchema("PROTOBUF", PROTO + "message Other { string note = 1; }")
    assert columns(described("s", [(1, schema)], "Other")) == {"note": ("varchar", False)}
    with pytest.raises(ConfigError, match="no message Third") as raised:
        described("s", [(1, schema)], "Third")
    assert "Ride, Other" in raised.value.where


@pytest.mark.parametrize("subject", [FLAT, DEEP, UNIONS, MESSAGES], ids=lambda each: each.name)
def test_every_path_leads_to_what_the_sink_writes(subject: Subject) -> None:
    """Of the top table: the JSON that the sink's own decoder gives has a member at each step of each column."""
    content = json.loads(subject.content)
    for each in table(subject.described).columns:
        value = content
        for step in each.steps:
            if value is None:
                break
            assert step in value, each
            value = value[step]


def test_a_field_that_one_version_lacks_is_nullable_and_a_dropped_one_stays() -> None:
    old = of_fields({"name": "a", "type": "int"}, {"name": "gone", "type": "string"})
    new = of_fields({"name": "a", "type": "double"}, {"name": "b", "type": "int", "default": 1, "doc": "New."})
    assert columns(described("s", [(1, old), (4, new)])) == {
        "a": ("float", False),  # the wider type
        "b": ("number(38, 0)", True),
        "gone": ("varchar", True),
    }
    assert described("s", [(1, old), (4, new)]).versions == (1, 4)


def test_an_enum_has_the_symbols_of_all_versions() -> None:
    def enum(*symbols: str) -> RegisteredSchema:
        return of_fields({"name": "e", "type": {"type": "enum", "name": "E", "symbols": list(symbols)}})

    found = described("s", [(1, enum("A", "B")), (2, enum("B", "C"))])
    assert column(found, "e").type.symbols == ("B", "C", "A")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("int", "long", "number(38, 0)"),
        ("long", "double", "float"),
        ("int", "string", "variant"),
        ("string", "bytes", "variant"),  # base64 in one, text in the other
        (["null", "string"], ["null", "string", "int"], "variant"),  # a text became an object
        ("long", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "number(38, 2)"),
    ],
)
def test_of_two_types_the_wider_one_counts(old: Any, new: Any, expected: str) -> None:
    versions = [(1, of_fields({"name": "a", "type": old})), (2, of_fields({"name": "a", "type": new}))]
    assert columns(described("s", versions))["a"][0] == expected


def test_a_logical_type_beside_its_type_is_none() -> None:
    """The course's schema has it so: Avro ignores it, and values stay numbers."""
    misplaced = of_fields({"name": "at", "type": "long", "logicalType": "timestamp-millis"})
    assert column(described("s", [(1, misplaced)]), "at").type.kind is Kind.INTEGER


def test_a_value_that_is_no_record_has_one_column() -> None:
    assert columns(described("s", [(1, RegisteredSchema("AVRO", '"string"'))])) == {"value": ("varchar", False)}
    assert described("s", [(1, RegisteredSchema("JSON", "true"))]).type == VARIANT


@pytest.mark.parametrize(
    "schema",
    [
        RegisteredSchema("AVRO", '{"type": "record"}'),
        RegisteredSchema("JSON", '{"$ref": "#/nowhere"}'),
        RegisteredSchema("PROTOBUF", "message {"),
        RegisteredSchema("XML", ""),
    ],
    ids=lambda each: each.kind,
)
def test_a_schema_that_cannot_be_read_is_an_error_that_names_it(schema: RegisteredSchema) -> None:
    with pytest.raises(ConfigError) as raised:
        described("orders-value", [(3, schema)])
    assert "subject orders-value, version 3" in raised.value.where


def test_protobuf_comments_are_descriptions() -> None:
    text = """
    syntax = "proto3";
    package fleet;
    // A ride,
    // from its start.
    message Ride {
      // Id of the
      // ride.
      string id = 1;
      int64 fare = 2;  // In pence.
      repeated Stop stops = 3;
      // How it was paid.
      oneof paid {
        string card = 4;

        /* Voucher's code. */
        string voucher = 5;
      }
      int32 bare = 6;
      // A place on the way.
      message Stop {
        /* Its
         * name. */
        string name = 1;
      }
      Stop last = 7;
    }
    """
    type = described("rides-value", [(1, RegisteredSchema("PROTOBUF", text))]).type
    assert isinstance(type, Record)
    assert type.doc == "A ride, from its start."
    docs = {field.name: field.doc for field in type.fields}
    assert docs == {
        "paid_0": "How it was paid.",
        "id": "Id of the ride.",
        "fare": "In pence.",
        "stops": "",
        "bare": "",
        "last": "A place on the way.",
    }
    paid = next(field.type for field in type.fields if field.name == "paid_0")
    assert isinstance(paid, Record)
    assert [field.doc for field in paid.fields] == ["", "Voucher's code."]
    last = next(field.type for field in type.fields if field.name == "last")
    assert isinstance(last, Record)
    assert [field.doc for field in last.fields] == ["Its name."]
