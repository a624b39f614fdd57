"""Schemas of Kafka Connect's data model, which the formats with a schema of their own translate theirs into.

Source: org.apache.kafka.connect.data of Kafka 4.1. Not for values (`values`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
DECIMAL = "org.apache.kafka.connect.data.Decimal"
MAX_SCALE = 10_000  # digits to write out at most


class Type(StrEnum):
    """Schema.Type of Connect."""

    BOOLEAN = "boolean"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


@dataclass(frozen=True, eq=False)
class Schema:
    """A schema; `key` is a map's, `value` a map's or array's, `fields` a struct's. A null takes the default."""

    type: Type
    name: str | None = None
    optional: bool = False
    default: Any = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    fields: tuple[tuple[str, Schema], ...] = ()
    key: Schema | None = None
    value: Schema | None = None


def without_defaults(schema: Schema) -> Schema:
    """The schema with which a null stays a null, at every level."""
    return replace(
        schema,
        default=None,
        fields=tuple((name, without_defaults(child)) for name, child in schema.fields),
        key=without_defaults(schema.key) if schema.key else None,
        value=without_defaults(schema.value) if schema.value else None,
    )
