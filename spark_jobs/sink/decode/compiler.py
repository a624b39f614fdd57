"""Builds the readers of the reference decoder out of a schema's graph: one closure per type.

A reader appends the JSON of its value to a list of parts, which is joined once at the end: however often the schema's
own texts are named, the list only refers to them. Not for: the types that hold no others (`leaves`).
"""

from __future__ import annotations

from collections.abc import Iterable

from spark_jobs.sink.decode.defaults import NullTexts
from spark_jobs.sink.decode.leaves import constant, enum_reader, fixed_reader, scalar_reader
from spark_jobs.sink.decode.scalars import quoted
from spark_jobs.sink.decode.schema import Array, Enum, Fixed, Map, Node, Record, Scalar, Union, is_null
from spark_jobs.sink.decode.shapes import Shapes, entry_of, is_text
from spark_jobs.sink.decode.surroundings import append_object, append_pairs, key_text, surroundings, within
from spark_jobs.sink.decode.wire import (
    MAX_FREE_FIELDS,
    Limits,
    Reader,
    malformed,
    read_blocks,
    read_long,
    read_span,
    too_large,
)

MAX_DEPTH = 100
"""Levels of records, arrays and maps within each other. Each takes six of Python's frames at most, so that this limit
is met long before Python's own, whoever calls."""
_LONGEST_LEAF = 64  # characters that a value of a few bytes becomes at most


