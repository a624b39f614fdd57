"""Decoded records as the columns of a staged file: one way for each kind of table loader.

A user's pipe gets pipe records: whole records as one JSON object a row, which `$1` is to the pipe's SELECT. Source: the
official connector 4, user-defined pipe mode: the record's first-level fields and RECORD_METADATA beside them. Without
schematization RECORD_CONTENT stands in their place, as in the table that the sink makes by itself.
Not for decoding or metadata (`task.convert`), nor for files (`methods.snowpipe.files`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firn.snowflake.columns import CONTENT, METADATA, Columns
from spark_jobs.sink.columns.column_assignment import SchemaTypes
from spark_jobs.sink.columns.column_mapping import ColumnMapper
from spark_jobs.sink.columns.required_schema_changes import RequiredSchemaChanges
from spark_jobs.sink.decode.base.capacity import counted_by_arrow, text_bounds, text_bytes
from spark_jobs.sink.decode.base.contract import Part
from spark_jobs.sink.decode.base.field_columns import RecordFields
from spark_jobs.sink.values.bad_records import NOT_AN_OBJECT, TOO_LARGE, BadRecord
from spark_jobs.sink.values.table_loaders import (
    ColumnsLoader,
    PipeLoader,
    RecordLoader,
    TableLoader,
    VariantLoader,
)

_BLANK = " \t\r\n"
_NAMES = msgspec.json.Decoder(dict[str, msgspec.Raw])


def pipe_records(
    content: pa.StringArray, metadata: pa.StringArray, *, fields: bool
) -> tuple[pa.StringArray, tuple[int, ...]]:
    """The objects of n records as JSON text, and the rows that cannot become one, whose text is null.

    content: JSON texts, none null; metadata: JSON texts, null where a record has none and gets no RECORD_METADATA.
    fields: whether the object has the record's fields. Then a record that is no object is refused, and one with a field
    RECORD_METADATA of its own: PARSE_JSON takes no key twice. Raises OutputTooLargeError.
    """
    with counted_by_arrow():
        if not fields:
            return _joined(f'{{"{CONTENT}":', content, ",", metadata), ()
        trimmed = pc.ascii_trim(content, _BLANK)
        refused = _refused(trimmed)
        opened = pc.ascii_rtrim(pc.binary_slice(trimmed.cast(pa.binary()), 0, -1).cast(pa.string()), _BLANK)
        comma = pc.if_else(pc.equal(opened, "{"), "", ",")
        taken = pc.if_else(pa.array(refused), pa.scalar(None, pa.string()), opened)
        return _joined("", taken, comma, metadata), tuple(int(row) for row in np.flatnonzero(refused))


def _joined(
    before: str, content: pa.StringArray, comma: pa.StringArray | str, metadata: pa.StringArray
) -> pa.StringArray:
    """Objects that begin with `before` and `content`; RECORD_METADATA is their last field, if there is one."""
    with_it = pc.binary_join_element_wise(before, content, comma, f'"{METADATA}":', metadata, "}", "")
    if not metadata.null_count:
        return with_it
    return pc.if_else(metadata.is_valid(), with_it, pc.binary_join_element_wise(before, content, "}", ""))


def _refused(content: pa.StringArray) -> npt.NDArray[np.bool_]:
    refused = np.array(pc.invert(pc.starts_with(content, "{")).to_numpy(zero_copy_only=False), np.bool_)
    # A name may be written with escapes too; only few texts have either.
    doubtful = pc.or_(pc.match_substring(content, METADATA), pc.match_substring(content, "\\u"))
    for row in np.flatnonzero(doubtful.to_numpy(zero_copy_only=False)):
        refused[row] = refused[row] or METADATA in _NAMES.decode(content[int(row)].as_py())
    return refused


RECORD = "RECORD"
"""The column of a file that a user's own SELECT reads."""
OFFSET = "OFFSET"
"""The column of such a file beside it: the record's offset, by which a row that the SELECT refuses is found."""


@dataclass(frozen=True)
class BuiltColumns:
    """Staged columns of n rows each, and bad records by row; the staged texts of those mean nothing."""

    columns: tuple[pa.StringArray, ...]
    bad: tuple[BadRecord, ...] = ()


class ColumnBuilder(Protocol):
    """Builds the columns of one partition's records. required_changes: None for a loader that never requires any."""

    required_changes: RequiredSchemaChanges | None

    def build(
        self,
        content: pa.StringArray,
        metadata: pa.StringArray,
        schema_ids: pa.Int32Array,
        parts: Sequence[Part] | None = None,
        fields: RecordFields | None = None,
    ) -> BuiltColumns:
        """The columns of n records: JSON texts of content (none null) and metadata; their writers as in `Decoded`.

        fields: those of `content`, where the decoder has them.
        """
        ...


