"""What all conversions of a value share: reading the JSON text of one value, and saying that it does not fit.

Not for any one type of column (`cell_numbers`, `cell_times`, `cell_texts`).
"""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from firn.snowflake.columns import ColumnType
from spark_jobs.sink.decode.base import json_text

_SHOWN = 40
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_STRING = msgspec.json.Decoder(str)


class UnfitError(Exception):
    """A value does not fit its column. `detail` is for a person; `wider`: the type that would take it, None: none."""

    def __init__(self, detail: str, wider: ColumnType | None = None) -> None:
        super().__init__(detail)
        self.detail, self.wider = detail, wider


class Converter(Protocol):
    """Converts the values of one column. `text` defines the result; `texts` is quick and may leave values to it."""

    def text(self, json: str, /) -> str:
        """The canonical text of one value, given as JSON text, no `null`. Raises UnfitError."""
        ...

    def texts(self, raw: pa.StringArray, /) -> pa.StringArray:
        """The canonical texts of n values (null where there is none); null also where `text` has to decide."""
        ...


def shown(json: str) -> str:
    """A value as messages show it: its beginning."""
    return json if len(json) <= _SHOWN else json[:_SHOWN] + "..."


def no_value_of(json: str, type_: ColumnType) -> UnfitError:
    """The error of a value that has nothing to do with the type."""
    return UnfitError(f"{shown(json)} is no {type_}")


def is_string(json: str) -> bool:
    """Whether the JSON text is that of a string."""
    return json.startswith('"')


def string_value(json: str) -> str:
    """The characters of a JSON string. Half a surrogate pair is a replacement character, as in the decoders."""
    try:
        return _STRING.decode(json)
    except msgspec.DecodeError:
        return str(json_text.parse(json))


def number_text(json: str) -> str | None:
    """The digits of a JSON number or of a JSON string that holds a number; None where it is neither."""
    text = string_value(json).strip() if is_string(json) else json
    return text if _NUMBER.fullmatch(text) else None


def decimal_value(json: str, type_: ColumnType) -> Decimal | None:
    """The number that a JSON number or string holds; None where it is neither. Raises UnfitError: beyond Decimal."""
    text = number_text(json)
    try:
        return None if text is None else Decimal(text)
    except InvalidOperation:
        raise UnfitError(f"the exponent of {shown(json)} is beyond all bounds of {type_}") from None


def matches(raw: pa.StringArray, pattern: str) -> pa.BooleanArray:
    """Which texts are what the regular expression (RE2) describes, from end to end; false where there is none."""
    return pc.fill_null(pc.match_substring_regex(raw, f"^(?:{pattern})$"), fill_value=False)


def kept(raw: pa.StringArray, keep: pa.BooleanArray) -> pa.StringArray:
    """The texts where `keep` says so, null elsewhere."""
    return raw if pc.all(keep).as_py() else pc.if_else(keep, raw, pa.scalar(None, pa.string()))


def spread(texts: pa.StringArray, rows: pa.BooleanArray) -> pa.StringArray:
    """`texts`, one for each of the marked rows, at these rows; null elsewhere."""
    if len(texts) == len(rows):
        return texts
    return pc.replace_with_mask(pa.nulls(len(rows), pa.string()), rows, texts)
