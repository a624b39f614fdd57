"""Arrow columns to JSON text, a whole batch at a time: the text that `reference` would give, row by row.

The text of a column is a list of parts, constants and string arrays, that are joined once at the end, so a record
costs one pass however many fields it has. A byte of data can name a symbol, a null or a field whose text the schema
makes as long as it likes: such text is counted before it is made. Not for: reading Avro, or types that `check` refuses.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_jobs.sink.decode import capacity
from spark_jobs.sink.decode.defaults import NullTexts
from spark_jobs.sink.decode.records import OutputTooLargeError
from spark_jobs.sink.decode.scalars import MILLIS_PER_DAY, quoted
from spark_jobs.sink.decode.schema import Array, Enum, Map, Node, Record, Scalar, Union
from spark_jobs.sink.decode.shapes import nullable

Parts: TypeAlias = list[str | pa.StringArray]
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896  # 0001-01-01 and 9999-12-31
_LONGEST_ESCAPE = 6


class DoubtfulError(Exception):
    """The columns hold something whose text only the reference knows."""


def join(parts: Parts) -> pa.StringArray:
    """One text per row: the parts one after the other; null where an array among them is null."""
    merged: Parts = []
    for part in parts:
        if merged and isinstance(part, str) and isinstance(merged[-1], str):
            merged[-1] += part
        else:
            merged.append(part)
    return merged[0] if len(merged) == 1 else pc.binary_join_element_wise(*merged, "")


def escaped(text: pa.StringArray) -> pa.StringArray:
    """The text as it stands between the quotes of a JSON string."""
    raw = _bytes_of(text)
    # One pass over the bytes tells that nothing is to be done, which is the rule.
    marked = np.count_nonzero((raw < 0x20) | (raw == 0x22) | (raw == 0x5C))
    if not marked:
        return text
    if len(raw) + _LONGEST_ESCAPE * marked > capacity.MAX_BYTES:
        raise OutputTooLargeError  # Arrow does not notice
    special = sorted({0x5C, 0x22} | {int(byte) for byte in np.unique(raw) if byte < 0x20}, reverse=True)
    for byte in special:
        text = pc.replace_substring(text, chr(byte), quoted(chr(byte))[1:-1])
    return text


def _bytes_of(text: pa.StringArray) -> npt.NDArray[np.uint8]:
    """The bytes of all rows; a slice shares its buffer with many other rows."""
    data = text.buffers()[2]
    if data is None:
        return np.zeros(0, np.uint8)
    bounds = capacity.text_bounds(text)
    return np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]


def double_texts(values: pa.Array) -> pa.StringArray:
    """Shortest round-trip texts of doubles or floats; `.0` behind whole numbers; NaN and infinities as strings."""
    text = values.cast(pa.string())
    whole = pc.and_(pc.less(pc.abs(values), 1e10), pc.equal(pc.trunc(values), values))
    if pc.any(whole).as_py():
        text = pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
    finite = pc.is_finite(values)
    if pc.all(finite).as_py() is False:
        infinite = pc.if_else(pc.greater(values, 0), '"Infinity"', '"-Infinity"')
        text = pc.if_else(finite, text, pc.if_else(pc.is_nan(values), '"NaN"', infinite))
    return text


def last_wins(row_of: np.ndarray, keys: pa.StringArray) -> np.ndarray | None:
    """Positions that stay when of equal keys within a row the last one stands; None where all stay."""
    codes = pc.dictionary_encode(keys)
    entry = row_of * (len(codes.dictionary) + 1) + codes.indices.to_numpy(zero_copy_only=False)
    _, last = np.unique(entry[::-1], return_index=True)
    if len(last) == len(entry):
        return None
    return np.sort(len(entry) - 1 - last)


def objects(offsets: np.ndarray, keys: pa.StringArray, values: pa.StringArray) -> pa.StringArray:
    """JSON objects out of flat keys and value texts; row i holds the entries from offsets[i] to offsets[i + 1]."""
    if len(keys):
        rows = np.arange(len(offsets) - 1)
        row_of = np.repeat(rows, np.diff(offsets))
        stay = last_wins(row_of, keys)
        if stay is not None:
            keys, values = keys.take(pa.array(stay)), values.take(pa.array(stay))
            offsets = np.searchsorted(row_of[stay], np.arange(len(offsets)))
    entries = join(['"', escaped(keys), '":', values])
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), entries)
    return join(["{", pc.binary_join(lists, ","), "}"])


class Renderer:
    """Renders the columns of one schema, an enum as the numbers of its symbols. Not thread-safe."""

    def __init__(self, node: Node, time_zone: str, *, null_defaults: bool = True) -> None:
        self._node, self._zone, self._nulls = node, time_zone, NullTexts(time_zone, null_defaults)
        self._symbols: dict[Enum, pa.StringArray] = {}
        self._from_schema = 0

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
                return [self._enum(node, column)]
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
        if node.kind == "int":
            column = column.cast(pa.int32())  # raises where an int is out of range
        if node.kind == "string":
            return ['"', escaped(column), '"']
        return [double_texts(column) if node.kind in ("float", "double") else column.cast(pa.string())]

    def _enum(self, node: Enum, column: pa.Array) -> pa.StringArray:
        if node not in self._symbols:
            self._symbols[node] = pa.array(map(quoted, node.symbols), pa.string())
        symbols = self._symbols[node]
        self._count(pc.sum(pc.binary_length(symbols).take(column)).as_py() or 0)
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


def _within(column: pa.Array, least: int, most: int) -> None:
    low, high = pc.min_max(column).values()
    if low.is_valid and not (least <= low.as_py() and high.as_py() <= most):
        raise DoubtfulError("a date or time beyond what Arrow prints")
