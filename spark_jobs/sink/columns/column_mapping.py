"""Column mapping: the fields of records to the columns of their table, and the changes that the table requires.

Each value is checked here and in `column_assignment`, record by record, so that no COPY can fail for one. Not for
single values (`cells`), nor for changing a table (`tables.evolution`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from firn.snowflake.identifiers import MAX_NAME
from spark_jobs.sink.columns.column_assignment import ColumnAssignment, SchemaTypes, present
from spark_jobs.sink.columns.fields import ColumnMatcher, Fields, column_name, split
from spark_jobs.sink.columns.required_schema_changes import RequiredSchemaChanges, type_of_values
from spark_jobs.sink.decode.base.contract import Part, Writer
from spark_jobs.sink.decode.base.field_columns import RecordFields
from spark_jobs.sink.decode.base.texts import json_of
from spark_jobs.sink.values.bad_records import NOT_AN_OBJECT, TOO_MANY_COLUMNS, BadRecord
from spark_jobs.sink.values.table_loaders import ColumnsLoader


@dataclass(frozen=True)
class MappedColumns:
    """Canonical texts by column (None where no record has a value), and bad records in order of row."""

    texts: list[pa.StringArray | None]
    bad: tuple[BadRecord, ...]


class ColumnMapper:
    """Maps the records of one partition. Where `required_changes` has any, what was mapped is not to be loaded.

    types_of: the types that a schema gives to the fields of the records that it wrote. strict: whether nothing behind
    the first bad record is to be loaded (errors.tolerance=none), so that it changes no table either.
    """

    def __init__(self, load: ColumnsLoader, types_of: SchemaTypes, *, strict: bool) -> None:
        self._load, self._types_of, self._strict = load, types_of, strict
        self._matcher = ColumnMatcher(load.columns)
        self._known: set[Writer] = set()
        self._new: set[str] = set()
        self._room = load.max_columns - (len(load.columns) or 1)  # a table that is made has RECORD_METADATA
        self.required_changes = RequiredSchemaChanges()

    def map(
        self,
        content: pa.StringArray,
        schema_ids: pa.Int32Array,
        parts: Sequence[Part] | None = None,
        fields: RecordFields | None = None,
    ) -> MappedColumns:
        """Map n JSON texts, none of them null. schema_ids, parts: what wrote them, as in `Decoded`; so are `fields`,
        which are taken for those of the texts where they are there."""
        found = Fields(fields.columns, ()) if fields else split(content)
        batch = ColumnAssignment(self._load, schema_ids, parts, self._types_of, strict=self._strict)
        batch.refuse(found.not_objects, NOT_AN_OBJECT, "a record without fields has no columns: it must be an object")
        unknown: dict[str, pa.StringArray] = {}
        for field, values in found.texts.items():
            at = self._matcher.column_of(field)
            if at is None:
                unknown[field] = json_of(values)
            else:
                batch.put(at, field, values)
        if self._load.grow:
            batch.refuse_twins(unknown)
            without_name = {field: raw for field, raw in unknown.items() if not _nameable(field)}
            batch.refuse_unknown(without_name, "none can have that name")
            self._refuse_beyond(batch, unknown, len(content))
        elif not self._load.leave_out:
            batch.refuse_unknown(unknown, "none is added (auto.evolve, firn.unknown.fields)")
        absent = batch.absent()
        if self._load.grow:
            self._require(batch, unknown, absent)
        else:
            batch.refuse_absent(absent)
        return MappedColumns(batch.texts, batch.bad)

    def _refuse_beyond(self, batch: ColumnAssignment, unknown: Mapping[str, pa.StringArray], count: int) -> None:
        """Of `count` records those are bad that have more new fields than the table may get columns.

        Fields get their columns in order of appearance; a record that alone has too many takes no column from others.
        """
        found = {field: batch.good_of(present(raw)) for field, raw in unknown.items() if _nameable(field)}
        new = {field: rows for field, rows in found.items() if len(rows) and column_name(field) not in self._new}
        if len(new) > self._room - len(self._new):
            fields = np.zeros(count, np.int64)
            for rows in new.values():
                fields[rows] += 1
            self._refuse_full(batch, np.flatnonzero(fields > self._room - len(self._new)))
        for field, rows in new.items():
            left = batch.good_of(rows)
            if len(left) and not self._takes(column_name(field)):
                self._refuse_full(batch, left)

    def _refuse_full(self, batch: ColumnAssignment, rows: npt.NDArray[np.int64]) -> None:
        limit = self._load.max_columns
        detail = f"its new fields would give the table more than {limit} columns (firn.table.max.columns)"
        batch.refuse(rows, TOO_MANY_COLUMNS, detail)

    def _takes(self, name: str) -> bool:
        """Whether the table may get a column of this name; it is then counted."""
        if name not in self._new and len(self._new) < self._room:
            self._new.add(name)
        return name in self._new

    def _require(
        self,
        batch: ColumnAssignment,
        unknown: Mapping[str, pa.StringArray],
        absent: Mapping[int, npt.NDArray[np.int64]],
    ) -> None:
        """Note the changes that records require which are not bad for another reason."""
        if not self._load.exists and len(batch.good()):
            self.required_changes.note(batch.schema_of(batch.good()))
        self._require_for_schemas(batch)
        for field, raw in unknown.items():
            if _nameable(field):
                self._require_for_field(batch, field, raw)
        for at, rows in absent.items():
            if len(rows := batch.good_of(rows)):
                self.required_changes.note(batch.schema_of(rows))
                self.required_changes.nullable[self._load.columns[at].name] = None
        for row, column, wider in batch.narrow:
            if len(batch.good_of(np.array([row]))):
                self.required_changes.note(batch.schema_of(np.array([row])))
                self.required_changes.widen_column(column, wider)

    def _require_for_schemas(self, batch: ColumnAssignment) -> None:
        """A schema's fields get their columns also where no record has a value for them yet."""
        for writer in batch.writers.of(batch.good()):
            if writer is None or writer in self._known:
                continue
            self._known.add(writer)
            for field, wanted in self._types_of(writer).items():
                if self._matcher.column_of(field) is None and _nameable(field) and self._takes(column_name(field)):
                    self.required_changes.note(writer.schema_id)
                    self.required_changes.add_column(field, wanted)

    def _require_for_field(self, batch: ColumnAssignment, field: str, raw: pa.StringArray) -> None:
        rows = batch.good_of(present(raw))
        if not len(rows) or (
            column_name(field) in self.required_changes.add and _all_known(self._types_of, field, batch, rows)
        ):
            return
        wanted = type_of_values(raw.take(pa.array(rows)))
        if wanted is not None:
            self.required_changes.note(batch.schema_of(rows))
            self.required_changes.add_column(field, wanted)


def _all_known(types_of: SchemaTypes, field: str, batch: ColumnAssignment, rows: npt.NDArray[np.int64]) -> bool:
    """Whether the schemas of all these rows have said the field's type already."""
    return all(writer is not None and field in types_of(writer) for writer in batch.writers.of(rows))


def _nameable(field: str) -> bool:
    """Whether a column may have the field's name: no server can be trusted with the character that ends C's texts."""
    return 0 < len(column_name(field)) <= MAX_NAME and "\0" not in field