class Compiler:
    """Builds one reader per type; a record that leads back to itself is one that calls itself.

    longest: characters that one part has at most, beyond those that come out of the data.
    """

    def __init__(self, nulls: NullTexts, time_zone: str, limits: Limits, flatten_singletons: bool) -> None:
        self._nulls, self._zone, self._limits, self._flatten = nulls, time_zone, limits, flatten_singletons
        self._shapes = Shapes()
        self._counted = False
        self._named: dict[Node, Reader] = {}
        self.longest = _LONGEST_LEAF

    def whole(self, node: Node) -> Reader:
        """The reader of a value that nothing is around; a null there stays one, whatever its type's default."""
        self._counted = self._shapes.depth(node) > MAX_DEPTH
        self._shapes.takes_none(node)
        return self._union(node, "null") if isinstance(node, Union) else self.reader(node)

    def reader(self, node: Node) -> Reader:
        """The reader of one type."""
        match node:
            case Scalar():
                return scalar_reader(node, self._zone)
            case Fixed() | Enum():
                return self._leaf(node)
            case Array():
                entry = entry_of(node)
                return self._nested(self._array(node) if entry is None else self._entries(entry))
            case Map():
                return self._nested(self._map(node))
            case Union():
                return self._union(node, self._nulls.of_union(node))
            case Record():
                return self._record(node)

    def _known(self, texts: Iterable[str]) -> None:
        """Note texts of the schema's own that become parts."""
        self.longest = max(self.longest, *map(len, texts), 0)

    def _nested(self, read: Reader) -> Reader:
        """`read`, counted in depth where values of the schema can be too deep."""
        if not self._counted:
            return read
        limits = self._limits

        def counted(data: bytes, pos: int, out: list[str]) -> int:
            limits.depth += 1
            if limits.depth > MAX_DEPTH:
                raise malformed(f"nested more than {MAX_DEPTH} levels deep")
            pos = read(data, pos, out)
            limits.depth -= 1
            return pos

        return counted

    def _leaf(self, node: Fixed | Enum) -> Reader:
        if node not in self._named:
            if isinstance(node, Enum):
                self._known(map(quoted, node.symbols))
                self._named[node] = enum_reader(node)
            else:
                self._named[node] = fixed_reader(node)
        return self._named[node]

    def _array(self, node: Array) -> Reader:
        item, empty, limits = self.reader(node.items), self._shapes.takes_none(node.items), self._limits

        def read(data: bytes, pos: int, out: list[str]) -> int:
            def read_item(at: int) -> int:
                at = item(data, at, out)
                out.append(",")
                return at

            out.append("[")
            pos = read_blocks(data, pos, read_item, limits, empty)
            if out[-1] == ",":
                out.pop()
            out.append("]")
            return pos

        return read

    def _map(self, node: Map) -> Reader:
        value, limits = self.reader(node.values), self._limits

        def read(data: bytes, pos: int, out: list[str]) -> int:
            entries: dict[str, list[str]] = {}

            def read_entry(at: int) -> int:
                at, end = read_span(data, at)
                key, parts = data[at:end].decode(), list[str]()
                at = value(data, end, parts)
                entries[key] = parts
                return at

            pos = read_blocks(data, pos, read_entry, limits, empty=False)
            append_object(out, [(quoted(key), parts) for key, parts in entries.items()])
            return pos

        return read

    def _entries(self, entry: Record) -> Reader:
        """A map as an array of its entries; of equal keys the last one stands, as in Java's maps."""
        (first, one), (_, other) = entry.fields
        readers, at_key, limits = (self.reader(one), self.reader(other)), int(first != "key"), self._limits
        keyed = is_text(entry.fields[at_key][1])
        empty = self._shapes.takes_none(entry)

        def read(data: bytes, pos: int, out: list[str]) -> int:
            entries: dict[tuple[str, ...], list[str]] = {}

            def read_entry(at: int) -> int:
                parts: tuple[list[str], list[str]] = [], []
                at = readers[0](data, at, parts[0])
                at = readers[1](data, at, parts[1])
                entries[tuple(parts[at_key])] = parts[1 - at_key]
                return at

            pos = read_blocks(data, pos, read_entry, limits, empty)
            if keyed:
                append_object(out, [(key_text("".join(key)), parts) for key, parts in entries.items()])
            else:
                append_pairs(out, entries)
            return pos

        return read

    def _union(self, node: Union, null: str) -> Reader:
        self._known([null])
        readers = [constant(null) if is_null(branch) else self.reader(branch) for branch in node.branches]
        named = [at for at, branch in enumerate(node.branches) if not is_null(branch)]
        if len(named) >= 2 or (len(node.branches) == 1 and named and not self._flatten):
            nulls = [self._nulls.of(node.branches[at]) for at in named]
            around, length = surroundings(node, named, nulls, self._limits)
            self.longest = max(self.longest, length)
            readers = [
                read if is_null(node.branches[at]) else within(read, around, at) for at, read in enumerate(readers)
            ]

        def read(data: bytes, pos: int, out: list[str]) -> int:
            number, pos = read_long(data, pos)
            if not 0 <= number < len(readers):
                raise malformed(f"branch {number} of a union of {len(readers)}")
            return readers[number](data, pos, out)

        return read

    def _record(self, node: Record) -> Reader:
        if node in self._named:
            return self._named[node]
        built: list[Reader] = []
        self._named[node] = _again(built)
        names = [("," if at else "{") + quoted(name) + ":" for at, (name, _) in enumerate(node.fields)]
        self._known(names)
        fields = [(before, self.reader(child)) for before, (_, child) in zip(names, node.fields, strict=True)]
        last = "}" if fields else "{}"

        def read(data: bytes, pos: int, out: list[str]) -> int:
            for before, value in fields:
                out.append(before)
                pos = value(data, pos, out)
            out.append(last)
            return pos

        built.append(self._nested(self._bounded(node, read)))
        self._named[node] = built[0]
        return built[0]

    def _bounded(self, node: Record, read: Reader) -> Reader:
        """`read`, counted where fields take no bytes: they double with every level of a record used twice."""
        free, limits = sum([self._shapes.takes_none(child) for _, child in node.fields]), self._limits
        if not free:
            return read

        def counted(data: bytes, pos: int, out: list[str]) -> int:
            limits.free_fields += free
            if limits.free_fields > MAX_FREE_FIELDS:
                raise too_large(f"the value has more than {MAX_FREE_FIELDS} fields that take no bytes")
            return read(data, pos, out)

        return counted


def _again(built: list[Reader]) -> Reader:
    """The reader of a record inside itself: found at run time."""

    def read(data: bytes, pos: int, out: list[str]) -> int:
        return built[0](data, pos, out)

    return read