def file_columns(load: TableLoader) -> tuple[str, ...]:
    """The names of a staged file's columns. Those of typed columns are numbered: a path in SQL takes any such name."""
    match load:
        case VariantLoader():
            return METADATA, CONTENT
        case ColumnsLoader():
            return tuple(f"C{at}" for at in range(len(load.columns)))
        case PipeLoader() | RecordLoader():
            return (RECORD,)


def column_builder_for(
    load: TableLoader, types_of: SchemaTypes, *, strict: bool, row_bytes: int | None = None
) -> ColumnBuilder:
    """The builder of one partition's columns. types_of, strict: see `column_mapping.ColumnMapper`.

    row_bytes: how many bytes the texts of a row may have; None: any number.
    """
    builder = _builder_for(load, types_of, strict=strict)
    return builder if row_bytes is None else _Bounded(builder, row_bytes)


def _builder_for(load: TableLoader, types_of: SchemaTypes, *, strict: bool) -> ColumnBuilder:
    match load:
        case VariantLoader():
            return _Variants()
        case ColumnsLoader():
            return _Columns(load, types_of, strict=strict)
        case PipeLoader() | RecordLoader():
            return _PipeRecords(load)


class _Variants:
    required_changes: RequiredSchemaChanges | None = None

    def build(
        self,
        content: pa.StringArray,
        metadata: pa.StringArray,
        _schema_ids: pa.Int32Array,
        _parts: Sequence[Part] | None = None,
        _fields: RecordFields | None = None,
    ) -> BuiltColumns:
        return BuiltColumns((metadata, content))


class _Columns:
    def __init__(self, load: ColumnsLoader, types_of: SchemaTypes, *, strict: bool) -> None:
        self._columns, self._mapper = load.columns, ColumnMapper(load, types_of, strict=strict)
        self.required_changes: RequiredSchemaChanges | None = self._mapper.required_changes

    def build(
        self,
        content: pa.StringArray,
        metadata: pa.StringArray,
        schema_ids: pa.Int32Array,
        parts: Sequence[Part] | None = None,
        fields: RecordFields | None = None,
    ) -> BuiltColumns:
        mapped = self._mapper.map(content, schema_ids, parts, fields)
        return BuiltColumns(tuple(_beside(self._columns, mapped.texts, metadata)), mapped.bad)


def _beside(
    columns: Columns, texts: Sequence[pa.StringArray | None], metadata: pa.StringArray
) -> Sequence[pa.StringArray]:
    absent = pa.nulls(len(metadata), pa.string())
    return [
        metadata if column.name == METADATA else absent if text is None else text
        for column, text in zip(columns, texts, strict=True)
    ]


class _PipeRecords:
    required_changes: RequiredSchemaChanges | None = None

    def __init__(self, load: PipeLoader | RecordLoader) -> None:
        self._fields = load.fields

    def build(
        self,
        content: pa.StringArray,
        metadata: pa.StringArray,
        _schema_ids: pa.Int32Array,
        _parts: Sequence[Part] | None = None,
        _fields: RecordFields | None = None,
    ) -> BuiltColumns:
        texts, refused = pipe_records(content, metadata, fields=self._fields)
        detail = "a user's pipe reads the fields of an object, none of them RECORD_METADATA"
        return BuiltColumns((texts,), tuple(BadRecord(row, NOT_AN_OBJECT, detail) for row in refused))


class _Bounded:
    """Another builder, and every row that is too large is bad."""

    def __init__(self, builder: ColumnBuilder, row_bytes: int) -> None:
        self._builder, self._row_bytes = builder, row_bytes
        self.required_changes = builder.required_changes

    def build(
        self,
        content: pa.StringArray,
        metadata: pa.StringArray,
        schema_ids: pa.Int32Array,
        parts: Sequence[Part] | None = None,
        fields: RecordFields | None = None,
    ) -> BuiltColumns:
        built = self._builder.build(content, metadata, schema_ids, parts, fields)
        if sum(map(text_bytes, built.columns)) <= self._row_bytes:
            return built
        sizes = np.zeros(len(metadata), np.int64)
        for column in built.columns:
            sizes += np.diff(text_bounds(column))
        known = {bad.row: bad for bad in built.bad}
        for row in np.flatnonzero(sizes > self._row_bytes).tolist():
            detail = f"its row has {sizes[row]} bytes, and the method takes {self._row_bytes}"
            known.setdefault(row, BadRecord(row, TOO_LARGE, detail))
        return BuiltColumns(built.columns, tuple(known[row] for row in sorted(known)))
