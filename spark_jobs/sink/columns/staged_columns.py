"""Decoded records as the columns of a staged file: one way for each kind of load.

Not for decoding or metadata (`convert`), nor for files (`files`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from firn.snowflake.columns import CONTENT, METADATA, Columns
from spark_jobs.sink.columns.column_assignment import SchemaTypes
from spark_jobs.sink.columns.column_mapping import Fitter
from spark_jobs.sink.columns.pipe_record import record_texts
from spark_jobs.sink.columns.schema_request import Wishes
from spark_jobs.sink.decode.base.contract import Part
from spark_jobs.sink.values.bad_records import NOT_AN_OBJECT, BadRecord
from spark_jobs.sink.values.table_loaders import ColumnsLoader, PipeLoader, TableLoader, VariantLoader

RECORD = "RECORD"
"""The one column of a file that a user's own SELECT reads."""


@dataclass(frozen=True)
class Shaped:
    """Staged columns of n rows each, and bad records by row; the staged texts of those mean nothing."""

    columns: tuple[pa.StringArray, ...]
    bad: tuple[BadRecord, ...] = ()


class Shaper(Protocol):
    """Shapes the records of one partition. `wishes`: what its table would need; None for a load that wants nothing."""

    wishes: Wishes | None

    def shape(
        self,
        content: pa.StringArray,
        metadata: pa.StringArray,
        schema_ids: pa.Int32Array,
        parts: Sequence[Part] | None = None,
    ) -> Shaped:
        """The columns of n records: JSON texts of content (none null) and metadata; who wrote them, as `Writers`."""
        ...


def file_columns(load: TableLoader) -> tuple[str, ...]:
    """The names of a staged file's columns. Those of typed columns are numbered: a path in SQL takes any such name."""
    match load:
        case VariantLoader():
            return METADATA, CONTENT
        case ColumnsLoader():
            return tuple(f"C{at}" for at in range(len(load.columns)))
        case PipeLoader():
            return (RECORD,)


def shaper_for(load: TableLoader, types_of: SchemaTypes, *, strict: bool) -> Shaper:
    """The shaper of one partition's records. types_of, strict: see `fit.Fitter`."""
    match load:
        case VariantLoader():
            return _Variants()
        case ColumnsLoader():
            return _Columns(load, types_of, strict=strict)
        case PipeLoader():
            return _Whole(load)


class _Variants:
    wishes: Wishes | None = None

    def shape(
        self,
        content: pa.StringArray,
        metadata: pa.StringArray,
        _schema_ids: pa.Int32Array,
        _parts: Sequence[Part] | None = None,
    ) -> Shaped:
        return Shaped((metadata, content))


class _Columns:
    def __init__(self, load: ColumnsLoader, types_of: SchemaTypes, *, strict: bool) -> None:
        self._columns, self._fitter = load.columns, Fitter(load, types_of, strict=strict)
        self.wishes: Wishes | None = self._fitter.wishes

    def shape(
        self,
        content: pa.StringArray,
        metadata: pa.StringArray,
        schema_ids: pa.Int32Array,
        parts: Sequence[Part] | None = None,
    ) -> Shaped:
        fitted = self._fitter.fit(content, schema_ids, parts)
        return Shaped(tuple(_beside(self._columns, fitted.texts, metadata)), fitted.bad)


def _beside(
    columns: Columns, texts: Sequence[pa.StringArray | None], metadata: pa.StringArray
) -> Sequence[pa.StringArray]:
    absent = pa.nulls(len(metadata), pa.string())
    return [
        metadata if column.name == METADATA else absent if text is None else text
        for column, text in zip(columns, texts, strict=True)
    ]


class _Whole:
    wishes: Wishes | None = None

    def __init__(self, load: PipeLoader) -> None:
        self._fields = load.fields

    def shape(
        self,
        content: pa.StringArray,
        metadata: pa.StringArray,
        _schema_ids: pa.Int32Array,
        _parts: Sequence[Part] | None = None,
    ) -> Shaped:
        texts, refused = record_texts(content, metadata, fields=self._fields)
        detail = "a user's pipe reads the fields of an object, none of them RECORD_METADATA"
        return Shaped((texts,), tuple(BadRecord(row, NOT_AN_OBJECT, detail) for row in refused))
