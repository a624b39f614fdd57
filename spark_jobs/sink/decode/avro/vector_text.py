"""Arrow columns to JSON text, a whole batch at a time: the text that the reference decoder would give, row by row.

The text of a column is a list of parts, constants and string arrays, that are joined once at the end, so a record
costs one pass however many fields it has. A byte of data can name a symbol, a null or a field whose text the schema
makes as long as it likes: such text is counted before it is made. Not for: reading Avro (`vector`).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.sink.decode.avro.defaults import NullTexts
from spark_jobs.sink.decode.avro.schema import Array, Enum, Map, Node, Record, Scalar, Union, nullable
from spark_jobs.sink.decode.base import capacity
from spark_jobs.sink.decode.base.contract import OutputTooLargeError
from spark_jobs.sink.decode.base.field_columns import FieldColumn, RecordFields
from spark_jobs.sink.decode.base.scalars import MILLIS_PER_DAY, quoted
from spark_jobs.sink.decode.base.texts import Parts, as_text, double_texts, escaped, field_parts, join, objects

_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31


class DoubtfulError(Exception):
    """The columns hold something whose text only the reference knows."""


class Renderer:
    """Renders the columns of one schema, an enum as the numbers of its symbols. Not thread-safe."""

    def __init__(self, node: Node, time_zone: str, *, null_defaults: bool = True) -> None:
        self._node, self._zone, self._nulls = node, time_zone, NullTexts(time_zone, null_defaults)
        self._symbols: dict[Enum, pa.StringArray] = {}
        self._from_schema = 0

    def record(self, column: pa.Array) -> RecordFields | None:
        """The fields of records and their JSON text; None where values are no records. Raises as `texts`."""
        self._from_schema = 0
        if not isinstance(self._node, Record):
            return None
        columns = {name: self._field(child, column.field(at)) for at, (name, child) in enumerate(self._node.fields)}
        parts: Parts = []
        for at, (name, found) in enumerate(columns.items()):
            parts += [("," if at else "{") + quoted(name) + ":"]
            parts += field_parts(found) if isinstance(found, FieldColumn) else [found]
        return RecordFields(self._joined([*parts, "}"]), columns)

    def _field(self, node: Node, column: pa.Array) -> FieldColumn | pa.StringArray:
        """The column of a field of numbers, strings, booleans or symbols; of all others the JSON text."""
        only = nullable(node) if isinstance(node, Union) else node
        if only is None or (only is not node and column.null_count and self._nulls.of(only) != "null"):
            return self._joined(self._parts(node, column))
        match only:
            case Scalar() if not _is_printed_apart(only):
                self._count(column.null_count * len("null"))
                return self._scalar_column(only, column)
            case Enum():
                self._count(column.null_count * len("null"))
                return FieldColumn(self._symbol(only, column))
        return self._joined(self._parts(node, column))

    def texts(self, column: pa.Array) -> pa.StringArray:
        """JSON text per row; null where the column is.

        Raises DoubtfulError, pa.ArrowInvalid, pa.ArrowIndexError where a number names no symbol, and
        OutputTooLargeError.
        """
        self._from_schema = 0
        return self._joined(self._parts(self._node, column))

    def _count(self, size: int) -> None:
        """Count bytes of text that the schema brings into the batch. Raises OutputTooLargeError."""
        self._from_schema += size
        if self._from_schema > capacity.MAX_BYTES:
            raise OutputTooLargeError

    def _joined(self, parts: Parts) -> pa.StringArray:
        constants = "".join(part for part in parts if isinstance(part, str))
        rows = next(len(part) for part in parts if not isinstance(part, str))
        self._count(rows * len(constants.encode()))
        return join(parts)

    def _parts(self, node: Node, column: pa.Array) -> Parts:
        match node:
            case Scalar():
                return self._scalar(node, column)
            case Enum():
                return ['"', escaped(self._symbol(node, column)), '"']
            case Array():
                return self._array(node, column)
            case Map():
                return self._map(node, column)
            case Union():
                return self._union(node, column)
            case Record():
                return self._record(node, column)
        raise DoubtfulError(f"no vector text for {node}")

    def _scalar(self, node: Scalar, column: pa.Array) -> Parts:
        if node.logical == "date":
            return ['"', self._dates(column), 'T00:00:00.000Z"']
        if node.logical == "time-millis":
            return ['"', self._times(column), f'{self._zone}"']
        found = self._scalar_column(node, column)
        return ['"', escaped(found.texts), '"'] if found.is_string else [found.texts]

    def _scalar_column(self, node: Scalar, column: pa.Array) -> FieldColumn:
        if node.kind == "string":
            return FieldColumn(column)
        if node.kind == "int":
            column = column.cast(pa.int32())  # raises where an int is out of range
        return FieldColumn(column, double_texts if node.kind in ("float", "double") else as_text)

    def _symbol(self, node: Enum, column: pa.Array) -> pa.StringArray:
        if node not in self._symbols:
            self._symbols[node] = pa.array(node.symbols, pa.string())
        symbols = self._symbols[node]
        quotes = 2 * (len(column) - column.null_count)
        self._count(quotes + (pc.sum(pc.binary_length(symbols).take(column)).as_py() or 0))
        return symbols.take(column)

    def _dates(self, column: pa.Array) -> pa.StringArray:
        _within(column, _FIRST_DAY, _LAST_DAY)
        return column.cast(pa.int32()).cast(pa.date32()).cast(pa.string())

    def _times(self, column: pa.Array) -> pa.StringArray:
        _within(column, 0, MILLIS_PER_DAY - 1)
        return column.cast(pa.int32()).cast(pa.time32("ms")).cast(pa.string())

    def _array(self, node: Array, column: pa.ListArray) -> Parts:
        texts = self._joined(self._parts(node.items, column.values))
        lists = pa.ListArray.from_arrays(column.offsets, texts)
        return ["[", pc.binary_join(lists, ","), "]"]

    def _map(self, node: Map, column: pa.MapArray) -> Parts:
        values = self._joined(self._parts(node.values, column.items))
        return [objects(column.offsets.to_numpy(), column.keys, values)]

    def _union(self, node: Union, column: pa.Array) -> Parts:
        only = nullable(node)
        if only is None:
            raise DoubtfulError("a wide union")
        parts = self._parts(only, column)
        if column.null_count == 0:
            return parts
        null = self._nulls.of(only)
        self._count(column.null_count * len(null.encode()))
        return [pc.if_else(column.is_valid(), self._joined(parts), null)]

    def _record(self, node: Record, column: pa.StructArray) -> Parts:
        parts: Parts = []
        for at, (name, child) in enumerate(node.fields):
            parts += [("," if at else "{") + quoted(name) + ":", *self._parts(child, column.field(at))]
        return [*parts, "}"]


def _is_printed_apart(node: Scalar) -> bool:
    """Whether the JSON of a value is that of a date or time, and not of the number or string that Avro has."""
    return node.logical in ("date", "time-millis")


def _within(column: pa.Array, least: int, most: int) -> None:
    low, high = pc.min_max(column).values()
    if low.is_valid and not (least <= low.as_py() and high.as_py() <= most):
        raise DoubtfulError("a date or time beyond what Arrow prints")
