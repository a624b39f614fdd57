"""The rows that the official connector 2.5.0 made of Avro, keys, headers and tombstones come out the same here.

Where they do not, DIFFERENCES says so and why; one that is listed and does not exist fails as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.spark_jobs.sink.official_records import JSON, SNOWFLAKE_JSON, Record, end_to_end_records, official_records
from tests.support.vectors import exact, vectors

RECORDS = [*official_records(), *end_to_end_records()]
LATIN_1 = (
    "SnowflakeAvroConverter reads bytes as Latin-1 text and fixed as a list of numbers; Firn gives base64 for both."
)
LOGICAL = "SnowflakeAvroConverter leaves dates and times of day as numbers; Firn gives them as AvroConverter does."

# (vector, value converter, what differs) -> why. Vector and converter may hold wildcards.
DIFFERENCES = {
    ("*", "*", "SNOWPIPE RECORD_METADATA.SnowflakeConnectorPushTime added"): (
        "The official connector has a push time with SNOWPIPE_STREAMING only; Firn has one unless it is switched off."
    ),
    ("*", "AvroConverter", "* RECORD_METADATA.schema_id added"): (
        "Only SnowflakeAvroConverter hands the schema id on there; Firn gives it whenever there is one."
    ),
    ("complex_avro", "SnowflakeAvroConverter", "SNOWPIPE RECORD_CONTENT.b"): LATIN_1,
    ("complex_avro", "SnowflakeAvroConverter", "SNOWPIPE RECORD_CONTENT.fx"): LATIN_1,
    ("avro_single_bytes", "SnowflakeAvroConverter", "SNOWPIPE RECORD_CONTENT.b"): LATIN_1,
    ("complex_avro", "SnowflakeAvroConverter", "SNOWPIPE RECORD_CONTENT.d"): LOGICAL,
    ("complex_avro", "SnowflakeAvroConverter", "SNOWPIPE RECORD_CONTENT.t"): LOGICAL,
    ("avro_multi_union", "SnowflakeAvroConverter", "SNOWPIPE RECORD_CONTENT.u"): (
        "SnowflakeAvroConverter gives the value of a union's branch alone; Firn an object with a field per branch."
    ),
}


def differences(record: Record, row: dict[str, Any]) -> Iterator[str]:
    """The columns, or fields at the top of them, in which `row` is not the official one."""
    for column, official in record.row.items():
        ours = row[column]
        if not (isinstance(official, dict) and isinstance(ours, dict)):
            if not same(ours, official):
                yield f"{record.method} {column}"
            continue
        for name in official.keys() | ours.keys():
            if name not in official:
                yield f"{record.method} {column}.{name} added"
            elif name not in ours or not same(ours[name], official[name]):
                yield f"{record.method} {column}.{name}"


def same(ours: Any, official: Any) -> bool:
    """Equal as JSON, where true is not 1."""
    if isinstance(ours, dict) and isinstance(official, dict):
        return ours.keys() == official.keys() and all(same(ours[name], official[name]) for name in ours)
    if isinstance(ours, list) and isinstance(official, list):
        return len(ours) == len(official) and all(map(same, ours, official))
    return bool(ours == official) and isinstance(ours, bool) == isinstance(official, bool)


def listed(record: Record, what: str) -> list[tuple[str, str, str]]:
    """The entries of DIFFERENCES that foresee a difference."""
    found = (record.name, record.converter.rpartition(".")[2], what)
    return [each for each in DIFFERENCES if all(map(fnmatchcase, found, each))]


def row_of(record: Record, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The one row that Firn makes of `record`."""
    rows = record.converted(monkeypatch)
    assert rows.bad == ()
    assert rows.offsets.tolist() == [record.offset]
    (metadata,), (content,) = (column.to_pylist() for column in rows.columns)
    return {"RECORD_CONTENT": exact(content), "RECORD_METADATA": metadata and exact(metadata)}


@pytest.mark.parametrize("record", RECORDS, ids=[record.id for record in RECORDS])
def test_a_row_is_the_official_one(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    row = row_of(record, monkeypatch)
    unforeseen = [what for what in differences(record, row) if not listed(record, what)]
    assert not unforeseen, f"{unforeseen}: {row} is not {record.row}"


def test_every_listed_difference_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    used = {
        entry
        for record in RECORDS
        for what in differences(record, row_of(record, monkeypatch))
        for entry in listed(record, what)
    }
    assert DIFFERENCES.keys() - used == set()


def test_what_firn_adds_is_true(monkeypatch: pytest.MonkeyPatch) -> None:
    for record in RECORDS:
        metadata = row_of(record, monkeypatch)["RECORD_METADATA"]
        if metadata is None:
            assert record.config["snowflake.metadata.all"] == "false"
            continue
        switched_off = record.config.get("snowflake.streaming.metadata.connectorPushTime") == "false"
        assert metadata.get("SnowflakeConnectorPushTime") == (None if switched_off else record.push_time)
        if record.value is None or record.schema is not None:
            assert metadata["schema_id"] == (0 if record.value is None else 1)


def test_no_vector_is_left_out() -> None:
    named = ("order_avro", "complex_avro", "avro_", "tombstone_", "key_", "headers_", "timestamp_log_append", "flag_")
    chosen = [vector for vector in vectors("records")["vectors"] if vector["name"].startswith(named)]
    records = [record for record in RECORDS if not record.name.startswith("end_to_end")]
    assert {vector["name"] for vector in chosen} == {record.name for record in records}
    of_avro = [vector for vector in chosen if "avro_wire_base64" in vector["input"]]
    outputs = sum("snowpipe" in vector["output"] for vector in of_avro)
    outputs += sum("snowpipe_streaming" in vector["output"] for vector in of_avro)
    assert outputs == sum(record.schema is not None for record in records)
    assert len(RECORDS) - len(records) == 6


NULL_VALUES = next(vector for vector in vectors("records")["vectors"] if vector["name"] == "shouldSkipNullValue")


@pytest.mark.parametrize("behavior", ["DEFAULT", "IGNORE"])
@pytest.mark.parametrize(("case", "converter", "value"), [
    ("native_null", JSON, None),
    ("snowflake_converter_null", SNOWFLAKE_JSON, None),
    ("snowflake_json_empty_object", SNOWFLAKE_JSON, b"{}"),
])  # fmt: skip
def test_which_null_values_are_skipped(
    behavior: str, case: str, converter: str, value: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tombstone = next(
        record for record in RECORDS if record.name.startswith("tombstone") and record.converter == converter
    )
    rows = replace(tombstone, value=value).converted(monkeypatch, **{"behavior.on.null.values": behavior})
    assert rows.columns[1].to_pylist() == ([] if NULL_VALUES[behavior][case] else ["{}"])
