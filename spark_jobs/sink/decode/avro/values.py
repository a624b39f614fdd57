"""The reference decoder: one Avro body to JSON text, strict and bounded. It defines the result.

Written out rather than built on fastavro, which takes a negative enum or union index for one from the end, counts
through 2**60 nulls, and ends the process on a deeply nested value (docs/decisions/0002-two-decoders.md). A schema's
graph is compiled to one closure per type, which appends the JSON of its value to a list of parts: they are joined once
at the end, so that however often the schema's own texts are named, the list only refers to them.
The limits are those of `binary`, and MAX_DEPTH levels of records, arrays and maps. Not for types that hold no others
(`binary`).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TypeAlias

from spark_jobs.sink.decode.avro.binary import (
    MAX_FREE_FIELDS,
    Limits,
    Reader,
    constant,
    enum_reader,
    fixed_reader,
    malformed,
    read_blocks,
    read_long,
    read_span,
    scalar_reader,
    too_large,
)
from spark_jobs.sink.decode.avro.defaults import NullTexts
from spark_jobs.sink.decode.avro.schema import (
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Record,
    Scalar,
    Union,
    ValueBounds,
    branch_names,
    entry_of,
    is_null,
    is_text,
)
from spark_jobs.sink.decode.base import contract
from spark_jobs.sink.decode.base.contract import MalformedError
from spark_jobs.sink.decode.base.scalars import quoted
from spark_jobs.sink.values.bad_records import INVALID_UTF8, MALFORMED_AVRO, TRAILING_BYTES

_MAX_KEPT = 1 << 16

BranchTexts: TypeAlias = Callable[[int], tuple[str, str]]


def wide_union_texts(node: Union, named: list[int], nulls: list[str], limits: Limits) -> tuple[BranchTexts, int]:
    """What stands before and after the value of a branch: the names of all branches, and null for the others.

    named: positions of the branches that are not null; nulls: the text of a null in each. Gives the function for a
    position, and the most characters that it gives. Those of all branches together are quadratic in their number, so
    that they are only kept where they are short.
    """
    names = [quoted(name) + ":" for name in branch_names([node.branches[at] for at in named])]
    pieces = [f"{name}{null}," for name, null in zip(names, nulls, strict=True)]
    text, spans, start = "".join(pieces), dict[int, tuple[str, int, int]](), 0
    for at, name, piece in zip(named, names, pieces, strict=True):
        spans[at] = name, start, start + len(piece)
        start += len(piece)

    def around(at: int) -> tuple[str, str]:
        name, start, end = spans[at]
        after = text[end:-1]
        return f"{{{text[:start]}{name}", f",{after}}}" if after else "}"

    def counted(at: int) -> tuple[str, str]:
        limits.text += len(text)
        if limits.text > contract.MAX_TEXT:
            raise too_large(f"the value has more than {contract.MAX_TEXT} characters of JSON")
        return around(at)

    kept = len(text) * len(named) <= _MAX_KEPT
    return {at: around(at) for at in named}.__getitem__ if kept else counted, len(text) + 2


def branch_reader(value: Reader, texts_of: BranchTexts, at: int) -> Reader:
    """The reader of one branch of a wide union, with the names of all."""

    def read(data: bytes, pos: int, out: list[str]) -> int:
        before, after = texts_of(at)
        out.append(before)
        pos = value(data, pos, out)
        out.append(after)
        return pos

    return read


def append_object(out: list[str], entries: Iterable[tuple[str, list[str]]]) -> None:
    """Append an object of names, which are quoted already, and the parts of their values."""
    before = "{"
    for key, parts in entries:
        out.append(before)
        out.append(key)
        out.append(":")
        out += parts
        before = ","
    out.append("{}" if before == "{" else "}")


def append_pairs(out: list[str], entries: dict[tuple[str, ...], list[str]]) -> None:
    """Append an array of [key, value]."""
    before = "["
    for key, parts in entries.items():
        out.append(before + "[")
        out += key
        out.append(",")
        out += parts
        out.append("]")
        before = ","
    out.append("[]" if before == "[" else "]")


def key_text(text: str) -> str:
    """The name that a key becomes: a null one is called null."""
    return '"null"' if text == "null" else text


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
        self._bounds = ValueBounds()
        self._counted = False
        self._named: dict[Node, Reader] = {}
        self.longest = _LONGEST_LEAF

    def top_level(self, node: Node) -> Reader:
        """The reader of a value that nothing is around; a null there stays one, whatever its type's default."""
        self._counted = self._bounds.depth(node) > MAX_DEPTH
        self._bounds.takes_none(node)
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
        item, empty, limits = self.reader(node.items), self._bounds.takes_none(node.items), self._limits

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
        empty = self._bounds.takes_none(entry)

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
            texts_of, length = wide_union_texts(node, named, nulls, self._limits)
            self.longest = max(self.longest, length)
            readers = [
                read if is_null(node.branches[at]) else branch_reader(read, texts_of, at)
                for at, read in enumerate(readers)
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
        self._named[node] = _recursive(built)
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
        free, limits = sum([self._bounds.takes_none(child) for _, child in node.fields]), self._limits
        if not free:
            return read

        def counted(data: bytes, pos: int, out: list[str]) -> int:
            limits.free_fields += free
            if limits.free_fields > MAX_FREE_FIELDS:
                raise too_large(f"the value has more than {MAX_FREE_FIELDS} fields that take no bytes")
            return read(data, pos, out)

        return counted


def _recursive(built: list[Reader]) -> Reader:
    """The reader of a record inside itself: found at run time."""

    def read(data: bytes, pos: int, out: list[str]) -> int:
        return built[0](data, pos, out)

    return read


_LONGEST_ESCAPE = 6  # characters that one byte of data becomes at most


class ReferenceDecoder:
    """Decodes bodies of one schema. Not thread-safe: the limits count within one value."""

    def __init__(
        self, node: Node, time_zone: str, *, null_defaults: bool = True, flatten_singletons: bool = True
    ) -> None:
        """null_defaults: whether a null within the value is its type's default, see `defaults`.

        flatten_singletons: whether a union of one type is that type, and no object with one member.
        """
        self._limits = Limits()
        compiler = Compiler(NullTexts(time_zone, null_defaults), time_zone, self._limits, flatten_singletons)
        self._read = compiler.top_level(node)
        self._longest = compiler.longest

    def decode(self, data: bytes, start: int) -> str | None:
        """The JSON text of the body of `data` from `start` to its end; None for a null. Raises MalformedError."""
        text, end = self.decode_next(data, start)
        if end != len(data):
            raise MalformedError(TRAILING_BYTES, f"{len(data) - end} bytes follow the value")
        return text

    def decode_next(self, data: bytes, start: int) -> tuple[str | None, int]:
        """The JSON text of the value at `start`, others may follow it, and where it ends. Raises MalformedError."""
        self._limits.reset()
        parts: list[str] = []
        try:
            end = self._read(data, start, parts)
        except (IndexError, struct.error):
            raise MalformedError(MALFORMED_AVRO, f"the body ends early, after {len(data) - start} bytes") from None
        except UnicodeDecodeError as error:
            raise MalformedError(INVALID_UTF8, f"a string is not UTF-8: {error.reason}") from None
        # The length is only counted where it may be too long: what is no text of the schema's comes out of the bytes.
        if len(parts) * self._longest + (end - start) * _LONGEST_ESCAPE > contract.MAX_TEXT:
            _check(parts)
        text = "".join(parts)
        return None if text == "null" else text, end


def _check(parts: list[str]) -> None:
    if sum(map(len, parts)) > contract.MAX_TEXT:
        raise too_large(f"the value has more than {contract.MAX_TEXT} characters of JSON")
