"""Records carry the registry's framing, their key as text, and stop in front of a bad row."""

import io
import json

import fastavro
import pytest

from firn.errors import ConfigError
from firn.produce.records import BadRowError, check_columns, file_records, key_text
from firn.produce.rows import open_rows
from firn.produce.scalars import CoercionError
from firn.produce.value_formats import AvroValues

SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Reading",
        "fields": [
            {"name": "sensor", "type": "string"},
            {"name": "value", "type": ["null", "double"]},
            {"name": "unit", "type": "string", "default": "K"},
        ],
    }
)
VALUES = AvroValues(json.dumps(SCHEMA), "readings")


def csv(tmp_path, text):
    path = tmp_path / "readings.csv"
    path.write_text(text)
    return open_rows(path)


def test_a_value_is_framed_with_magic_byte_and_schema_id():
    framed = VALUES.encoder(258)({"sensor": "a", "value": None, "unit": "K"})
    assert framed[:5] == b"\x00\x00\x00\x01\x02"
    assert fastavro.schemaless_reader(io.BytesIO(framed[5:]), SCHEMA) == {"sensor": "a", "value": None, "unit": "K"}


def test_rows_become_keyed_records_and_defaults_are_written(tmp_path):
    records = list(file_records(csv(tmp_path, "sensor,value\na,1.5\nb,\n"), VALUES, "sensor", VALUES.encoder(1)))
    assert [record.key for record in records] == ["a", "b"]
    values = [fastavro.schemaless_reader(io.BytesIO(record.value[5:]), SCHEMA) for record in records]
    assert values == [{"sensor": "a", "value": 1.5, "unit": "K"}, {"sensor": "b", "value": None, "unit": "K"}]


def test_the_first_bad_row_stops_the_records_and_is_named(tmp_path):
    records = file_records(csv(tmp_path, "sensor,value\na,1\nb,warm\nc,3\n"), VALUES, None, VALUES.encoder(1))
    assert next(records).key is None
    with pytest.raises(BadRowError) as bad:
        next(records)
    assert bad.value.where == "readings.csv, line 3"
    assert bad.value.what == "Field value: expected double (a number), found 'warm'."


def test_header_schema_and_key_are_compared_before_anything_is_read(tmp_path):
    with pytest.raises(ConfigError) as refused:
        check_columns(csv(tmp_path, "sensr,value\na,1\n"), VALUES, "Value")
    for fault in ("sensr is not a field", "did you mean sensor", "field sensor has no column", "key Value"):
        assert fault in refused.value.what


@pytest.mark.parametrize(
    ("value", "text"), [(5, "5"), (True, "true"), (None, None), ("x", "x"), (("long", 5), "5"), (1.5, "1.5")]
)
def test_a_key_is_text(value, text):
    assert key_text({"k": value}, "k") == text


def test_a_nested_key_is_refused():
    with pytest.raises(CoercionError):
        key_text({"k": json.loads("[1]")}, "k")
