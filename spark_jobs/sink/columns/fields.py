"""First-level fields of records: split out of JSON text without touching a digit, and matched to columns by name.

As the official connector: a name is folded to upper case unless the field's own name has double quotes around it. A
column whose name is exactly the field's comes first, so that columns that were made with quotes are found too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

from firn.snowflake.columns import Columns
from spark_jobs.sink.decode.base.field_columns import FieldColumn

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True)
class Fields:
    """Texts by field, in the order in which fields were met (n each, null where a record has no such field), or what
    the decoder has of it (`FieldColumn`).

    not_objects: rows whose text is no JSON object; they have no fields.
    """

    texts: Mapping[str, FieldColumn | pa.StringArray]
    not_objects: tuple[int, ...]


def split(content: pa.StringArray) -> Fields:
    """Split n JSON texts, none of them null. Of a name that comes twice in a record the last one counts."""
    not_objects: list[int] = []
    records: list[dict[str, msgspec.Raw]] = []
    for row, text in enumerate(content.to_pylist()):
        if not text.startswith("{"):
            not_objects.append(row)
            records.append({})
        else:
            records.append(_OBJECT.decode(text))
    names = dict.fromkeys(name for record in records for name in record)
    return Fields({name: _column(records, name) for name in names}, tuple(not_objects))


def _column(records: Sequence[dict[str, msgspec.Raw]], name: str) -> pa.StringArray:
    found = [record.get(name) for record in records]
    return pa.array([None if raw is None else bytes(raw) for raw in found], pa.binary()).cast(pa.string())


class ColumnMatcher:
    """Finds the columns of fields. Remembers what it found: records have the same fields again and again."""

    def __init__(self, columns: Columns) -> None:
        self._exact = {column.name: at for at, column in enumerate(columns)}
        self._folded: dict[str, int] = {}
        for at, column in reversed(list(enumerate(columns))):
            self._folded[column.name.upper()] = at
        self._found: dict[str, int | None] = {}

    def column_of(self, field: str) -> int | None:
        """The position of the field's column; None where there is none."""
        if field not in self._found:
            name = column_name(field)
            at = self._exact.get(field, self._exact.get(name))
            self._found[field] = self._folded.get(name) if at is None and name == field.upper() else at
        return self._found[field]


def column_name(field: str) -> str:
    """The name that a new column for this field gets, as Snowflake keeps it."""
    if len(field) > 2 and field[0] == field[-1] == '"':
        return field[1:-1].replace('""', '"')
    return field.upper()
