"""The types that fields of messages have: from a column's type in Snowflake, or as `types` of a source names them.

A default never loses anything: a value that its type cannot hold exactly is a bad row, and its error names the type
that could. Names of overrides are Avro's types and logical types (https://avro.apache.org/docs/1.12.0/specification/),
also where messages are JSON. Not for converting values (`values`).
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from enum import StrEnum

from firn.errors import ConfigError
from firn.snowflake.columns import ColumnType, Kind

INT_DIGITS, LONG_DIGITS = 9, 18
"""Digits of whole numbers that an int, and a long, always holds."""


class Form(StrEnum):
    """What a field is."""

    INT = "int"
    LONG = "long"
    DECIMAL = "decimal"
    FLOAT = "float"
    DOUBLE = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    UUID = "uuid"
    JSON = "json"
    """VARIANT, OBJECT and ARRAY: JSON inside JSON, its text elsewhere."""
    DATE = "date"
    TIME_MILLIS = "time-millis"
    TIME_MICROS = "time-micros"
    TIMESTAMP_MILLIS = "timestamp-millis"
    TIMESTAMP_MICROS = "timestamp-micros"
    TIMESTAMP_NANOS = "timestamp-nanos"
    LOCAL_TIMESTAMP_MILLIS = "local-timestamp-millis"
    LOCAL_TIMESTAMP_MICROS = "local-timestamp-micros"
    LOCAL_TIMESTAMP_NANOS = "local-timestamp-nanos"


@dataclass(frozen=True)
class Scalar:
    """The type of one value. precision, scale: digits of a decimal."""

    form: Form
    precision: int = 0
    scale: int = 0


_FORMS = {
    Kind.FLOAT: Form.DOUBLE,
    Kind.VARCHAR: Form.STRING,
    Kind.BINARY: Form.BYTES,
    Kind.BOOLEAN: Form.BOOLEAN,
    Kind.DATE: Form.DATE,
    Kind.TIME: Form.TIME_MICROS,
    Kind.TIMESTAMP_NTZ: Form.LOCAL_TIMESTAMP_MICROS,
    Kind.TIMESTAMP_LTZ: Form.TIMESTAMP_MICROS,
    Kind.TIMESTAMP_TZ: Form.TIMESTAMP_MICROS,
}
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_MOST_DIGITS = 1000


def scalar_of(column: ColumnType) -> Scalar:
    """The type of a column's field, unless the configuration names another; JSON for what Avro has no type for."""
    if column.kind is not Kind.NUMBER:
        return Scalar(_FORMS.get(column.kind, Form.JSON))
    if column.scale == 0 and column.size <= LONG_DIGITS:
        return Scalar(Form.INT if column.size <= INT_DIGITS else Form.LONG)
    return Scalar(Form.DECIMAL, column.size, column.scale)


def named_scalar(name: str, column: str) -> Scalar:
    """The type that an override names, as `long`, `timestamp-millis` or `decimal(20,4)`. Raises ConfigError."""
    text = name.strip().lower()
    if found := _DECIMAL.fullmatch(text):
        precision, scale = int(found[1]), int(found[2] or 0)
        if 0 < precision <= _MOST_DIGITS and scale <= precision:
            return Scalar(Form.DECIMAL, precision, scale)
    known = [form.value for form in Form if form is not Form.DECIMAL]
    if text in known:
        return Scalar(Form(text))
    near = difflib.get_close_matches(text, known, n=1)
    raise ConfigError(
        f"Column {column} cannot become {name!r}: there is no such type.",
        where="the export's type overrides",
        next_step=f"Did you mean {near[0]}?" if near else f"Name one of {', '.join(known)}, decimal(precision,scale).",
    )
