"""The reference decoder: one Avro body to JSON text, strict and bounded. It defines the result.

Written out rather than built on fastavro, which takes a negative enum or union index for one from the end, counts
through 2**60 nulls, and ends the process on a deeply nested value (docs/decisions/0002-two-decoders.md).
The limits are those of `wire`, and MAX_DEPTH levels of a record inside itself.
"""

from __future__ import annotations

import struct

from spark_jobs.sink.decode import scalars
from spark_jobs.sink.decode.defaults import NullTexts
from spark_jobs.sink.decode.leaves import constant, enum_reader, fixed_reader, scalar_reader
from spark_jobs.sink.decode.records import INVALID_UTF8, MALFORMED_AVRO, TRAILING_BYTES, MalformedError
from spark_jobs.sink.decode.schema import (
    Array,
    Enum,
    Fixed,
    Map,
    Node,
    Record,
    Scalar,
    Union,
    branch_names,
    is_null,
    min_size,
)
from spark_jobs.sink.decode.wire import (
    BoundedParts,
    Limits,
    NewParts,
    Reader,
    malformed,
    read_blocks,
    read_long,
    read_span,
)

MAX_DEPTH = 150


class ReferenceDecoder:
    """Decodes bodies of one schema. Not thread-safe: the limits count within one value."""

    def __init__(self, node: Node, time_zone: str, *, null_defaults: bool = True, max_text: int | None = None) -> None:
        """null_defaults: whether a null within the value is its type's default, see `defaults`.

        max_text: characters of JSON in one value, for a schema that nobody but the data's writer answers for.
        """
        limits = Limits()
        parts: NewParts = list if max_text is None else lambda: BoundedParts(limits, max_text)
        self._read = _Compiler(NullTexts(time_zone, null_defaults), time_zone, limits, parts).whole(node)
        self._limits, self._parts = limits, parts

    def decode(self, data: bytes, start: int) -> str | None:
        """The JSON text of the body of `data` from `start` to its end; None for a null. Raises MalformedError."""
        text, end = self.decode_next(data, start)
        if end != len(data):
            raise MalformedError(TRAILING_BYTES, f"{len(data) - end} bytes follow the value")
        return text

    def decode_next(self, data: bytes, start: int) -> tuple[str | None, int]:
        """The JSON text of the value at `start`, others may follow it, and where it ends. Raises MalformedError."""
        self._limits.depth = self._limits.empty_items = self._limits.text = 0
        parts = self._parts()
        try:
            end = self._read(data, start, parts)
        except (IndexError, struct.error):
            raise MalformedError(MALFORMED_AVRO, f"the body ends early, after {len(data) - start} bytes") from None
        except UnicodeDecodeError as error:
            raise MalformedError(INVALID_UTF8, f"a string is not UTF-8: {error.reason}") from None
        except RecursionError:
            raise MalformedError(MALFORMED_AVRO, "nested too deeply") from None
        text = "".join(parts)
        return None if text == "null" else text, end


class _Compiler:
    """Builds one closure per node; a record that leads back to itself is one closure that calls itself."""

    def __init__(self, nulls: NullTexts, time_zone: str, limits: Limits, parts: NewParts) -> None:
        self._nulls, self._zone, self._limits, self._parts = nulls, time_zone, limits, parts
        self._records: dict[Record, list[Reader]] = {}

    def whole(self, node: Node) -> Reader:
        """The reader of a value that nothing is around; a null there stays one, whatever its type's default."""
        return self._union(node, "null") if isinstance(node, Union) else self.reader(node)

    def reader(self, node: Node) -> Reader:
        match node:
            case Scalar():
                return scalar_reader(node, self._zone)
            case Fixed():
                return fixed_reader(node)
            case Enum():
                return enum_reader(node)
            case Array():
                return self._array(node)
            case Map():
                return self._map(node)
            case Union():
                return self._union(node, self._nulls.of_union(node))
            case Record():
                return self._record(node)

    def _array(self, node: Array) -> Reader:
        item, empty, limits = self.reader(node.items), min_size(node.items) == 0, self._limits

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
        value, limits, new_parts = self.reader(node.values), self._limits, self._parts

        def read(data: bytes, pos: int, out: list[str]) -> int:
            entries: dict[str, str] = {}

            def read_entry(at: int) -> int:
                at, end = read_span(data, at)
                key, parts = data[at:end].decode(), new_parts()
                at = value(data, end, parts)
                entries[key] = "".join(parts)
                return at

            pos = read_blocks(data, pos, read_entry, limits, empty=False)
            out.append("{" + ",".join([f"{scalars.quoted(key)}:{text}" for key, text in entries.items()]) + "}")
            return pos

        return read

    def _union(self, node: Union, null: str) -> Reader:
        branches = [
            (*self._around(node, number), constant(null) if is_null(branch) else self.reader(branch))
            for number, branch in enumerate(node.branches)
        ]

        def read(data: bytes, pos: int, out: list[str]) -> int:
            number, pos = read_long(data, pos)
            if not 0 <= number < len(branches):
                raise malformed(f"branch {number} of a union of {len(branches)}")
            before, after, value = branches[number]
            out.append(before)
            pos = value(data, pos, out)
            out.append(after)
            return pos

        return read

    def _around(self, node: Union, number: int) -> tuple[str, str]:
        """What stands before and after the value of a branch: nothing, unless the union is a wide one."""
        named = [branch for branch in node.branches if not is_null(branch)]
        if len(named) < 2 or is_null(node.branches[number]):
            return "", ""
        names = [scalars.quoted(name) for name in branch_names(named)]
        nulls = [f"{name}:{self._nulls.of(branch)}" for name, branch in zip(names, named, strict=True)]
        at = named.index(node.branches[number])
        before = "".join(f"{each}," for each in nulls[:at])
        after = "".join(f",{each}" for each in nulls[at + 1 :])
        return "{" + before + names[at] + ":", after + "}"

    def _record(self, node: Record) -> Reader:
        if node in self._records:
            return _again(self._records[node], self._limits)
        self._records[node] = built = list[Reader]()
        names = [scalars.quoted(name) for name, _ in node.fields]
        fields = [
            (("," if at else "{") + names[at] + ":", self.reader(child)) for at, (_, child) in enumerate(node.fields)
        ]
        last = "}" if fields else "{}"

        def read(data: bytes, pos: int, out: list[str]) -> int:
            for before, value in fields:
                out.append(before)
                pos = value(data, pos, out)
            out.append(last)
            return pos

        built.append(read)
        return read


def _again(built: list[Reader], limits: Limits) -> Reader:
    """The reader of a record that is met again, perhaps inside itself: found at run time, counted in depth."""

    def read(data: bytes, pos: int, out: list[str]) -> int:
        limits.depth += 1
        if limits.depth > MAX_DEPTH:
            raise malformed(f"nested more than {MAX_DEPTH} levels deep")
        pos = built[0](data, pos, out)
        limits.depth -= 1
        return pos

    return read
