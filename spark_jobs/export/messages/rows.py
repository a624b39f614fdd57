"""A payload as the values of its columns: decoded by one compiled decoder for each version of the columns, then masked.

Not for what messages make of the values (`values`). Semi-structured values stay raw JSON, so that none of their digits
is lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import orjson

from firn.connector.export.config import MaskConfig
from firn.exports.columns import SourceColumn, matches
from spark_jobs.export.messages.types import Form, Scalar
from spark_jobs.export.messages.values import compact, text_converter

Mask = Callable[[Any], str]
_NULL = b"null"


class RowReader:
    """Reads payloads of one version of the columns. masks: by column name."""

    def __init__(self, scalars: Mapping[str, Scalar], masks: Mapping[str, Mask]) -> None:
        self.names = tuple(scalars)
        fields = [f"c{index}" for index in range(len(scalars))]
        kinds = [msgspec.Raw if each.form is Form.JSON else Any for each in scalars.values()]
        nothing = [msgspec.Raw(_NULL) if kind is msgspec.Raw else None for kind in kinds]
        row = msgspec.defstruct(
            "Row",
            list(zip(fields, kinds, nothing, strict=True)),
            rename=dict(zip(fields, self.names, strict=True)),
            gc=False,
        )
        self._decode = msgspec.json.Decoder(row).decode
        self._raw = [name for name, kind in zip(self.names, kinds, strict=True) if kind is msgspec.Raw]
        self._masks = [(name, mask) for name, mask in masks.items() if name in scalars]

    def read(self, payload: str) -> dict[str, Any]:
        """The values by column name, None for null."""
        row = dict(zip(self.names, msgspec.structs.astuple(self._decode(payload)), strict=True))
        for name in self._raw:
            if bytes(row[name]) == _NULL:
                row[name] = None
        for name, mask in self._masks:
            if row[name] is not None:
                row[name] = mask(row[name])
        return row


def payload_json(row: Mapping[str, Any]) -> bytes:
    """A row as JSON again: for a dead letter, which must not show what is masked."""
    return orjson.dumps(row, default=_fragment)


def masks_of(
    masks: Iterable[MaskConfig], where: str, columns: Sequence[SourceColumn], scalars: Mapping[str, Scalar]
) -> dict[str, Mask]:
    """The mask of each masked column; the first one that matches counts."""
    found: dict[str, Mask] = {}
    for mask in masks:
        for column in columns:
            if column.name not in found and matches(mask.columns, where, column.name):
                found[column.name] = _mask(mask, text_converter(scalars[column.name]))
    return found


def _mask(mask: MaskConfig, text: Callable[[Any], str]) -> Mask:
    match mask.kind:
        case "hash":
            salt = mask.salt.get_secret_value() if mask.salt else ""
            return lambda value: hashlib.sha256((salt + text(value)).encode()).hexdigest()
        case "replace":
            return partial(_replaced, mask.text)
        case "truncate":
            return lambda value: text(value)[: mask.length]


def _replaced(text: str, _value: Any) -> str:
    return text


def _fragment(value: Any) -> orjson.Fragment:
    if isinstance(value, msgspec.Raw):
        return orjson.Fragment(compact(bytes(value)))
    raise TypeError
