"""Records ready to send: key and value, from sample orders or from the rows of a file.

Not for the bytes of a value (`value_formats`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time
from typing import Any, NamedTuple

from firn.errors import ConfigError, TerminalError
from firn.produce.coerce import nearest
from firn.produce.orders import OrderEvent
from firn.produce.rows import RowFile
from firn.produce.scalars import CoercionError
from firn.produce.value_formats import ValueFormat

_NOT_A_KEY = (dict, list, bytes)


class Record(NamedTuple):
    """One record: key as text (None: no key) and the bytes of its value."""

    key: str | None
    value: bytes


class BadRowError(TerminalError):
    """A row whose value does not fit the schema; names row, field, value and what was expected."""


def order_records(events: Iterable[OrderEvent], encode: Callable[[Any], bytes]) -> Iterator[Record]:
    """Orders as records; the key is the order id, so that an order's events keep their order."""
    for event in events:
        yield Record(str(event["order_id"]), encode(event))


def check_columns(file: RowFile, values: ValueFormat, key: str | None) -> None:
    """Compare header, schema and key before anything is produced. Raises ConfigError with all faults at once."""
    fields, faults = values.fields, list[str]()
    known = fields if fields is not None else file.columns
    if file.columns is not None:
        unknown = [name for name in file.columns if fields is not None and name not in fields]
        faults += [f"column {name} is not a field of the schema{nearest(name, list(fields or ()))}" for name in unknown]
        absent = [name for name in values.required if name not in file.columns]
        faults += [f"field {name} has no column, no default and may not be null" for name in absent]
    if key is not None and known is not None and key not in known:
        faults.append(
            f"key {key} is not a field of the {'file' if fields is None else 'schema'}{nearest(key, list(known))}"
        )
    if faults:
        raise ConfigError(
            f"File and schema do not fit: {'; '.join(faults)}.",
            where=str(file.path),
            next_step="Rename the columns, correct the schema, or name another key.",
        )


def file_records(
    file: RowFile, values: ValueFormat, key: str | None, encode: Callable[[Any], bytes]
) -> Iterator[Record]:
    """Rows as records, lazily. Stops in front of the first bad row with BadRowError or UnreadableRowError."""
    coerce = values.coercer(text=file.text)
    for number, row in file.rows():
        try:
            value = coerce(row)
            record = Record(key_text(value, key), encode(value))
        except CoercionError as error:
            raise _bad_row(file, number, error) from None
        except (ValueError, TypeError, OverflowError) as error:  # what only the encoder notices
            raise _bad_row(
                file, number, CoercionError("of the row", f"values that fit the schema ({error})", "")
            ) from None
        yield record


def key_text(value: Mapping[str, Any], key: str | None) -> str | None:
    """The key field as text; None for no key field or a null."""
    content = value.get(key) if key is not None else None
    if isinstance(content, tuple):  # a branch of a union, by name
        content = content[1]
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, _NOT_A_KEY):
        raise CoercionError(str(key), "a single value that can be a key", type(content).__name__)
    if isinstance(content, datetime | date | time):
        return content.isoformat()
    return str(content).lower() if isinstance(content, bool) else str(content)


def _bad_row(file: RowFile, number: int, error: CoercionError) -> BadRowError:
    found = f", found {error.value}" if error.value else ""
    return BadRowError(
        f"Field {error.path}: expected {error.wanted}{found}.",
        where=file.place(number),
        next_step="Correct this value, then produce the rows from here on: those before it are in the topic.",
    )
