"""Values of Kafka Connect's data model, with or without a schema, to the JSON that the official connector writes.

The forms are those of RecordService of connector 2.5.0: tests/vectors decides. Values in Python: bool, int, float, str
and bytes; Decimal is a decimal.Decimal; Date is the days, Time the milliseconds of a day, Timestamp the milliseconds
since 1970 as int; an array is a sequence, a map a dict or a sequence of pairs, a struct a dict.
Not for: reading any format. Values are taken to be what their schema says, but for nulls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, TypeAlias

from spark_jobs.sink.decode.base import scalars
from spark_jobs.sink.decode.base.contract import MalformedError
from spark_jobs.sink.decode.base.json_text import number_text
from spark_jobs.sink.decode.base.rows import Budget
from spark_jobs.sink.decode.base.scalars import CLASSIC_ZONE, quoted
from spark_jobs.sink.decode.connect.schema import DATE, DECIMAL, MAX_SCALE, TIME, Schema, Type
from spark_jobs.sink.values.bad_records import SCHEMA_MISMATCH

Write: TypeAlias = Callable[[Any], str]


def json_text(schema: Schema | None, value: Any, *, time_zone: str = CLASSIC_ZONE) -> str | None:
    """The JSON text of a record's value; None where it is null, a tombstone.

    time_zone: what a time of day ends with. Raises MalformedError for a null that the schema does not allow, and for a
    value without schema that Connect has no type for.
    """
    if value is None and (schema is None or (schema.optional and schema.default is None)):
        return None
    return writer(schema, time_zone, "value")(value)


def writer(schema: Schema | None, time_zone: str, path: str, budget: Budget | None = None) -> Write:
    """The function that gives the JSON text of a value of `schema`; `path` is what its errors call the value.

    budget: pays for names and defaults; None where a value has no others in it.
    """
    if schema is None:
        return schemaless_text
    return _Writers(time_zone, budget or Budget()).writer(schema, path)


def schemaless_text(value: Any) -> str:
    """The JSON text of a value without a schema. Raises MalformedError for types that Connect lacks."""
    match value:
        case None:
            return "null"
        case bool():
            return scalars.boolean_text(value)
        case str():
            return quoted(value)
        case int():
            return number_text(str(value))
        case float():
            return scalars.double_text(value)
        case bytes():
            return scalars.base64_text(value)
        case list() | tuple():
            return "[" + ",".join(map(schemaless_text, value)) + "]"
        case dict():
            return _map_text(
                ((schemaless_text(key), schemaless_text(each)) for key, each in value.items()), _keyed(value)
            )
    raise MalformedError(SCHEMA_MISMATCH, f"Connect has no type for a {type(value).__name__} without a schema")


class _Writers:
    """Makes the writers of one schema, which spend from one budget."""

    def __init__(self, zone: str, budget: Budget) -> None:
        self._zone, self._budget = zone, budget

    def writer(self, schema: Schema | None, path: str) -> Write:
        if schema is None:
            return schemaless_text
        write, absent = self._present(schema, path), self._absent(schema, path)
        return lambda value: absent() if value is None else write(value)

    def _present(self, schema: Schema, path: str) -> Write:
        match schema.type:
            case Type.ARRAY:
                return self._array(schema, path)
            case Type.MAP:
                return self._map(schema, path)
            case Type.STRUCT:
                return self._struct(schema, path)
        if (schema.type, schema.name) == (Type.INT32, TIME):
            return lambda millis: scalars.time_text(millis, self._zone)
        return _LOGICAL.get((schema.type, schema.name)) or _PLAIN[schema.type]

    def _absent(self, schema: Schema, path: str) -> Callable[[], str]:
        """What stands for a null: the default, or null where it is allowed."""
        if schema.default is not None:
            text, spend = self._present(schema, path)(schema.default), self._budget.spend

            def default() -> str:
                spend(len(text))
                return text

            return default
        if schema.optional:
            return lambda: "null"

        def refuse() -> str:
            raise MalformedError(SCHEMA_MISMATCH, f"{path} is null, and its schema requires a value")

        return refuse

    def _array(self, schema: Schema, path: str) -> Write:
        item = self.writer(schema.value, f"{path}[]")
        return lambda values: "[" + ",".join(map(item, values)) + "]"

    def _map(self, schema: Schema, path: str) -> Write:
        key, value = self.writer(schema.key, f"{path} (key)"), self.writer(schema.value, f"{path}{{}}")
        keyed = schema.key is not None and schema.key.type is Type.STRING

        def write(entries: Any) -> str:
            pairs = entries.items() if isinstance(entries, Mapping) else entries
            return _map_text(((key(name), value(each)) for name, each in pairs), keyed)

        return write

    def _struct(self, schema: Schema, path: str) -> Write:
        fields = [
            (("," if at else "{") + quoted(name) + ":", name, self.writer(child, f"{path}.{name}"))
            for at, (name, child) in enumerate(schema.fields)
        ]
        last = "}" if fields else "{}"
        width, spend = sum(len(before) for before, _, _ in fields) + len(last), self._budget.spend

        def write(values: Any) -> str:
            spend(width)
            return "".join([before + text(values.get(name)) for before, name, text in fields]) + last

        return write


def _map_text(pairs: Iterable[tuple[str, str]], keyed: bool) -> str:
    """An object, or an array of pairs where keys are no strings; of equal keys the last one stands."""
    return scalars.map_text(dict(pairs).items(), keyed=keyed)


def _keyed(value: Mapping[Any, Any]) -> bool:
    return all(isinstance(key, str) for key in value)


def _decimal(value: Decimal) -> str:
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or not -MAX_SCALE <= exponent <= scalars.MAX_NUMBER_DIGITS:
        return number_text(str(value))  # written out it would be mostly zeros
    return scalars.decimal_text(value)


_PLAIN: dict[Type, Write] = {
    Type.BOOLEAN: scalars.boolean_text,
    Type.INT8: str,
    Type.INT16: str,
    Type.INT32: str,
    Type.INT64: str,
    Type.FLOAT32: scalars.float_text,
    Type.FLOAT64: scalars.double_text,
    Type.STRING: quoted,
    Type.BYTES: scalars.base64_text,
}
_LOGICAL: dict[tuple[Type, str | None], Write] = {
    (Type.INT32, DATE): scalars.date_text,
    (Type.BYTES, DECIMAL): _decimal,
}
