"""JSON texts of records split into the texts of their first-level fields, without touching a digit of a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import pyarrow as pa

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


@dataclass(frozen=True)
class Fields:
    """Texts by field, in the order in which fields were met (n each, null where a record has no such field).

    not_objects: rows whose text is no JSON object; they have no fields.
    """

    texts: dict[str, pa.StringArray]
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
