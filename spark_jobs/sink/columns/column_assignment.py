"""Column assignment: the values of some records, each in its column as canonical text, and the bad records, with why.

Not for the changes that a table requires to take more of them (`column_mapping`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firn.snowflake.columns import METADATA, TIMESTAMPS, Column, ColumnType, Kind
from spark_jobs.sink.columns.cell_converters import shown
from spark_jobs.sink.columns.cells import Cells, to_cells
from spark_jobs.sink.columns.direct import direct_texts
from spark_jobs.sink.columns.fields import column_name
from spark_jobs.sink.decode.base.contract import Part, Writer
from spark_jobs.sink.decode.base.field_columns import FieldColumn
from spark_jobs.sink.decode.base.texts import json_of
from spark_jobs.sink.values.bad_records import AMBIGUOUS_FIELD, MISSING_VALUE, UNFITTING_VALUE, UNKNOWN_FIELD, BadRecord
from spark_jobs.sink.values.table_loaders import ColumnsLoader

_NONE = -1


class Writers:
    """The writers of n records. schema_ids: null for no schema; parts: as in `Decoded`."""

    def __init__(self, schema_ids: pa.Int32Array, parts: Sequence[Part] | None) -> None:
        if parts is None:
            encoded = pc.dictionary_encode(schema_ids)
            self.all = [Writer(each) for each in encoded.dictionary.to_pylist()]
            self._codes = pc.fill_null(encoded.indices, _NONE).to_numpy(zero_copy_only=False)
            return
        numbers: dict[Writer, int] = {}
        pairs = zip(schema_ids.to_pylist(), parts, strict=True)
        codes = [_NONE if each is None else numbers.setdefault(Writer(each, m), len(numbers)) for each, m in pairs]
        self.all, self._codes = list(numbers), np.array(codes, np.int64)

    def of(self, rows: npt.NDArray[np.int64]) -> list[Writer | None]:
        """Who wrote these rows, each once, in the order of `all`; None, at the end, for records without a schema."""
        codes = np.unique(self._codes[rows]).tolist()
        found: list[Writer | None] = [self.all[code] for code in codes if code != _NONE]
        return [*found, None] if _NONE in codes else found

    def rows_of(self, writers: Sequence[Writer]) -> pa.BooleanArray:
        """Which of the n rows these wrote."""
        wanted = [code for code, each in enumerate(self.all) if each in writers]
        return pa.array(np.isin(self._codes, wanted))


SchemaTypes = Callable[[Writer], Mapping[str, ColumnType]]


def present(raw: pa.StringArray) -> npt.NDArray[np.int64]:
    """Rows with a value: neither absent nor the JSON null."""
    return np.flatnonzero(pc.fill_null(pc.not_equal(raw, "null"), False).to_numpy(zero_copy_only=False))


class ColumnAssignment:
    """n records of one call, given as `ColumnMapper.map` takes them.

    texts: by column, None where no record has a value. faults: the first one of each row. narrow: row, column and type
    of each value that a wider type would take.
    """

    def __init__(
        self,
        load: ColumnsLoader,
        schema_ids: pa.Int32Array,
        parts: Sequence[Part] | None,
        types_of: SchemaTypes,
        *,
        strict: bool,
    ) -> None:
        self._load, self._rows, self._types_of, self._strict = load, len(schema_ids), types_of, strict
        # 0 stands for "no schema" in the metadata of a tombstone; the registry begins at 1.
        self.schema_ids = pc.if_else(pc.equal(schema_ids, 0), pa.scalar(None, pa.int32()), schema_ids)
        self.writers = Writers(self.schema_ids, parts)
        self.texts: list[pa.StringArray | None] = [None] * len(load.columns)
        self.faults: dict[int, BadRecord] = {}
        self.narrow: list[tuple[int, Column, ColumnType]] = []
        self._fields: dict[int, str] = {}

    @property
    def bad(self) -> tuple[BadRecord, ...]:
        """The bad records in order of row."""
        return tuple(self.faults[row] for row in sorted(self.faults))

    def good(self) -> npt.NDArray[np.int64]:
        """Rows that are to be loaded."""
        return self.good_of(np.arange(self._rows))

    def good_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Those of `rows` without a fault; if strict, those in front of the first fault of all."""
        if not self.faults:
            return rows
        return rows[rows < min(self.faults)] if self._strict else rows[~np.isin(rows, list(self.faults))]

    def schema_of(self, rows: npt.NDArray[np.int64]) -> int | None:
        """The schema id of the first of these rows."""
        found: int | None = self.schema_ids[int(rows[0])].as_py()
        return found

    def refuse(self, rows: Iterable[int], reason: str, detail: str) -> None:
        """These rows are bad, unless they are so already."""
        for row in rows:
            self.faults.setdefault(int(row), BadRecord(int(row), reason, detail))

    def put(self, at: int, field: str, values: FieldColumn | pa.StringArray) -> None:
        """The values of a field, into its column."""
        column = self._load.columns[at]
        if column.name == METADATA or column.generated:
            whose = "the sink's own" if column.name == METADATA else "numbered by Snowflake"
            detail = f"field {field!r} would go into column {column.name}, which is {whose}"
            self.refuse(present(json_of(values)), AMBIGUOUS_FIELD, detail)
            return
        texts = self._direct(field, values, column.type) if isinstance(values, FieldColumn) else None
        cells = self._cells(field, json_of(values), column.type) if texts is None else Cells(texts, ())
        for misfit in cells.misfits:
            if misfit.wider is not None and self._load.grow:
                self.narrow.append((misfit.row, column, misfit.wider))
            else:
                self.refuse([misfit.row], UNFITTING_VALUE, f"field {field!r}, column {column.name}: {misfit.detail}")
        self._join(at, field, cells.texts)

    def _direct(self, field: str, values: FieldColumn, type_: ColumnType) -> pa.StringArray | None:
        millis = all(self._says_timestamp(each, field) for each in self.writers.all)
        return direct_texts(values, type_, millis=millis)

    def _cells(self, field: str, raw: pa.StringArray, type_: ColumnType) -> Cells:
        """Converted values; numbers are milliseconds where the record's schema says that the field is a timestamp."""
        if type_.kind not in (*TIMESTAMPS, Kind.DATE, Kind.TIME):
            return to_cells(raw, type_)
        stamping = [each for each in self.writers.all if self._says_timestamp(each, field)]
        if not stamping:
            return to_cells(raw, type_)
        in_millis = self.writers.rows_of(stamping)
        stamped = to_cells(pc.if_else(in_millis, raw, pa.scalar(None, pa.string())), type_, millis=True)
        others = to_cells(pc.if_else(in_millis, pa.scalar(None, pa.string()), raw), type_)
        misfits = sorted((*stamped.misfits, *others.misfits), key=lambda each: each.row)
        return Cells(pc.coalesce(stamped.texts, others.texts), tuple(misfits))

    def _says_timestamp(self, writer: Writer, field: str) -> bool:
        said = self._types_of(writer).get(field)
        return said is not None and said.kind in TIMESTAMPS

    def _join(self, at: int, field: str, texts: pa.StringArray) -> None:
        before = self.texts[at]
        if before is None:
            self.texts[at], self._fields[at] = texts, field
            return
        both = np.flatnonzero(pc.and_(before.is_valid(), texts.is_valid()).to_numpy(zero_copy_only=False))
        name = self._load.columns[at].name
        detail = f"fields {self._fields[at]!r} and {field!r} would both go into column {name}"
        self.refuse(both, AMBIGUOUS_FIELD, detail)
        self.texts[at] = pc.coalesce(before, texts)

    def refuse_unknown(self, unknown: Mapping[str, pa.StringArray], why: str) -> None:
        """Fields without a column make a record bad where they have a value: nothing is left out unsaid."""
        for field, raw in unknown.items():
            detail = f"the table has no column for field {shown(repr(field))}, and {why}"
            self.refuse(present(raw), UNKNOWN_FIELD, detail)

    def refuse_twins(self, unknown: Mapping[str, pa.StringArray]) -> None:
        """New fields that would share a column make a record bad where it has values for more than one of them."""
        fields: dict[str, list[str]] = {}
        for field in unknown:
            fields.setdefault(column_name(field), []).append(field)
        for same in fields.values():
            if len(same) > 1:
                rows = np.concatenate([present(unknown[field]) for field in same])
                found, counts = np.unique(rows, return_counts=True)
                detail = f"fields {' and '.join(shown(repr(field)) for field in same[:2])} would go into one column"
                self.refuse(found[counts > 1], AMBIGUOUS_FIELD, detail)

    def absent(self) -> dict[int, npt.NDArray[np.int64]]:
        """By column that must have a value: the rows without one."""
        found: dict[int, npt.NDArray[np.int64]] = {}
        misfits = {(row, column.name) for row, column, _ in self.narrow}
        for at, column in enumerate(self._load.columns):
            if not column.required or column.name == METADATA:
                continue
            texts = self.texts[at]
            rows = (
                np.arange(self._rows)
                if texts is None
                else np.flatnonzero(texts.is_null().to_numpy(zero_copy_only=False))
            )
            if misfits:
                rows = np.array([row for row in rows.tolist() if (row, column.name) not in misfits], np.int64)
            if len(rows):
                found[at] = rows
        return found

    def refuse_absent(self, absent: Mapping[int, npt.NDArray[np.int64]]) -> None:
        """Records without a value for a column that must have one are bad."""
        for at, rows in absent.items():
            detail = f"no value for column {self._load.columns[at].name}, which is NOT NULL"
            self.refuse(rows, MISSING_VALUE, detail)
