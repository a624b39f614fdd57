"""One neutral description of a value's fields, whatever format its schema is written in. Values only, no logic.

It describes what a sink writes into RECORD_CONTENT, not what travels in Kafka: an Avro `bytes` is base64 text there.
Readers make it (`avro`, `json_schema`, `protobuf`); `columns` turns it into models.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


class Kind(StrEnum):
    """A scalar: its type in Snowflake, and the form in which RECORD_CONTENT holds it."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    TEXT = "varchar"
    BINARY = "binary"  # base64 text
    DATE = "date"  # text that begins with YYYY-MM-DD
    TIME = "time"  # text that begins with HH:MM:SS.mmm
    TIME_MICROS = "time_micros"  # microseconds of the day
    TIMESTAMP_SECONDS = "timestamp_seconds"  # since 1970, UTC; so are the next three
    TIMESTAMP_MILLIS = "timestamp_millis"
    TIMESTAMP_MICROS = "timestamp_micros"
    TIMESTAMP_NANOS = "timestamp_nanos"
    TIMESTAMP_TEXT = "timestamp_text"  # ISO 8601 with an offset or Z
    VARIANT = "variant"  # anything: what has no type of its own stays as it is


@dataclass(frozen=True)
class Scalar:
    """One value. `precision` and `scale` are a decimal's; `symbols` all values that an enum has.

    native: whether a typed table (`snowflake.enable.schematization`) has it in a column of this very type, and not as
        the number or text that RECORD_CONTENT holds.
    """

    kind: Kind
    precision: int = 38
    scale: int = 0
    symbols: tuple[str, ...] = ()
    native: bool = True


@dataclass(frozen=True)
class Field:
    """A member of a record. `nullable`: whether it may be null or absent where its record is present.

    position: where it stands, if the record is a list of two (an entry of a map) and has no names.
    """

    name: str
    type: Type
    nullable: bool
    doc: str = ""
    position: int | None = None


@dataclass(frozen=True)
class Record:
    """An object with known members. A union of several types is one too: a nullable member for each type."""

    fields: tuple[Field, ...]
    doc: str = ""


@dataclass(frozen=True)
class Array:
    """A list of values of one type; `nullable` is said of its items."""

    items: Type
    nullable: bool = False


@dataclass(frozen=True)
class Map:
    """An object with any keys; `nullable` is said of its values. pairs: it is a list of [key, value] instead.

    keys: of such a list; the keys of an object are text.
    """

    values: Type
    nullable: bool = False
    pairs: bool = False
    keys: Type = field(default_factory=lambda: Scalar(Kind.TEXT))


Type: TypeAlias = Scalar | Record | Array | Map

VARIANT = Scalar(Kind.VARIANT)


@dataclass(frozen=True)
class Described:
    """What is known of the values of a subject.

    nullable: whether a value may be null, beside tombstones. versions: numbers of the subject's versions, oldest first.
    """

    type: Type
    nullable: bool = False
    versions: tuple[int, ...] = ()
