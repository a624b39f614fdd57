"""Rows out of records: what happens to tombstones, bad keys and values, and records that hold several rows."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

from firn.connector.config import ErrorsConfig, SinkConfig
from firn.kafka.message_columns import RECORDS
from firn.kafka.partitions import TopicPartition
from spark_jobs.sink.columns.required_schema_changes import RequiredSchemaChanges
from spark_jobs.sink.columns.staged_columns import BuiltColumns, column_builder_for
from spark_jobs.sink.decode.base.contract import MAX_TEXT, Decoded
from spark_jobs.sink.task.convert import Converted, convert
from spark_jobs.sink.values.bad_records import BadRecord
from spark_jobs.sink.values.table_loaders import VariantLoader

VARIANTS = column_builder_for(VariantLoader(), lambda _schema_id: {}, strict=True)


@dataclass
class Fixed:
    """A decoder that gives what it was told."""

    decoded: Decoded

    def decode(self, values: pa.BinaryArray) -> Decoded:
        return self.decoded


def decoded(
    content: list[str | None], *bad: BadRecord, ids: int | None = None, origin: list[int] | None = None
) -> Fixed:
    of = None if origin is None else np.array(origin, np.int64)
    return Fixed(Decoded(pa.array(content, pa.string()), pa.array([ids] * len(content), pa.int32()), bad, of))


def batch(count: int, *, first: int = 10) -> pa.RecordBatch:
    columns = {
        "offset": range(first, first + count),
        "timestamp": [1_760_000_000_123] * count,
        "timestamp_type": [0] * count,
        "key": [b"k"] * count,
        "value": [b"v"] * count,
        "headers": [None] * count,
        "fault": [None] * count,
    }
    return pa.RecordBatch.from_pydict(columns, schema=RECORDS)


def converted(value: Fixed, key: Fixed, count: int, **config: str) -> Converted:
    return convert(replace(SinkConfig("s"), **config), TopicPartition("t", 0), batch(count), (value, key), VARIANTS)  # type: ignore[arg-type]


def metadata(rows: Converted) -> list[dict[str, object]]:
    return [json.loads(text) for text in rows.columns[0].to_pylist()]


KEYS = decoded(['"a"', None, '"c"'], ids=7)


def test_a_tombstone_is_an_empty_object_with_schema_id_0() -> None:
    rows = converted(decoded(["1", None, "3"], ids=5), KEYS, 3)
    assert rows.columns[1].to_pylist() == ["1", "{}", "3"]
    assert [row["schema_id"] for row in metadata(rows)] == [5, 0, 5]
    assert [row.get("key") for row in metadata(rows)] == ["a", None, "c"]
    assert rows.bad == ()


def test_ignored_tombstones_leave_their_neighbours_as_they_were() -> None:
    rows = converted(decoded(["1", None, "3"], ids=5), KEYS, 3, null_values="ignore")
    assert rows.columns[1].to_pylist() == ["1", "3"]
    assert [(row["offset"], row["key"]) for row in metadata(rows)] == [(10, "a"), (12, "c")]
    assert rows.offsets.tolist() == [10, 12]


def test_nothing_but_ignored_tombstones_gives_no_rows() -> None:
    rows = converted(decoded([None, None]), decoded([None, None]), 2, null_values="ignore")
    assert [len(column) for column in rows.columns] == [0, 0]
    assert len(rows.offsets) == 0


def test_rows_end_at_the_first_bad_record_whether_key_or_value() -> None:
    bad_value, bad_key = BadRecord(2, "malformed_avro", "v"), BadRecord(1, "invalid_json", "k")
    rows = converted(decoded(["1", "2", None], bad_value, ids=5), decoded(['"a"', None, '"c"'], bad_key), 3)
    assert rows.columns[1].to_pylist() == ["1"]
    assert rows.bad == (BadRecord(1, "invalid_json", "in the key: k", in_key=True),)
    rows = converted(decoded(["1", "2", None], bad_value, ids=5), KEYS, 3)
    assert rows.columns[1].to_pylist() == ["1", "2"]
    assert rows.bad == (bad_value,)


def test_a_record_of_several_rows_repeats_its_metadata() -> None:
    value = decoded(["1", "2", None, "4"], BadRecord(2, "malformed_avro", "v"), origin=[0, 0, 2, 2])
    rows = converted(value, KEYS, 3)
    assert rows.columns[1].to_pylist() == ["1", "2"]
    assert rows.offsets.tolist() == [10, 10]
    assert [row["key"] for row in metadata(rows)] == ["a", "a"]
    assert rows.bad != ()


def test_tombstones_among_several_rows_can_be_ignored() -> None:
    value = decoded(["1", "2", None, "4"], origin=[0, 0, 1, 2])
    rows = converted(value, KEYS, 3, null_values="ignore")
    assert rows.offsets.tolist() == [10, 10, 12]
    assert [row.get("key") for row in metadata(rows)] == ["a", "a", "c"]


def test_a_text_of_more_bytes_than_a_variant_takes_is_bad_however_few_its_characters() -> None:
    large = '"' + "\N{GREEK SMALL LETTER ALPHA}" * (MAX_TEXT // 2) + '"'
    rows = converted(decoded(["1", large, "3"]), KEYS, 3)
    assert rows.columns[1].to_pylist() == ["1"]
    assert [(bad.row, bad.reason) for bad in rows.bad] == [(1, "too_large")]


class Noting:
    """A builder of typed columns that notes which parts of their schemas it was told of."""

    def __init__(self) -> None:
        self.required_changes: RequiredSchemaChanges | None = RequiredSchemaChanges()
        self.parts: list[object] = []

    def build(self, content: pa.StringArray, *more: object) -> BuiltColumns:
        self.parts.append(more[2])
        return BuiltColumns((content,))


@pytest.mark.parametrize(
    ("tolerance", "expected"), [("all", [(0,), (1,), (1, 0)]), ("none", [(0,), (1,)])], ids=["all", "none"]
)
def test_typed_columns_are_told_which_part_of_its_schema_each_value_is_of(
    tolerance: Literal["all", "none"], expected: list[tuple[int, ...]]
) -> None:
    noting = Noting()
    bad = [BadRecord(row, "wrong_magic", "d") for row in ((3, 5) if tolerance == "none" else (5,))]
    value = decoded(["{}", None, "{}", "{}", None], *bad, ids=5, origin=[0, 1, 2, 3, 5])
    told = replace(value.decoded, parts=[(0,), (), (1,), (1, 0), ()])
    config = SinkConfig("s", errors=ErrorsConfig(tolerance), null_values="ignore")
    for each in (Fixed(told), value):
        convert(config, TopicPartition("t", 0), batch(6), (each, decoded([None] * 6)), noting)
    assert noting.parts == [expected, None]


def test_a_record_that_the_reader_could_not_read_whole_is_bad() -> None:
    rows = batch(3).set_column(6, "fault", pa.array([None, "the name of a header is not UTF-8", None]))
    config = SinkConfig("s", errors=ErrorsConfig("all"))
    found = convert(config, TopicPartition("t", 0), rows, (decoded(["1", "2", "3"]), KEYS), VARIANTS)
    assert found.columns[1].to_pylist() == ["1", "3"]
    assert found.bad == (BadRecord(1, "unreadable_header", "the name of a header is not UTF-8"),)
