"""Types of columns that a JSON Schema asks for, through Kafka Connect's types of the official converter.

Only the first level is looked at. JSON without a schema id asks for none: its types come from the values.
"""

from __future__ import annotations

from firn.snowflake.columns import ColumnType
from spark_jobs.sink.decode.base.column_types import (
    ARRAY,
    BINARY,
    BOOLEAN,
    DATE,
    FLOAT,
    INTEGER,
    TEXT,
    TIME,
    TIMESTAMP,
    VARIANT,
    ValueTypes,
)
from spark_jobs.sink.decode.connect import schema as connect
from spark_jobs.sink.decode.json.values import ArrayOf, Leaf, Null, OneOf, Struct, Type


def value_types(found: Type) -> ValueTypes:
    """The types of values that the schema compiled to `found` describes."""
    match found:
        case Struct():
            return ValueTypes(VARIANT, {name: _type(slot.type) for name, slot in found.slots.items()})
        case OneOf():
            return ValueTypes(VARIANT, {name: _type(branch) for name, branch in found.branches.items()})
    return ValueTypes(_type(found))


def _type(found: Type) -> ColumnType | None:
    match found:
        case Null():
            return None
        case Leaf():
            return _LOGICAL.get((found.schema.type, found.schema.name)) or _CONNECT[found.schema.type]
        case ArrayOf():
            return ARRAY
    return VARIANT


# A decimal in JSON has the digits that its writer gave it, whatever its schema says: no NUMBER is sure to hold them.
_LOGICAL: dict[tuple[connect.Type, str | None], ColumnType] = {
    (connect.Type.INT32, connect.DATE): DATE,
    (connect.Type.INT32, connect.TIME): TIME,
    (connect.Type.INT64, connect.TIMESTAMP): TIMESTAMP,
    (connect.Type.BYTES, connect.DECIMAL): TEXT,
}
_CONNECT = {
    **dict.fromkeys((connect.Type.INT8, connect.Type.INT16, connect.Type.INT32, connect.Type.INT64), INTEGER),
    connect.Type.FLOAT32: FLOAT,
    connect.Type.FLOAT64: FLOAT,
    connect.Type.BOOLEAN: BOOLEAN,
    connect.Type.STRING: TEXT,
    connect.Type.BYTES: BINARY,
}
