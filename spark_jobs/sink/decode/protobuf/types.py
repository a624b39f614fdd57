"""Types of columns that a Protobuf message asks for, through Kafka Connect's types of the official converter.

Only the first level is looked at. Not for finding the message (`converter`) or reading it (`values`).
"""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from firn.connector.config import ProtobufOptions
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
from spark_jobs.sink.decode.protobuf import values


def value_types(message: Descriptor, options: ProtobufOptions) -> ValueTypes:
    """The types of a message as a record's value."""
    return _Types(options).value(message)


class _Types:
    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options

    def value(self, message: Descriptor) -> ValueTypes:
        if self._is_raw(message):
            return ValueTypes(self._single(message.fields_by_name["value"]))
        fields = values.struct_fields(message, self._options)
        return ValueTypes(
            VARIANT,
            {name: self._field(each) if isinstance(each, FieldDescriptor) else VARIANT for name, each in fields},
        )

    def _is_raw(self, message: Descriptor) -> bool:
        return self._options.raw_wrappers and message.full_name in values.WRAPPERS

    def _field(self, field: FieldDescriptor) -> ColumnType:
        if field.message_type and field.message_type.GetOptions().map_entry:
            return VARIANT
        return ARRAY if field.is_repeated else self._single(field)

    def _single(self, field: FieldDescriptor) -> ColumnType:
        message = field.message_type
        if message:
            if self._is_raw(message):
                return self._single(message.fields_by_name["value"])
            return _MESSAGES.get(message.full_name, VARIANT)
        if field.enum_type:
            return INTEGER if self._options.enums_as_numbers else TEXT
        return _SCALARS.get(field.type, INTEGER)


# Each Decimal tells its own scale, so that no NUMBER is sure to hold it.
_MESSAGES = {
    values.DECIMAL: TEXT,
    values.DATE: DATE,
    values.TIME_OF_DAY: TIME,
    values.TIMESTAMP: TIMESTAMP,
}
_SCALARS = {
    FieldDescriptor.TYPE_BOOL: BOOLEAN,
    FieldDescriptor.TYPE_FLOAT: FLOAT,
    FieldDescriptor.TYPE_DOUBLE: FLOAT,
    FieldDescriptor.TYPE_STRING: TEXT,
    FieldDescriptor.TYPE_BYTES: BINARY,
}
