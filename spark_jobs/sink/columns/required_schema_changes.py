"""Required schema changes: what a table lacks to take the records of one partition, and the types of new columns.

Where no schema tells a type, the first characters of JSON texts do, as the official connector infers it. Not for what a
schema says (`decode.base.column_types`), nor for whether a value fits a column that is there (`cells`).
"""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from firn.snowflake.columns import MAX_PRECISION, Column, ColumnType, Kind
from spark_jobs.sink.columns.fields import column_name
from spark_jobs.sink.decode.base.column_types import ARRAY, BOOLEAN, FLOAT, INTEGER, TEXT, VARIANT
from spark_jobs.sink.values.reports import SchemaChangeRequest

_BY_FIRST = {'"': TEXT, "t": BOOLEAN, "f": BOOLEAN, "[": ARRAY, "{": VARIANT}
_INTEGER = rf"^-?[0-9]{{1,{MAX_PRECISION}}}$"


def type_of_values(raw: pa.StringArray) -> ColumnType | None:
    """The type that takes the values of n JSON texts; absent ones and `null` do not count, None where no other is.

    An integer of more digits than a NUMBER has is a FLOAT, as every number with a point or an exponent.
    """
    found: dict[ColumnType, None] = {}
    for first in pc.drop_null(pc.utf8_slice_codeunits(raw, 0, 1).unique()).to_pylist():
        if first in _BY_FIRST:
            found[_BY_FIRST[first]] = None
        elif first != "n":
            found[_number_type(raw)] = None
    return reduce(merge_types, found) if found else None


def _number_type(raw: pa.StringArray) -> ColumnType:
    numbers = raw.filter(pc.match_substring_regex(raw, "^[-0-9]"))
    return INTEGER if pc.all(pc.match_substring_regex(numbers, _INTEGER)).as_py() else FLOAT


def merge_types(a: ColumnType, b: ColumnType) -> ColumnType:
    """A type that takes the values of both: in the end VARIANT, which takes every value."""
    if a == b:
        return a
    if {a.kind, b.kind} == {Kind.NUMBER, Kind.FLOAT}:
        return FLOAT
    if a.kind is not b.kind or a.kind is Kind.OTHER:
        return VARIANT
    if a.kind is Kind.NUMBER:
        scale = max(a.scale, b.scale)
        return ColumnType(a.kind, min(MAX_PRECISION, max(a.size - a.scale, b.size - b.scale) + scale), scale)
    return ColumnType(a.kind, max(a.size, b.size))


class RequiredSchemaChanges:
    """Changes that the records of one partition require; `schema_id` is that of the first record that requires one."""

    def __init__(self) -> None:
        self.any = False
        self.schema_id: int | None = None
        self.add: dict[str, ColumnType] = {}
        self.nullable: dict[str, None] = {}
        self.widen: dict[str, ColumnType] = {}

    def note(self, schema_id: int | None) -> None:
        """Records of this schema require a change."""
        if not self.any:
            self.any, self.schema_id = True, schema_id

    def add_column(self, field: str, type_: ColumnType) -> None:
        """A column for `field` that takes values of this type, and of those before."""
        name = column_name(field)
        before = self.add.get(name)
        self.add[name] = type_ if before is None else merge_types(before, type_)

    def widen_column(self, column: Column, type_: ColumnType) -> None:
        """A type for `column` that takes values of this type, and of those before."""
        before = self.widen.get(column.name)
        if before is None or before.size < type_.size:
            self.widen[column.name] = type_


def schema_change_request(
    topic: str, partition: int, table: str, changes: RequiredSchemaChanges
) -> SchemaChangeRequest:
    """The changes that a partition's records require, as its report."""
    add = {name: str(type_) for name, type_ in changes.add.items()}
    widen = {name: str(type_) for name, type_ in changes.widen.items()}
    return SchemaChangeRequest(topic, partition, table, changes.schema_id, add, list(changes.nullable), widen)
