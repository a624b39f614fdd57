"""Values of records fitted to a column: JSON texts to the canonical texts that COPY casts, by our conversion table.

docs/tables.md has the table, source type by column type; each cell of it is tested. Two ways to the same result: a
converter's `text` defines it value by value, `texts` gives it for the common values a column at a time.
Not for which column a field goes to (`fields`), nor for what is done about a misfit (`column_assignment`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from firn.snowflake.columns import ColumnType, Kind
from spark_jobs.sink.columns.cell_converters import (
    ArrayConverter,
    BinaryConverter,
    BooleanConverter,
    Converter,
    FloatConverter,
    NoConverter,
    NumberConverter,
    ObjectConverter,
    UnfitError,
    VarcharConverter,
    VariantConverter,
)
from spark_jobs.sink.columns.cell_times import TimeConverter
from spark_jobs.sink.decode.base.capacity import check_size, string_array

_CONVERTERS: dict[Kind, Callable[[ColumnType], Converter]] = {
    Kind.NUMBER: NumberConverter,
    Kind.FLOAT: FloatConverter,
    Kind.BOOLEAN: BooleanConverter,
    Kind.VARCHAR: VarcharConverter,
    Kind.BINARY: BinaryConverter,
    Kind.VARIANT: VariantConverter,
    Kind.OBJECT: ObjectConverter,
    Kind.ARRAY: ArrayConverter,
    Kind.OTHER: NoConverter,
}


@dataclass(frozen=True)
class Misfit:
    """A value that does not fit: its row, what is wrong, for a person, and the type that would take it, if one does."""

    row: int
    detail: str
    wider: ColumnType | None


@dataclass(frozen=True)
class Cells:
    """n canonical texts, null for SQL NULL and where a value does not fit; these in the order of their rows."""

    texts: pa.StringArray
    misfits: tuple[Misfit, ...]


def converter(type_: ColumnType, *, millis: bool = False) -> Converter:
    """What converts the values of a column of this type; `millis` as for `to_cells`."""
    found = _CONVERTERS.get(type_.kind)
    return found(type_) if found else TimeConverter(type_, millis=millis)


def to_cells(raw: pa.StringArray, type_: ColumnType, *, millis: bool = False) -> Cells:
    """Convert n values, given as JSON text; a record without the field (null) and the text `null` are SQL NULL.

    millis: numbers for a column of dates or times are milliseconds since 1970, as the decoders write what a schema
        calls a timestamp; otherwise their size tells the unit, which is wrong for milliseconds before 1971.
    Raises OutputTooLargeError, and nothing else whatever the values are.
    """
    raw = _without_nulls(raw)
    if raw.null_count == len(raw):
        return Cells(raw, ())
    convert = converter(type_, millis=millis)
    texts = convert.texts(raw)
    rows = _undecided(raw, texts)
    if not len(rows):
        return Cells(texts, ())
    misfits: list[Misfit] = []
    values = raw.take(pa.array(rows)).to_pylist()
    judged = string_array(_judged(convert, int(row), value, misfits) for row, value in zip(rows, values, strict=True))
    return Cells(_with(texts, rows, judged), tuple(misfits))


def _without_nulls(raw: pa.StringArray) -> pa.StringArray:
    nulls = pc.equal(raw, "null")
    return pc.if_else(nulls, pa.scalar(None, pa.string()), raw) if pc.any(nulls).as_py() else raw


def _undecided(raw: pa.StringArray, texts: pa.StringArray) -> npt.NDArray[np.int64]:
    if texts.null_count == raw.null_count:
        return np.zeros(0, np.int64)
    return np.flatnonzero(pc.and_(texts.is_null(), raw.is_valid()).to_numpy(zero_copy_only=False))


def _judged(convert: Converter, row: int, value: str, misfits: list[Misfit]) -> str | None:
    try:
        return convert.text(value)
    except UnfitError as error:
        misfits.append(Misfit(row, error.detail, error.wider))
        return None


def _with(texts: pa.StringArray, rows: npt.NDArray[np.int64], judged: pa.StringArray) -> pa.StringArray:
    """`texts` with those of the rows that were judged one by one."""
    if len(rows) == len(texts):
        return judged
    check_size(texts, judged)
    mask = np.zeros(len(texts), np.bool_)
    mask[rows] = True
    return pc.replace_with_mask(texts, pa.array(mask), judged)
