"""A decoder's columns as canonical texts of a table's columns, where no value has to be looked at for that.

Which pairs of a field's type and a column's type those are is a matter of the two types alone: the pairs below, for
which the conversion table (docs/tables.md) gives the same text as for the field's JSON. Four of them hold within a
range of values, which is checked for the whole column. Everything else goes through `cells`.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from firn.snowflake.columns import ColumnType, Kind
from spark_jobs.sink.decode.base.field_columns import FieldColumn

_LONGEST_INTEGER = 20  # digits of an unsigned integer of 64 bits
_LEAST_PLAIN, _FIRST_EXPONENT = 1e-4, 1e10  # between them all decoders print doubles plainly and in few characters
_LAST_MILLI = 253_402_300_799_999  # of the year 9999
_UNITS = {3: "ms", 6: "us"}


def direct_texts(field: FieldColumn, type_: ColumnType, *, millis: bool) -> pa.StringArray | None:
    """The canonical texts of a field's values, null for null; None where each value has to be looked at.

    millis: as for `cells.to_cells`.
    """
    kind = field.values.type
    match type_.kind:
        case Kind.NUMBER if pa.types.is_integer(kind) and type_.size - type_.scale >= _LONGEST_INTEGER:
            return field.texts
        case Kind.FLOAT if pa.types.is_integer(kind) or (pa.types.is_floating(kind) and _are_plain(field.values)):
            return field.texts
        case Kind.BOOLEAN if pa.types.is_boolean(kind):
            return field.texts
        case Kind.VARCHAR if field.is_string and _longest(field.texts) <= type_.size:
            return field.texts
        case Kind.TIMESTAMP_NTZ if kind == pa.int64() and millis and type_.size in _UNITS:
            return _moments(field.values, _UNITS[type_.size])
    return None


def _are_plain(values: pa.Array) -> bool:
    sizes = pc.abs(values)
    plain = pc.and_(pc.greater_equal(sizes, _LEAST_PLAIN), pc.less(sizes, _FIRST_EXPONENT))
    return pc.all(pc.or_(plain, pc.equal(sizes, 0))).as_py() is not False


def _longest(texts: pa.StringArray) -> int:
    """Bytes of the longest text, which has no more characters."""
    return pc.max(pc.binary_length(texts)).as_py() or 0


def _moments(millis: pa.Int64Array, unit: str) -> pa.StringArray | None:
    least, most = pc.min_max(millis).values()
    if least.is_valid and not 0 <= least.as_py() <= most.as_py() <= _LAST_MILLI:
        return None
    return millis.cast(pa.timestamp("ms")).cast(pa.timestamp(unit)).cast(pa.string())
