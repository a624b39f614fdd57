"""Types of columns that a schema's fields ask for: what a format says of its schemas, and the rest of the sink reads.

The types are those of the official connector (SnowflakeColumnTypeMapper of snowflake-kafka-connector), through Kafka
Connect's types; but a decimal of Avro with 38 digits at most is a NUMBER here and VARCHAR there. Not for types that
only values tell (`spark_jobs.sink.columns.required_schema_changes`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from firn.snowflake.columns import DEFAULT_BINARY_LENGTH, DEFAULT_TEXT_LENGTH, MAX_PRECISION, ColumnType, Kind

INTEGER = ColumnType(Kind.NUMBER, MAX_PRECISION)
FLOAT = ColumnType(Kind.FLOAT)
TEXT = ColumnType(Kind.VARCHAR, DEFAULT_TEXT_LENGTH)
BOOLEAN = ColumnType(Kind.BOOLEAN)
BINARY = ColumnType(Kind.BINARY, DEFAULT_BINARY_LENGTH)
DATE = ColumnType(Kind.DATE)
TIME = ColumnType(Kind.TIME, 6)
TIMESTAMP = ColumnType(Kind.TIMESTAMP_NTZ, 6)
ARRAY = ColumnType(Kind.ARRAY)
VARIANT = ColumnType(Kind.VARIANT)
MAX_SCALE = 37  # of a NUMBER


@dataclass(frozen=True)
class ValueTypes:
    """What a schema says of whole values.

    type: of a column that holds the value; None where it is always null. fields: of its first-level fields in their
    order, under the names that the decoder writes; a field that is always null has no type. Without `fields` values
    are no objects, or their fields are not known.
    """

    type: ColumnType | None = VARIANT
    fields: Mapping[str, ColumnType | None] = field(default_factory=dict)

    @property
    def columns(self) -> dict[str, ColumnType]:
        """The columns that the fields ask for."""
        return {name: found for name, found in self.fields.items() if found is not None}


def decimal_type(precision: int, scale: int) -> ColumnType:
    """A NUMBER of the largest size, so that a schema may change the precision; VARCHAR for what none can hold."""
    fits = 0 < precision <= MAX_PRECISION and 0 <= scale <= min(precision, MAX_SCALE)
    return ColumnType(Kind.NUMBER, MAX_PRECISION, scale) if fits else TEXT
