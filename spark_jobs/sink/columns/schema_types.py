"""Types of columns from the schemas of a registry: one for each first-level field, under the name that decoders write.

The types are those of the official connector (SnowflakeColumnTypeMapper of snowflake-kafka-connector), through Kafka
Connect's types; but a decimal of Avro with 38 digits at most is a NUMBER here and VARCHAR there. The schemas are read
by the decoders' own parsers, and only their first level is looked at. Formats that carry their schema in each record
(Avro object containers, JSON with an envelope) have no schema id: their types come from the data (`value_types`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from google.protobuf.descriptor import Descriptor, FieldDescriptor

from firn.connector.config import ConverterConfig, ProtobufOptions
from firn.registry.schemas import RegisteredSchema
from firn.snowflake.columns import DEFAULT_BINARY_LENGTH, MAX_PRECISION, ColumnType, Kind
from spark_jobs.sink.columns.value_types import ARRAY, BOOLEAN, FLOAT, INTEGER, TEXT, VARIANT
from spark_jobs.sink.decode import connect, protobuf_types
from spark_jobs.sink.decode.budget import Budget
from spark_jobs.sink.decode.json_schema import compiled
from spark_jobs.sink.decode.json_schema_types import ArrayOf, Leaf, Null, OneOf, Struct
from spark_jobs.sink.decode.json_schema_types import Type as JsonType
from spark_jobs.sink.decode.protobuf import message_at
from spark_jobs.sink.decode.protobuf_schema import root_file
from spark_jobs.sink.decode.scalars import CLASSIC_ZONE
from spark_jobs.sink.decode.schema import (
    Array,
    Enum,
    Fixed,
    Node,
    Record,
    Scalar,
    Union,
    is_null,
    parse_schema,
)
from spark_jobs.sink.decode.shapes import branch_names, entry_of

BINARY = ColumnType(Kind.BINARY, DEFAULT_BINARY_LENGTH)
DATE = ColumnType(Kind.DATE)
TIME = ColumnType(Kind.TIME, 6)
TIMESTAMP = ColumnType(Kind.TIMESTAMP_NTZ, 6)
MAX_SCALE = 37  # of a NUMBER


@dataclass(frozen=True)
class _Value:
    """What a schema says of whole values: their type (None where they are always null), and those of their fields."""

    type: ColumnType | None
    fields: Mapping[str, ColumnType | None]


def schema_types(
    schema: RegisteredSchema, config: ConverterConfig, message: Sequence[int] = (0,)
) -> dict[str, ColumnType]:
    """The types of the first-level fields, in their order; {} where values are no objects of known fields.

    A field that is always null has no type. message: the way to the message in the file of a Protobuf schema, which
    only a record tells. Raises InvalidSchemaError where the decoder of the schema does, and TransientError.
    """
    value = _value(schema, config, message)
    if config.hoist:
        return _known({config.hoist[-1]: value.type if len(config.hoist) == 1 else VARIANT})
    return _known(value.fields)


def _known(fields: Mapping[str, ColumnType | None]) -> dict[str, ColumnType]:
    return {name: found for name, found in fields.items() if found is not None}


def _value(schema: RegisteredSchema, config: ConverterConfig, message: Sequence[int]) -> _Value:
    match schema.kind:
        case "AVRO":
            return _Avro(config.flatten_singletons).value(parse_schema(schema.text))
        case "JSON":
            return _json_value(compiled(schema, CLASSIC_ZONE, config.null_defaults, Budget()).type)
        case _:
            return _Protobuf(config.protobuf).value(message_at(root_file(schema), message))


def _decimal(precision: int, scale: int) -> ColumnType:
    """A NUMBER of the largest size, so that a schema may change the precision; VARCHAR for what none can hold."""
    fits = 0 < precision <= MAX_PRECISION and 0 <= scale <= min(precision, MAX_SCALE)
    return ColumnType(Kind.NUMBER, MAX_PRECISION, scale) if fits else TEXT


class _Avro:
    def __init__(self, flatten_singletons: bool) -> None:
        self._flatten = flatten_singletons

    def value(self, node: Node) -> _Value:
        match node:
            case Record():
                return _Value(VARIANT, {name: self.type(child) for name, child in node.fields})
            case Union():
                branches = self._branches(node)
                if isinstance(branches, list):
                    names = branch_names(branches)
                    return _Value(VARIANT, {name: self.type(each) for name, each in zip(names, branches, strict=True)})
                return self.value(branches) if branches else _Value(None, {})
        return _Value(self.type(node), {})

    def type(self, node: Node) -> ColumnType | None:
        match node:
            case Scalar() | Fixed() if node.logical == "decimal":
                return _decimal(node.precision, node.scale)
            case Scalar():
                return TIMESTAMP if node.is_timestamp else _AVRO[node.kind, node.logical]
            case Enum():
                return TEXT
            case Fixed():
                return BINARY
            case Array():
                return VARIANT if entry_of(node) else ARRAY
            case Union():
                branches = self._branches(node)
                if isinstance(branches, list):
                    return VARIANT
                return self.type(branches) if branches else None
        return VARIANT

    def _branches(self, node: Union) -> Node | list[Node] | None:
        """The one type that the union is; the types that an object has a field for; None where it is always null."""
        named = [branch for branch in node.branches if not is_null(branch)]
        if len(named) > 1 or (len(node.branches) == 1 and named and not self._flatten):
            return named
        return named[0] if named else None


_AVRO: dict[tuple[str, str], ColumnType | None] = {
    ("null", ""): None,
    ("boolean", ""): BOOLEAN,
    ("int", ""): INTEGER,
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME,
    ("long", ""): INTEGER,
    ("float", ""): FLOAT,
    ("double", ""): FLOAT,
    ("bytes", ""): BINARY,
    ("string", ""): TEXT,
}


def _json_value(found: JsonType) -> _Value:
    match found:
        case Struct():
            return _Value(VARIANT, {name: _json_type(slot.type) for name, slot in found.slots.items()})
        case OneOf():
            return _Value(VARIANT, {name: _json_type(branch) for name, branch in found.branches.items()})
    return _Value(_json_type(found), {})


def _json_type(found: JsonType) -> ColumnType | None:
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


class _Protobuf:
    def __init__(self, options: ProtobufOptions) -> None:
        self._options = options

    def value(self, message: Descriptor) -> _Value:
        if self._is_raw(message):
            return _Value(self._single(message.fields_by_name["value"]), {})
        fields = protobuf_types.struct_fields(message, self._options)
        return _Value(
            VARIANT,
            {name: self._field(each) if isinstance(each, FieldDescriptor) else VARIANT for name, each in fields},
        )

    def _is_raw(self, message: Descriptor) -> bool:
        return self._options.raw_wrappers and message.full_name in protobuf_types.WRAPPERS

    def _field(self, field: FieldDescriptor) -> ColumnType:
        if field.message_type and field.message_type.GetOptions().map_entry:
            return VARIANT
        return ARRAY if field.is_repeated else self._single(field)

    def _single(self, field: FieldDescriptor) -> ColumnType:
        message = field.message_type
        if message:
            if self._is_raw(message):
                return self._single(message.fields_by_name["value"])
            return _PROTOBUF_MESSAGES.get(message.full_name, VARIANT)
        if field.enum_type:
            return INTEGER if self._options.enums_as_numbers else TEXT
        return _PROTOBUF.get(field.type, INTEGER)


# Each Decimal tells its own scale, so that no NUMBER is sure to hold it.
_PROTOBUF_MESSAGES = {
    protobuf_types.DECIMAL: TEXT,
    protobuf_types.DATE: DATE,
    protobuf_types.TIME_OF_DAY: TIME,
    protobuf_types.TIMESTAMP: TIMESTAMP,
}
_PROTOBUF = {
    FieldDescriptor.TYPE_BOOL: BOOLEAN,
    FieldDescriptor.TYPE_FLOAT: FLOAT,
    FieldDescriptor.TYPE_DOUBLE: FLOAT,
    FieldDescriptor.TYPE_STRING: TEXT,
    FieldDescriptor.TYPE_BYTES: BINARY,
}
